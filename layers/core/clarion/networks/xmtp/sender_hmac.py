"""The sender's HMAC: how a server recognises a subscriber's own message without learning who sent any other.

A client derives a key for each topic and period of thirty days, attaches an HMAC under it to what it sends, and gives
the keys to its own push server. The two schemes differ in what they derive the key from, how long it is and what the
HMAC covers:

    V2   32 bytes   HKDF(key material of the conversation; info = "{period}-{address}")           header bytes
    V3   42 bytes   HKDF(root of the inbox ++ group id; info = group id ++ period; with a salt)   the message's data

Both are HMAC-SHA256 and HKDF-SHA256. XIP-35 was never merged; the clients are what there is to follow:
https://github.com/xmtp/xmtp-js (13.0.4, V2), https://github.com/xmtp/libxmtp (crates/xmtp_mls, V3)
"""

import hmac
from hashlib import sha256

PERIOD_S = 30 * 24 * 3600
KEY_SIZE_V2 = 32
KEY_SIZE_V3 = 42
HMAC_SIZE = 32

_KEY_MATERIAL_SIZE = 32
_ROOT_SIZE = 42
_HASH = "sha256"
_BLOCK_SIZE = 64
_INNER_PAD, _OUTER_PAD = (bytes(pad ^ byte for byte in range(256)) for pad in (0x36, 0x5C))
_SALT_V3 = b"libXMTP HKDF salt!"


def period_at(seconds: int) -> int:
    """The thirty-day period of a time in UNIX seconds, counted from 1970."""
    return seconds // PERIOD_S


def sender_hmac_key_v2(key_material: bytes, period: int, address: str) -> bytes:
    """`address` is the sender's, spelled as EIP-55 does. Raises `ValueError` if the key material has not 32 bytes."""
    if len(key_material) != _KEY_MATERIAL_SIZE:
        raise ValueError(f"a conversation's key material has {_KEY_MATERIAL_SIZE} bytes, not {len(key_material)}")
    return _hkdf(key_material, salt=b"", info=f"{period}-{address}".encode(), size=KEY_SIZE_V2)


def sender_hmac_key_v3(root: bytes, group_id: bytes, period: int) -> bytes:
    """Raises `ValueError` if the inbox's root has not 42 bytes."""
    if len(root) != _ROOT_SIZE:
        raise ValueError(f"an inbox's root for HMAC keys has {_ROOT_SIZE} bytes, not {len(root)}")
    info = group_id + period.to_bytes(8, "little", signed=True)
    return _hkdf(root + group_id, salt=_SALT_V3, info=info, size=KEY_SIZE_V3)


def sender_hmac(key: bytes, covered: bytes) -> bytes:
    """HMAC-SHA256, for a key of at most a block (RFC 2104).

    OpenSSL looks up its own HMAC anew for each message, which takes longer than the hashes. Match computes one for each
    subscriber and key.
    """
    padded = key.ljust(_BLOCK_SIZE, b"\0")
    inner = sha256(padded.translate(_INNER_PAD) + covered).digest()
    return sha256(padded.translate(_OUTER_PAD) + inner).digest()


def verify(key: bytes, covered: bytes, claimed: bytes) -> bool:
    """Whether the HMAC `claimed` was made over `covered` with this key, in a time that doesn't depend on its bytes."""
    return hmac.compare_digest(sender_hmac(key, covered), claimed)


def _hkdf(key_material: bytes, *, salt: bytes, info: bytes, size: int) -> bytes:
    """RFC 5869 with SHA-256; here rather than from a package, which the ingest image and Spark would carry for it."""
    pseudorandom = hmac.digest(salt or bytes(HMAC_SIZE), key_material, _HASH)
    block, expanded = b"", b""
    for number in range(1, -(-size // HMAC_SIZE) + 1):
        block = hmac.digest(pseudorandom, block + info + bytes([number]), _HASH)
        expanded += block
    return expanded[:size]
