"""A browser's end of a push subscription: its keys, how it decrypts a message, and which messages have reached it.

https://www.rfc-editor.org/rfc/rfc8291
https://www.rfc-editor.org/rfc/rfc8188
"""

import secrets
import struct
from dataclasses import dataclass, field
from typing import Any, Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from clarion import base64url
from local.vapid import public_key_of

_HEADER = struct.Struct("!16sIB")
"""Salt, record size, and the length of the key id, which is the sender's public key and follows."""
_POINT_SIZE = 65
_TAG_SIZE = 16
_LAST_RECORD = 2


class UndecryptableError(Exception):
    """No message for these keys: a browser drops it, without a notice to its user or to the sender."""


@dataclass(frozen=True, slots=True, repr=False)
class BrowserKeys:
    """What a browser makes for each subscription and keeps: a key of P-256, and a secret of 16 bytes."""

    private_key: ec.EllipticCurvePrivateKey
    auth: bytes

    @classmethod
    def generate(cls) -> Self:
        return cls(ec.generate_private_key(ec.SECP256R1()), secrets.token_bytes(16))

    @property
    def p256dh(self) -> bytes:
        return point_of(self.private_key)

    def decrypt(self, body: bytes) -> bytes:
        """The content of a push message in the coding `aes128gcm`; raises `UndecryptableError`."""
        if len(body) < _HEADER.size + _POINT_SIZE:
            raise UndecryptableError("the header is cut short")
        salt, record_size, key_size = _HEADER.unpack_from(body)
        key_end = _HEADER.size + key_size
        if key_size != _POINT_SIZE:
            raise UndecryptableError("the key id is no public key")
        sender, record = body[_HEADER.size : key_end], body[key_end:]
        if not _TAG_SIZE < len(record) < record_size:
            raise UndecryptableError("a message is one record, smaller than the record size")
        return _without_padding(self._decrypt_record(salt, sender, record))

    def _decrypt_record(self, salt: bytes, sender: bytes, record: bytes) -> bytes:
        try:
            shared = self.private_key.exchange(ec.ECDH(), public_key_of(sender))
            key_material = _derive(self.auth, shared, b"WebPush: info\0" + self.p256dh + sender, 32)
            key = _derive(salt, key_material, b"Content-Encoding: aes128gcm\0", 16)
            nonce = _derive(salt, key_material, b"Content-Encoding: nonce\0", 12)
            return AESGCM(key).decrypt(nonce, record, None)
        except ValueError as error:
            raise UndecryptableError("the key id is no point of P-256") from error
        except InvalidTag as error:
            raise UndecryptableError("the message is for other keys, or was changed") from error


def point_of(key: ec.EllipticCurvePrivateKey) -> bytes:
    """The public half as WebPush writes it."""
    return key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def _derive(salt: bytes, key_material: bytes, info: bytes, size: int) -> bytes:
    return HKDF(SHA256(), size, salt, info).derive(key_material)


def _without_padding(padded: bytes) -> bytes:
    content = padded.rstrip(b"\0")
    if not content or content[-1] != _LAST_RECORD:
        raise UndecryptableError("the padding's delimiter is not that of a last record")
    return content[:-1]


@dataclass(frozen=True, slots=True)
class _Held:
    content: bytes
    topic: str | None
    expires_at: float


@dataclass(slots=True, eq=False)
class BrowserSubscription:
    """A subscription at the stand-in, `local.webpush`. A browser that is away gets what is held for it on connecting.

    `messages` are the decrypted contents of the push messages that have reached the browser.
    """

    endpoint: str = field(repr=False)
    application_server_key: str
    keys: BrowserKeys = field(default_factory=BrowserKeys.generate)
    messages: list[bytes] = field(default_factory=list, repr=False)
    connected: bool = True
    ended: str | None = None
    """The reason by which pushes are refused: the subscription is over."""
    _held: list[_Held] = field(default_factory=list, repr=False)

    def as_json(self) -> dict[str, Any]:
        """As a browser's `PushSubscription.toJSON` has it."""
        keys = {"p256dh": base64url.encode(self.keys.p256dh), "auth": base64url.encode(self.keys.auth)}
        return {"endpoint": self.endpoint, "expirationTime": None, "keys": keys}

    def end(self, reason: str = "ExpiredSubscription") -> None:
        """From now on pushes are refused: by `ExpiredSubscription`, which is a 410, or `UnknownSubscription`, a 404."""
        self.ended = reason

    def disconnect(self) -> None:
        self.connected = False

    def connect(self, now: float) -> None:
        """Deliver what is held and has not expired."""
        self.connected = True
        self.messages += [held.content for held in self._held if held.expires_at > now]
        self._held = []

    def deliver(self, content: bytes, *, topic: str | None, expires_at: float) -> None:
        """At once, or as soon as the browser is there; a held message of the same topic is replaced.

        https://www.rfc-editor.org/rfc/rfc8030#section-5.4
        """
        if self.connected:
            self.messages.append(content)
            return
        self._held = [held for held in self._held if topic is None or held.topic != topic]
        self._held.append(_Held(content, topic, expires_at))
