"""Keys as SimpleX writes them, what authorises a command, and the box between two X25519 keys."""

from hashlib import sha512
from typing import Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PrivateKey, Ed448PublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_private_key,
    load_der_public_key,
)
from nacl.exceptions import CryptoError
from nacl.public import Box, PrivateKey, PublicKey

from local.simplex.codec import WireFault

NONCE = 24
"""Bytes."""

type SigningKey = Ed25519PrivateKey | Ed448PrivateKey
type SignaturePublicKey = Ed25519PublicKey | Ed448PublicKey
type AuthKey = SigningKey | X25519PrivateKey


def spki(key: SignaturePublicKey | X25519PublicKey) -> bytes:
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def pkcs8(key: AuthKey) -> bytes:
    return key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())


def auth_key(der: bytes) -> AuthKey:
    """Raises `WireFault` if it is of no kind that authorises."""
    try:
        key = load_der_private_key(der, None)
    except ValueError as error:
        raise WireFault("no private key in DER") from error
    if not isinstance(key, Ed25519PrivateKey | Ed448PrivateKey | X25519PrivateKey):
        raise WireFault("a private key of another kind")
    return key


def public_key(der: bytes) -> SignaturePublicKey | X25519PublicKey:
    try:
        key = load_der_public_key(der)
    except ValueError as error:
        raise WireFault("no public key in DER") from error
    if not isinstance(key, Ed25519PublicKey | Ed448PublicKey | X25519PublicKey):
        raise WireFault("a public key of another kind")
    return key


def dh_key(der: bytes) -> X25519PrivateKey:
    match auth_key(der):
        case X25519PrivateKey() as key:
            return key
    raise WireFault("the private key is not X25519")


def dh_public_key(der: bytes) -> X25519PublicKey:
    match public_key(der):
        case X25519PublicKey() as key:
            return key
    raise WireFault("the public key is not X25519")


class SharedBox:
    """What two X25519 keys encrypt for each other: NaCl's box, of which every message has a nonce of 24 bytes."""

    def __init__(self, secret: bytes) -> None:
        self.secret = secret
        self._box = Box.decode(secret)

    @classmethod
    def between(cls, own: X25519PrivateKey, other: X25519PublicKey) -> Self:
        box = Box(PrivateKey(own.private_bytes_raw()), PublicKey(other.public_bytes_raw()))
        return cls(box.shared_key())

    def seal(self, nonce: bytes, plain: bytes) -> bytes:
        """The tag's 16 bytes and as many as there are of `plain`."""
        return bytes(self._box.encrypt(plain, nonce).ciphertext)

    def open(self, nonce: bytes, sealed: bytes) -> bytes:
        """Raises `WireFault` if it was sealed by another secret, or for another nonce."""
        try:
            return bytes(self._box.decrypt(sealed, nonce))
        except CryptoError as error:
            raise WireFault("not sealed by this secret") from error


def nonce_of(correlation: bytes) -> bytes:
    """Cut, or filled with zeros."""
    return correlation[:NONCE].ljust(NONCE, b"\0")


def authorization(key: AuthKey, authorized: bytes, correlation: bytes, server: X25519PublicKey | None) -> bytes:
    """A signature, or for an X25519 key an authenticator, for which the server's key of the session is needed."""
    if not isinstance(key, X25519PrivateKey):
        return key.sign(authorized)
    if server is None:
        raise WireFault("the server has shown no key for authenticators")
    return SharedBox.between(key, server).seal(nonce_of(correlation), sha512(authorized).digest())


def authorizes(public_der: bytes, auth: bytes, authorized: bytes) -> bool:
    """Whether it is a signature by this key."""
    key = public_key(public_der)
    if isinstance(key, X25519PublicKey):
        raise WireFault("no key for signatures")
    try:
        key.verify(auth, authorized)
    except InvalidSignature:
        return False
    return True
