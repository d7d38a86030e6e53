"""Devices: each is a subscription of the kernel's, under an id that follows from what it is.

So whoever registers one twice, or twice at once, writes one row, and `notify` finds it without looking anything up.

    shipped     SHA-256(domain ++ 1 ++ server ++ realm ++ token_id)                         16, 16 and 9 bytes
    proposal    SHA-256(domain ++ 2 ++ server ++ realm ++ hash of token ++ push_account_id) 16, 16, 32 and 9 bytes

What the subscription's row has no attribute for is in its `network_data`:

    profile (1 byte) ++ realm (16) ++ token_id or push_account_id (9) ++ bouncer key (8) ++ sealed_at (8)

All numbers are big-endian; those of devices are signed.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum
from hashlib import sha256
from uuid import UUID

KEY_PREFIX_BYTES = 8
"""So much of a bouncer's public key tells it from the others."""
ID_RANGE = range(-(1 << 63), 1 << 64)
"""Of `token_id` and `push_account_id`: 64 bits, which are signed to Zulip, but not to each client."""
NUMBER_BYTES = 9
LATEST = (1 << 64) - 1
"""The latest `sealed_at` that is told from earlier ones."""
_DOMAIN = b"clarion zulip device\0"
_PACKED = struct.Struct(f">B16s{NUMBER_BYTES}s{KEY_PREFIX_BYTES}sQ")


class Profile(IntEnum):
    """The protocol that a device was registered by: what Zulip 12 ships, or its proposal (ZAP 2)."""

    SHIPPED = 1
    PROPOSED = 2


@dataclass(frozen=True, slots=True)
class DeviceData:
    """`number` is the `token_id` of a shipped registration, the `push_account_id` of a proposed one.

    `key_prefix` is the beginning of the bouncer's public key that the registration was sealed to. `sealed_at` is when, in
    UNIX seconds, by the device's own clock.
    """

    profile: Profile
    realm: UUID
    number: int
    key_prefix: bytes
    sealed_at: int


def device_id(server: UUID, realm: UUID, token_id: int) -> str:
    """Of a shipped registration. Raises `OverflowError` for what is far from `ID_RANGE`."""
    return _uuid(Profile.SHIPPED, server.bytes + realm.bytes + _bytes(token_id))


def device_id_of_account(server: UUID, realm: UUID, token_hash: bytes, push_account_id: int) -> str:
    """Of a proposed registration; `token_hash` is the token's SHA-256. Raises `OverflowError` as `device_id` does."""
    return _uuid(Profile.PROPOSED, server.bytes + realm.bytes + token_hash + _bytes(push_account_id))


def pack(data: DeviceData) -> bytes:
    return _PACKED.pack(data.profile, data.realm.bytes, _bytes(data.number), data.key_prefix, data.sealed_at)


def unpack(packed: bytes) -> DeviceData:
    """Raises `ValueError`, and nothing else, for what was not packed here."""
    try:
        profile, realm, number, key_prefix, sealed_at = _PACKED.unpack(packed)
    except struct.error:
        raise ValueError("not a device's data") from None
    return DeviceData(Profile(profile), UUID(bytes=realm), int.from_bytes(number, signed=True), key_prefix, sealed_at)


def _uuid(profile: Profile, fixed: bytes) -> str:
    digest = sha256(_DOMAIN + bytes([profile]) + fixed).digest()
    return str(UUID(bytes=digest[:16], version=5))


def _bytes(number: int) -> bytes:
    return number.to_bytes(NUMBER_BYTES, signed=True)
