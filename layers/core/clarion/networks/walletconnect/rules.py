"""Rules: a key is a topic of the relay, a condition lists the types of notification that its pushes are for.

    condition    the UUID of each type (16 bytes), sorted; empty: all types

A topic is the SHA-256 of a subscription's key, so that only who can read its notifications can name it.
"""

from collections.abc import Iterable
from uuid import UUID

from clarion.networks import Rule

NUMBER = b"\x04"
MAX_TYPES = 100
_TYPE_BYTES = 16


def key_of(topic: bytes) -> bytes:
    """33 bytes: the network's number and the topic."""
    return NUMBER + topic


def topic_of(key: bytes) -> bytes:
    """Undo `key_of`."""
    return key[len(NUMBER) :]


def pack(types: Iterable[UUID]) -> bytes:
    return b"".join(sorted({one.bytes for one in types}))


def unpack(condition: bytes) -> list[UUID]:
    """Undo `pack`."""
    return [UUID(bytes=one) for one in _parts(condition)]


def takes(condition: bytes, notification_type: UUID) -> bool:
    return not condition or notification_type.bytes in _parts(condition)


def describe(rule: Rule) -> dict[str, str]:
    types = ", ".join(map(str, unpack(rule.condition)))
    return {"topic": topic_of(rule.key).hex()} | ({"types": types} if types else {})


def _parts(condition: bytes) -> list[bytes]:
    return [condition[at : at + _TYPE_BYTES] for at in range(0, len(condition), _TYPE_BYTES)]
