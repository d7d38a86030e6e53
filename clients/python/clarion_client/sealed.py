"""Sealed pushes: a device's key, and what it opens. The extra `sealed` installs what this needs.

The format is in docs/privacy.md: HPKE (https://www.rfc-editor.org/rfc/rfc9180) for the key, bound to the subscription.
"""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

_SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)
_VERSION = 1


@dataclass(frozen=True, slots=True)
class DeviceKey:
    """An X25519 key; `private` is its 32 bytes, to be kept on the device."""

    private: bytes = field(repr=False)

    @classmethod
    def generate(cls) -> Self:
        return cls(X25519PrivateKey.generate().private_bytes_raw())

    @property
    def public(self) -> str:
        """What to register as `device_key`."""
        return urlsafe_b64encode(self._key.public_key().public_bytes_raw()).decode().rstrip("=")

    def open(self, payload: Mapping[str, Any], subscription_id: str) -> dict[str, Any]:
        """The payload as it would have come unsealed; what isn't sealed stays as it is.

        `payload` is what APNs or a browser hands over, or FCM's data. Raises `ValueError` for another version, and
        `cryptography.exceptions.InvalidTag` for another key or subscription.
        """
        clear = dict(payload)
        clarion = clear.pop("clarion", {})
        outer = json.loads(clarion) if isinstance(clarion, str) else clarion
        if "sealed" not in outer:
            return dict(payload)
        if outer["v"] != _VERSION:
            raise ValueError("sealed in another way: this version of the client is too old for it")
        sealed = urlsafe_b64decode(outer["sealed"] + "=" * (-len(outer["sealed"]) % 4))
        info = f"clarion push v{_VERSION}{subscription_id}".encode()
        opened: dict[str, Any] = json.loads(_SUITE.decrypt(sealed, self._key, info))
        return clear | opened

    @property
    def _key(self) -> X25519PrivateKey:
        return X25519PrivateKey.from_private_bytes(self.private)
