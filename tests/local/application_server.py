"""Who sends by WebPush, written from the RFCs for the tests alone: https://www.rfc-editor.org/rfc/rfc8291#section-3.4"""

import os
import struct
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from clarion import base64url
from local.browser import point_of
from local.vapid import public_key_of

LAST_RECORD = b"\2"


class ApplicationServer:
    """A VAPID key, and what is made with it; arguments make it wrong."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())

    @property
    def public_key(self) -> str:
        return base64url.encode(point_of(self._key))

    def token(self, audience: str, now: float, **changes: Any) -> str:
        claims = {"aud": audience, "exp": int(now) + 3600, "sub": "mailto:push@clarion.example"} | changes
        return jwt.encode(
            {name: value for name, value in claims.items() if value is not None}, self._key, algorithm="ES256"
        )

    def authorization(self, audience: str, now: float, **changes: Any) -> str:
        return f"vapid t={self.token(audience, now, **changes)}, k={self.public_key}"


def encrypt(
    subscription: dict[str, Any], content: bytes, *, padding: bytes = LAST_RECORD, record_size: int = 4096
) -> bytes:
    """A body for a subscription as its JSON has it; `padding` begins with the delimiter."""
    p256dh, auth = (base64url.decode(subscription["keys"][name]) for name in ("p256dh", "auth"))
    key, salt = ec.generate_private_key(ec.SECP256R1()), os.urandom(16)
    shared = key.exchange(ec.ECDH(), public_key_of(p256dh))
    secret = _hkdf(auth, shared, b"WebPush: info\0" + p256dh + point_of(key), 32)
    encryption_key = _hkdf(salt, secret, b"Content-Encoding: aes128gcm\0", 16)
    nonce = _hkdf(salt, secret, b"Content-Encoding: nonce\0", 12)
    record = AESGCM(encryption_key).encrypt(nonce, content + padding, None)
    return struct.pack("!16sIB65s", salt, record_size, 65, point_of(key)) + record


def _hkdf(salt: bytes, secret: bytes, info: bytes, size: int) -> bytes:
    return HKDF(SHA256(), size, salt, info).derive(secret)
