"""The key by which what is secret about tokens and queues is sealed before it is stored, and ids are derived.

    sealed    nonce (12 bytes) ++ AES-256-GCM, bound to what it belongs to
    id        HMAC-SHA256 (24 bytes), of a label and of what is named, each after its length

Both keys follow from the text of the secret `simplex-storage-key`, which is made with the deployment and never changes.
"""

import os
from hashlib import sha256
from hmac import digest
from typing import Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from clarion.networks.simplex.encoding import long
from clarion.secrets import SharedSecret

ID_BYTES = 24
_NONCE_BYTES = 12


class UnopenableError(ValueError):
    """Not sealed by this key for this context. The text shows nothing of it."""


class StorageKey:
    def __init__(self, secret: bytes) -> None:
        self._box = AESGCM(digest(secret, b"seal", sha256))
        self._id_key = digest(secret, b"id", sha256)

    @classmethod
    def of(cls, secret: SharedSecret) -> Self:
        return cls(secret.secret.get_secret_value().encode())

    def seal(self, content: bytes, context: bytes) -> bytes:
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._box.encrypt(nonce, content, context)

    def open(self, sealed: bytes, context: bytes) -> bytes:
        """Raises `UnopenableError`."""
        try:
            return self._box.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], context)
        except (InvalidTag, ValueError):
            raise UnopenableError("not sealed by this key for this context") from None

    def id_of(self, label: bytes, *parts: bytes) -> bytes:
        """24 bytes, the same for the same parts; nobody else can tell what they name."""
        named = b"".join(map(long, (label, *parts)))
        return digest(self._id_key, named, sha256)[:ID_BYTES]
