"""The payloads for APNs: encrypted for the device, all messages of one size.

    message         {"aps": {"mutable-content": 1, "alert": …}, "notificationData": {"nonce": …, "message": …}}
    verification    {"aps": {"content-available": 1}, "notificationData": {"nonce": …, "verification": …}}
    wake-up         {"aps": {"content-available": 1}, "notificationData": {"checkMessages": true}}

Items and codes are padded, then encrypted by NaCl's box for the token's keys: ours and the one that its agent registered.
"""

from collections.abc import Iterable

from nacl.public import Box, PrivateKey, PublicKey
from nacl.utils import random

from clarion import compact_json
from clarion.networks.simplex.addresses import padded_base64url
from clarion.networks.simplex.blocks import pad
from clarion.networks.simplex.credentials import NONCE_BYTES, agreed_box
from clarion.networks.simplex.items import PADDED_BYTES, QueueItem, joined

_ALERT = {
    "mutable-content": 1,
    "alert": "Encrypted message or another app event",
    "category": "NTF_CAT_CHECK_MESSAGE",
}
_SILENT = {"content-available": 1}
WAKE_UP = compact_json.encode({"aps": _SILENT, "notificationData": {"checkMessages": True}})


def token_secret(ours: PrivateKey, theirs: PublicKey) -> bytes:
    """What a token's pushes are encrypted by, 32 bytes. Raises `MalformedSimplex` for a key of low order."""
    return agreed_box(ours, theirs).shared_key()


def message_payload(secret: bytes, items: Iterable[QueueItem], nonce: bytes | None = None) -> bytes:
    """Raises `ValueError` for more items than are `fitting`. A nonce must never serve twice; without one it is random."""
    return _payload(_ALERT, "message", secret, joined(items), nonce)


def verification_payload(secret: bytes, code: bytes, nonce: bytes | None = None) -> bytes:
    """It shows nothing: the app hands the code back. The nonce is as for a message."""
    return _payload(_SILENT, "verification", secret, code, nonce)


def _payload(aps: object, name: str, secret: bytes, content: bytes, nonce: bytes | None) -> bytes:
    sealed = Box.decode(secret).encrypt(pad(content, PADDED_BYTES), nonce or random(NONCE_BYTES))
    data = {"nonce": padded_base64url(sealed.nonce), name: padded_base64url(sealed.ciphertext)}
    return compact_json.encode({"aps": aps, "notificationData": data})
