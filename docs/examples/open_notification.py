"""Open what a push of WalletConnect brings: `open_notification.py PUSH KEY APP ACCOUNT AUTHENTICATION_KEY`.

PUSH is the payload as JSON. KEY is the subscription's `symKey` and AUTHENTICATION_KEY the public key that the app's
`did.json` has as `wc-notify-authentication-key`, both in hex; APP is the app's domain, ACCOUNT as `eip155:1:0x…`. It
prints the notification as JSON.
"""

import json
import sys
import time
from base64 import b64decode, urlsafe_b64decode
from hashlib import sha256
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

TYPE_0, NONCE_BYTES = b"\0", 12


def open_push(push: dict[str, Any], key: bytes) -> dict[str, Any]:
    """The JSON-RPC request in it. Raises `ValueError`, or `InvalidTag` for another key's."""
    if push["topic"] != sha256(key).hexdigest():
        raise ValueError("another subscription's")
    envelope = b64decode(push["message"], validate=True)
    if not envelope.startswith(TYPE_0):
        raise ValueError("not of type 0")
    nonce, sealed = envelope[1 : 1 + NONCE_BYTES], envelope[1 + NONCE_BYTES :]
    request: dict[str, Any] = json.loads(ChaCha20Poly1305(key).decrypt(nonce, sealed, None))
    return request


def verified(token: str, app: str, account: str, authentication_key: bytes) -> dict[str, Any]:
    """The token's claims. Raises `ValueError`, or `InvalidSignature`."""
    signed, _, signature = token.rpartition(".")
    Ed25519PublicKey.from_public_bytes(authentication_key).verify(decoded(signature), signed.encode())
    header, claims = (json.loads(decoded(part)) for part in signed.split("."))
    expected = {"act": "notify_message", "app": f"did:web:{app}"}
    # The protocol of August 2023 has the account in `aud`, the shipped one in `sub`.
    expected["aud" if "aud" in claims else "sub"] = f"did:pkh:{account}"
    if header["alg"] != "EdDSA" or any(claims.get(name) != value for name, value in expected.items()):
        raise ValueError("for another app or account, or no notification")
    if claims["exp"] <= time.time():
        raise ValueError("it has expired")
    return dict(claims)


def decoded(text: str) -> bytes:
    """Of base64url without padding."""
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


if __name__ == "__main__":
    push, key, app, account, authentication_key = sys.argv[1:]
    request = open_push(json.loads(push), bytes.fromhex(key))
    claims = verified(request["params"]["messageAuth"], app, account, bytes.fromhex(authentication_key))
    print(json.dumps(claims["msg"]))
