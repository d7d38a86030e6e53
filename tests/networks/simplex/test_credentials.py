from hashlib import sha256, shake_256

import pytest
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from hypothesis import given
from hypothesis import strategies as st
from nacl.public import PrivateKey, PublicKey

from clarion.networks.simplex.credentials import (
    AUTHORIZATION_BYTES,
    AuthorizationKey,
    SigningKey,
    agreed_box,
    authorize,
    dh_der,
    dh_key,
    identity_of,
    is_authorized,
    private_key,
    public_key,
)
from clarion.networks.simplex.encoding import MalformedSimplex

OURS = PrivateKey(b"o" * 32)
ED25519 = Ed25519PrivateKey.from_private_bytes(b"1" * 32)
ED448 = Ed448PrivateKey.from_private_bytes(b"4" * 57)
X25519 = PrivateKey(b"x" * 32)
LIBRARY: dict[str, Ed25519PrivateKey | Ed448PrivateKey | X25519PrivateKey] = {
    "ed25519": ED25519,
    "ed448": ED448,
    "x25519": X25519PrivateKey.from_private_bytes(b"x" * 32),
}
"""As another library than ours has them: the DER is by its hand."""
PAIRS: list[tuple[SigningKey, AuthorizationKey]] = [
    (ED25519, ED25519.public_key()),
    (ED448, ED448.public_key()),
    (X25519, X25519.public_key),
]
KINDS = pytest.mark.parametrize(("key", "public"), PAIRS, ids=LIBRARY)


def public_der(name: str) -> bytes:
    return LIBRARY[name].public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def private_der(name: str) -> bytes:
    return LIBRARY[name].private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())


@pytest.mark.parametrize(("name", "size"), [("ed25519", 44), ("ed448", 69), ("x25519", 44)])
def test_a_public_key_is_read(name: str, size: int) -> None:
    der = public_der(name)
    key = public_key(der)
    assert len(der) == size
    assert (bytes(key) if isinstance(key, PublicKey) else key.public_bytes_raw()) == der[12:]


@pytest.mark.parametrize(("name", "size"), [("ed25519", 48), ("ed448", 73), ("x25519", 48)])
def test_a_private_key_is_read(name: str, size: int) -> None:
    der = private_der(name)
    key = private_key(der)
    assert len(der) == size
    assert (bytes(key) if isinstance(key, PrivateKey) else key.private_bytes_raw()) == der[16:]


def test_a_key_for_secrets_is_of_x25519() -> None:
    assert dh_der(dh_key(public_der("x25519"))) == public_der("x25519")
    with pytest.raises(MalformedSimplex, match="not a key of X25519"):
        dh_key(public_der("ed25519"))


def test_another_kind_of_key_is_malformed() -> None:
    rsa = generate_private_key(65537, 2048)
    with pytest.raises(MalformedSimplex):
        public_key(rsa.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))
    with pytest.raises(MalformedSimplex):
        private_key(rsa.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()))


@pytest.mark.parametrize("name", LIBRARY)
def test_a_key_has_one_length(name: str) -> None:
    for der in (public_der(name) + b"\0", public_der(name)[:-1], b"", private_der(name)):
        with pytest.raises(MalformedSimplex):
            public_key(der)
    for der in (private_der(name) + b"\0", private_der(name)[:-1], b"", public_der(name)):
        with pytest.raises(MalformedSimplex):
            private_key(der)


@KINDS
def test_what_the_owner_authorizes_holds_for_these_bytes_alone(key: SigningKey, public: AuthorizationKey) -> None:
    authorization = authorize(b"signed", b"nonce", key, OURS.public_key)
    assert len(authorization) in AUTHORIZATION_BYTES
    assert is_authorized(authorization, b"signed", b"nonce", public, OURS)
    assert not is_authorized(authorization, b"other", b"nonce", public, OURS)


def test_an_authenticator_is_of_its_session_and_its_nonce() -> None:
    authenticator = authorize(b"signed", b"n" * 30, X25519, OURS.public_key)
    assert is_authorized(authenticator, b"signed", b"n" * 24, X25519.public_key, OURS)
    assert not is_authorized(authenticator, b"signed", b"n" * 23, X25519.public_key, OURS)
    assert not is_authorized(authenticator, b"signed", b"n" * 24, X25519.public_key, PrivateKey.generate())


def test_a_short_nonce_is_filled_up_with_zeros() -> None:
    authenticator = authorize(b"signed", b"n", X25519, OURS.public_key)
    assert is_authorized(authenticator, b"signed", b"n" + bytes(23), X25519.public_key, OURS)


@KINDS
def test_no_other_key_takes_it(key: SigningKey, public: AuthorizationKey) -> None:
    authorization = authorize(b"signed", b"nonce", key, OURS.public_key)
    others = [other for _, other in PAIRS if other is not public]
    assert not any(is_authorized(authorization, b"signed", b"nonce", other, OURS) for other in [*others, None])


@pytest.mark.parametrize("size", sorted(AUTHORIZATION_BYTES))
def test_without_a_key_nothing_is_authorized(size: int) -> None:
    assert not is_authorized(bytes(size), b"signed", b"nonce", None, OURS)


def test_whoever_has_the_dummys_key_is_not_authorized_by_it() -> None:
    dummy = Ed25519PrivateKey.from_private_bytes(bytes(32))
    assert not is_authorized(dummy.sign(b"signed"), b"signed", b"nonce", None, OURS)


@given(seed=st.binary(max_size=9))
def test_a_key_of_any_bytes_authorizes_nothing_that_it_did_not_make(seed: bytes) -> None:
    raw, authorization = shake_256(seed).digest(57), shake_256(b"authorization" + seed).digest(114)
    for name, size, length in (("ed25519", 32, 64), ("x25519", 32, 80), ("ed448", 57, 114)):
        key = public_key(public_der(name)[:12] + raw[:size])
        assert not is_authorized(authorization[:length], b"signed", b"nonce", key, OURS)


def test_a_key_of_low_order_agrees_on_nothing() -> None:
    low = PublicKey(bytes(32))
    assert not is_authorized(bytes(80), b"signed", b"nonce", low, OURS)
    with pytest.raises(MalformedSimplex, match="no secret can be agreed on"):
        agreed_box(OURS, low)
    with pytest.raises(MalformedSimplex, match="no secret can be agreed on"):
        authorize(b"signed", b"nonce", X25519, low)


def test_two_keys_agree_as_nacls_authors_published_it() -> None:
    """The keys of RFC 7748, 6.1, and `firstkey` of "Cryptography in NaCl", 6."""
    alice = PrivateKey(bytes.fromhex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a"))
    bob = PublicKey(bytes.fromhex("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"))
    firstkey = "1b27556473e985d462cd51197a9a46c76009549eac6474f206c4ee0844f68389"
    assert agreed_box(alice, bob).shared_key().hex() == firstkey


@pytest.mark.parametrize("count", [2, 3, 4])
def test_a_server_is_known_by_the_second_certificate(count: int) -> None:
    chain = [bytes([number]) for number in range(count)]
    assert identity_of(chain) == sha256(b"\1").digest()


@pytest.mark.parametrize("count", [0, 1, 5])
def test_other_chains_are_malformed(count: int) -> None:
    with pytest.raises(MalformedSimplex):
        identity_of([b""] * count)
