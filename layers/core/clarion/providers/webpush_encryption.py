"""What only the browser can read: Web Push's encryption of a push, in one record of `aes128gcm`.

https://www.rfc-editor.org/rfc/rfc8291#section-3.4
https://www.rfc-editor.org/rfc/rfc8188#section-2
"""

import hmac
import os
from typing import NamedTuple, Self

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

RECORD_SIZE = 4096
CONTENT_BYTES = RECORD_SIZE - 86 - 16 - 1
"""The most that fits a body of 4,096 bytes, beside the header, the tag and the delimiter."""

_CURVE = ec.SECP256R1()
_LAST_RECORD = b"\x02"


class Ephemeral(NamedTuple):
    """What must never serve two pushes: the sender's key pair, and a salt of 16 bytes."""

    key: ec.EllipticCurvePrivateKey
    salt: bytes

    @classmethod
    def make(cls) -> Self:
        return cls(ec.generate_private_key(_CURVE), os.urandom(16))


def encrypt(content: bytes, *, p256dh: bytes, auth: bytes, ephemeral: Ephemeral | None = None) -> bytes:
    """The body of a push: a header with the salt and the sender's public key, and the one record.

    More than `CONTENT_BYTES` become a larger record, which is well-formed and which push services refuse.
    """
    key, salt = ephemeral or Ephemeral.make()
    sender = key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    receiver = ec.EllipticCurvePublicKey.from_encoded_point(_CURVE, p256dh)
    secret = _hkdf(auth, key.exchange(ec.ECDH(), receiver), b"WebPush: info\0" + p256dh + sender)
    content_key = _hkdf(salt, secret, b"Content-Encoding: aes128gcm\0")[:16]
    nonce = _hkdf(salt, secret, b"Content-Encoding: nonce\0")[:12]
    record = AESGCM(content_key).encrypt(nonce, content + _LAST_RECORD, None)
    size = max(RECORD_SIZE, len(record))
    return salt + size.to_bytes(4) + bytes([len(sender)]) + sender + record


def _hkdf(salt: bytes, secret: bytes, info: bytes) -> bytes:
    """Extract and expand to 32 bytes, one block of SHA-256: https://www.rfc-editor.org/rfc/rfc5869#section-2"""
    return hmac.digest(hmac.digest(salt, secret, "sha256"), info + b"\x01", "sha256")
