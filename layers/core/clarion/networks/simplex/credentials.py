"""Keys as SimpleX sends them, and what their owners authorize a transmission by.

    Ed25519, Ed448    the signature (64 or 114 bytes)
    X25519            the authenticator (80): NaCl's box of the SHA-512, for the other side's key of this session

RFC 8410 leaves nothing of a key's DER to choose: a constant, and the raw key. An agent signs by Ed25519; a server has to
verify all three.
"""

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256, sha512
from hmac import compare_digest

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PrivateKey, Ed448PublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from nacl.exceptions import CryptoError
from nacl.public import Box, PrivateKey, PublicKey

from clarion.networks.simplex.encoding import MalformedSimplex

type AuthorizationKey = Ed25519PublicKey | Ed448PublicKey | PublicKey
type SigningKey = Ed25519PrivateKey | Ed448PrivateKey | PrivateKey

NONCE_BYTES = Box.NONCE_SIZE
_X25519 = bytes.fromhex("302a300506032b656e032100")
_PUBLIC: Mapping[bytes, Callable[[bytes], AuthorizationKey]] = {
    bytes.fromhex("302a300506032b6570032100"): Ed25519PublicKey.from_public_bytes,
    bytes.fromhex("3043300506032b6571033a00"): Ed448PublicKey.from_public_bytes,
    _X25519: PublicKey,
}
_PRIVATE: Mapping[bytes, Callable[[bytes], SigningKey]] = {
    bytes.fromhex("302e020100300506032b657004220420"): Ed25519PrivateKey.from_private_bytes,
    bytes.fromhex("3047020100300506032b6571043b0439"): Ed448PrivateKey.from_private_bytes,
    bytes.fromhex("302e020100300506032b656e04220420"): PrivateKey,
}
_CHAIN_LENGTHS = range(2, 5)
_DUMMY_KEYS: Mapping[int, AuthorizationKey] = {
    64: Ed25519PrivateKey.from_private_bytes(bytes(32)).public_key(),
    80: PrivateKey(bytes(32)).public_key,
    114: Ed448PrivateKey.from_private_bytes(bytes(57)).public_key(),
}
"""By the bytes of an authorization, of which one of its key's kind has to be checked against something."""
AUTHORIZATION_BYTES = frozenset({0, *_DUMMY_KEYS})


def public_key(der: bytes) -> AuthorizationKey:
    """Raises `MalformedSimplex`."""
    return _key(der, _PUBLIC)


def dh_key(der: bytes) -> PublicKey:
    """One of X25519. Raises `MalformedSimplex`."""
    key = public_key(der)
    if not isinstance(key, PublicKey):
        raise MalformedSimplex("not a key of X25519")
    return key


def private_key(der: bytes) -> SigningKey:
    """Raises `MalformedSimplex`."""
    return _key(der, _PRIVATE)


def dh_der(key: PublicKey) -> bytes:
    return _X25519 + bytes(key)


def authorize(signed: bytes, nonce: bytes, key: SigningKey, session_key: PublicKey) -> bytes:
    """What `is_authorized` takes. `nonce` is the correlation id, `session_key` the other side's for this session.

    Raises `MalformedSimplex` for a session key that no secret can be agreed on with.
    """
    if isinstance(key, PrivateKey):
        return _authenticator(signed, nonce, key, session_key)
    return key.sign(signed)


def is_authorized(
    authorization: bytes, signed: bytes, nonce: bytes, key: AuthorizationKey | None, session_key: PrivateKey
) -> bool:
    """Whether the owner of `key` has authorized it; `session_key` is ours.

    Without a key, or with one of another kind, it takes as long as with a wrong signature: a dummy key is checked.
    """
    if not authorization:
        return False
    dummy = _DUMMY_KEYS[len(authorization)]
    checked = key if isinstance(key, type(dummy)) else dummy
    return _is_made_by(checked, authorization, signed, nonce, session_key) and checked is key


def fingerprint(certificate: bytes) -> bytes:
    """What a server's address knows its identity by; `certificate` is DER."""
    return sha256(certificate).digest()


def identity_of(chain: Sequence[bytes]) -> bytes:
    """The fingerprint of a server that showed this chain of certificates, its leaf first. Raises `MalformedSimplex`."""
    if len(chain) not in _CHAIN_LENGTHS:
        raise MalformedSimplex("no chain of a leaf and an identity")
    return fingerprint(chain[1])


def _key[Key](der: bytes, kinds: Mapping[bytes, Callable[[bytes], Key]]) -> Key:
    for constant, make in kinds.items():
        if der.startswith(constant):
            try:
                return make(der.removeprefix(constant))
            except (ValueError, TypeError):
                break
    raise MalformedSimplex("not a key of a known kind")


def _is_made_by(
    key: AuthorizationKey, authorization: bytes, signed: bytes, nonce: bytes, session_key: PrivateKey
) -> bool:
    try:
        if isinstance(key, PublicKey):
            return compare_digest(authorization, _authenticator(signed, nonce, session_key, key))
        key.verify(authorization, signed)
    except (InvalidSignature, MalformedSimplex):
        return False
    return True


def _authenticator(signed: bytes, nonce: bytes, ours: PrivateKey, theirs: PublicKey) -> bytes:
    fitted = nonce[:NONCE_BYTES].ljust(NONCE_BYTES, b"\0")
    return agreed_box(ours, theirs).encrypt(sha512(signed).digest(), fitted).ciphertext


def agreed_box(ours: PrivateKey, theirs: PublicKey) -> Box:
    """Raises `MalformedSimplex` for a key of low order."""
    try:
        return Box(ours, theirs)
    except CryptoError:
        raise MalformedSimplex("no secret can be agreed on") from None
