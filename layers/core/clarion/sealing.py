"""Sealed pushes: what a payload says to the app, encrypted for its `device_key`, so that no push service reads it.

    APNs, VoIP   {"aps": …, "clarion": {"v": 1, "sealed": "…"}}
    FCM          data: {"clarion": the same object as JSON text}
    Web Push     {"title": …, "clarion": …}

`sealed` is HPKE's encapsulated key and ciphertext in base64url: https://www.rfc-editor.org/rfc/rfc9180 in base mode, with
DHKEM(X25519, HKDF-SHA256), HKDF-SHA256 and ChaCha20Poly1305, and without associated data. The plaintext is a JSON object,
followed by spaces up to a multiple of `BUCKET` bytes: the payload's members but for those that stay clear; of FCM its data.
"""

import json
from collections.abc import Mapping
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from clarion import base64url, compact_json
from clarion.channels import CHANNELS, Channel
from clarion.networks import FcmMessage, Payload

VERSION = 1
MEMBER = "clarion"
SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)
DEVICE_KEY_CHARACTERS = 43
"""32 bytes in base64url."""
BUCKET = 512
"""All contents that need the same number of buckets are of one length once they are sealed."""
HPKE_BYTES = 32 + 16
"""The encapsulated key, and the tag of the ciphertext."""
CLEAR = ("aps", "title")
"""What the phone's system or a browser's service worker shows if the app can't."""
CLEAR_BYTES = 128
"""What a sealed payload has at most beside the app's title and the sealed text."""
QUOTING_BYTES = 32
"""What JSON adds at most to the keys and values of an FCM message's data, which have up to five members."""


def parse_device_key(text: str) -> bytes:
    """The raw X25519 public key. Raises `ValueError`, with a text that doesn't quote it, for what can't seal."""
    if len(text) != DEVICE_KEY_CHARACTERS:
        raise ValueError(f"a device key has {DEVICE_KEY_CHARACTERS} characters: 32 bytes in base64url without padding")
    key = base64url.decode(text)
    try:
        X25519PrivateKey.generate().exchange(X25519PublicKey.from_public_bytes(key))
    except ValueError:
        # Whatever is exchanged with such a point comes out as zero: https://www.rfc-editor.org/rfc/rfc7748#section-6.1
        raise ValueError("a device key of low order seals nothing") from None
    return key


def payload_bytes(channel: Channel, title: str) -> int:
    """The most that a payload may have, as its channel counts, so that it fits the channel once it is sealed."""
    clear = CLEAR_BYTES + len(compact_json.encode(title))
    sealed = (CHANNELS[channel].payload_bytes - clear) * 3 // 4
    fitting = (sealed - HPKE_BYTES) // BUCKET * BUCKET
    return fitting - QUOTING_BYTES if channel is Channel.FCM else fitting


def seal(
    payload: Payload[bytes] | Payload[FcmMessage], device_key: bytes, subscription_id: UUID
) -> Payload[bytes] | Payload[FcmMessage]:
    """The same payload for the holder of the private key alone. It is another one each time."""
    body = payload.body
    if isinstance(body, bytes):
        content = json.loads(body)
        clear = {name: content.pop(name) for name in CLEAR if name in content}
        sealed = _sealed(content, device_key, subscription_id)
        return Payload(
            compact_json.encode(clear | {MEMBER: sealed}), payload.truncated, payload.priority, payload.transient
        )
    # The values of FCM's data are text.
    text = compact_json.encode(_sealed(body["data"], device_key, subscription_id)).decode()
    message: FcmMessage = {**body, "data": {MEMBER: text}}
    return Payload(message, payload.truncated)


def info(subscription_id: UUID) -> bytes:
    """What binds a sealed text to its purpose and its subscription."""
    return f"clarion push v{VERSION}{subscription_id}".encode()


def _sealed(content: Mapping[str, object], device_key: bytes, subscription_id: UUID) -> dict[str, object]:
    plaintext = compact_json.encode(content)
    padded = plaintext.ljust(-(-len(plaintext) // BUCKET) * BUCKET)
    sealed = SUITE.encrypt(padded, X25519PublicKey.from_public_bytes(device_key), info(subscription_id))
    return {"v": VERSION, "sealed": base64url.encode(sealed)}
