"""What WalletConnect's clients and servers write: DIDs, JWTs, envelopes, and the topics that follow from keys.

https://github.com/WalletConnect/walletconnect-specs: docs/specs/clients/core/crypto, docs/specs/clients/notify
"""

import base64
import os
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import base58
import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

KEY_SIZE = 32
_NONCE_SIZE = 12
_ED25519, _X25519 = b"\xed\x01", b"\xec\x01"
"""Multicodec's prefixes of public keys."""

type JsonObject = Mapping[str, Any]


def did_key(public_key: Ed25519PublicKey | X25519PublicKey) -> str:
    prefix = _ED25519 if isinstance(public_key, Ed25519PublicKey) else _X25519
    return f"did:key:z{base58.b58encode(prefix + public_key.public_bytes_raw()).decode()}"


def raw_key(did: str) -> bytes:
    """The public key, of whichever kind. Raises `ValueError`."""
    decoded = base58.b58decode(did.removeprefix("did:key:z"))
    if decoded[:2] not in {_ED25519, _X25519} or len(decoded) != 2 + KEY_SIZE:
        raise ValueError(f"no public key: {did}")
    return decoded[2:]


def did_pkh(account: str) -> str:
    """Of a CAIP-10 account."""
    return f"did:pkh:{account}"


def did_web(app: str) -> str:
    return f"did:web:{app}"


def sign(claims: JsonObject, key: Ed25519PrivateKey) -> str:
    return jwt.encode(dict(claims), key, algorithm="EdDSA")


def claims_of(token: str) -> JsonObject:
    """Whoever signed it, and however long ago. Raises `jwt.InvalidTokenError`."""
    claims: JsonObject = jwt.decode(token, options={"verify_signature": False})
    return claims


def verified(token: str) -> JsonObject:
    """By the key that it names as its issuer; the times are not looked at. Raises `jwt.InvalidTokenError`."""
    try:
        issuer = Ed25519PublicKey.from_public_bytes(raw_key(str(claims_of(token).get("iss"))))
    except ValueError as error:
        raise jwt.InvalidIssuerError(str(error)) from error
    unchecked = {f"verify_{name}": False for name in ("exp", "iat", "nbf", "aud", "sub")}
    claims: JsonObject = jwt.decode(token, issuer, algorithms=["EdDSA"], options=unchecked)  # type: ignore[arg-type]
    return claims


def shared_key(private_key: X25519PrivateKey, public_key: bytes) -> bytes:
    secret = private_key.exchange(X25519PublicKey.from_public_bytes(public_key))
    return HKDF(SHA256(), KEY_SIZE, salt=None, info=b"").derive(secret)


def topic_of(key: bytes) -> str:
    return sha256(key).hexdigest()


@dataclass(frozen=True)
class OpenedEnvelope:
    """`sender` is the public key in an envelope of type 1."""

    content: bytes
    sender: bytes | None = None


def seal(content: bytes, key: bytes, *, sender: X25519PublicKey | None = None) -> str:
    """Of type 1 with a sender, else of type 0."""
    nonce = os.urandom(_NONCE_SIZE)
    head = b"\x01" + sender.public_bytes_raw() if sender else b"\x00"
    return base64.b64encode(head + nonce + ChaCha20Poly1305(key).encrypt(nonce, content, None)).decode()


def open_envelope(sealed: str, key: bytes) -> OpenedEnvelope:
    """Raises `cryptography.exceptions.InvalidTag` for another key's."""
    raw = base64.b64decode(sealed, validate=True)
    sender, rest = (raw[1 : 1 + KEY_SIZE], raw[1 + KEY_SIZE :]) if raw[0] else (None, raw[1:])
    content = ChaCha20Poly1305(key).decrypt(rest[:_NONCE_SIZE], rest[_NONCE_SIZE:], None)
    return OpenedEnvelope(content, sender)


def sender_of(sealed: str) -> bytes:
    """The public key in an envelope of type 1, which says by which key it opens."""
    return base64.b64decode(sealed, validate=True)[1 : 1 + KEY_SIZE]
