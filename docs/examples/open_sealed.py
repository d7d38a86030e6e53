"""A device key, and what it opens. It needs the package `cryptography`, from version 47 on.

open_sealed.py KEY_FILE                                    prints the `device_key` to register, of a key made at first
open_sealed.py KEY_FILE SUBSCRIPTION_ID < payload.json     prints the payload as it would have come unsealed
"""

import json
import sys
from base64 import urlsafe_b64decode, urlsafe_b64encode
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)


def private_key(file: Path) -> X25519PrivateKey:
    if not file.exists():
        file.touch(mode=0o600)
        file.write_bytes(X25519PrivateKey.generate().private_bytes_raw())
    return X25519PrivateKey.from_private_bytes(file.read_bytes())


def device_key(key: X25519PrivateKey) -> str:
    return urlsafe_b64encode(key.public_key().public_bytes_raw()).decode().rstrip("=")


def open_sealed(payload: dict[str, Any], key: X25519PrivateKey, subscription_id: str) -> dict[str, Any]:
    """`payload` is what APNs or a browser hands over, or the data of an FCM message."""
    clear = dict(payload)
    clarion = clear.pop("clarion")
    outer = json.loads(clarion) if isinstance(clarion, str) else clarion
    if outer["v"] != 1:
        raise ValueError("sealed in another way: this app is too old for it")
    sealed = urlsafe_b64decode(outer["sealed"] + "=" * (-len(outer["sealed"]) % 4))
    content: dict[str, Any] = json.loads(SUITE.decrypt(sealed, key, f"clarion push v1{subscription_id}".encode()))
    return clear | content


if __name__ == "__main__":
    match sys.argv[1:]:
        case [file]:
            print(device_key(private_key(Path(file))))
        case [file, subscription_id]:
            print(json.dumps(open_sealed(json.load(sys.stdin), private_key(Path(file)), subscription_id)))
        case _:
            sys.exit(__doc__)
