"""The index of deliveries: what became of a subscription's envelopes and pushes, found without reading the lake.

For each file of events there is one object, of records that are sorted by subscription and then from the last to the first:

    subscription   16 bytes, its UUID
    at              8 bytes, UNIX milliseconds
    latency         4 bytes, milliseconds since the envelope was observed; all ones if there is none
    attempt         2 bytes, counted from 1; 0 of what was never to be pushed
    decision        1 byte, its place in `DECISIONS`
                    1 byte, zero

A subscription's UUID is random, so its place is known before anything is read, give or take the square root of the number
of records: one ranged read finds it among any number.
"""

import struct
from collections.abc import Callable, Collection, Iterable
from math import isqrt
from typing import NamedTuple, Self
from uuid import UUID

from clarion import own_pushes
from clarion.decisions import NotificationDecision, PushDecision
from clarion.events import NotificationDecided, PushTried

type DeliveryDecision = NotificationDecision | PushDecision

DECISIONS: tuple[DeliveryDecision, ...] = (
    *(PushDecision.DELIVERED, PushDecision.RETRY, PushDecision.MISCONFIGURED, PushDecision.REFUSED),
    *(PushDecision.STALE, PushDecision.TOKEN_GONE, PushDecision.SUBSCRIPTION_GONE),
    *(NotificationDecision.RATE_LIMITED, NotificationDecision.CAPPED, NotificationDecision.OWN_MESSAGE),
    *(NotificationDecision.NOT_PUSHABLE, NotificationDecision.NOT_IN_SCOPE, PushDecision.RECEIVED),
    PushDecision.COALESCED,
)
"""Those that a client learns of, each in the place that it had from the start: further ones come at the end."""
KEPT_HOURS = 24
"""How far back a client can look."""
_PLACES = {decision: place for place, decision in enumerate(DECISIONS)}
_RECORD = struct.Struct(">16sQIHBx")
_ID_BYTES = 16
_NO_LATENCY = 2**32 - 1
_MOST_ATTEMPTS = 2**16 - 1
_SPARE = 32
"""Records on each side that are read beyond six standard deviations."""


class DeliveryRecord(NamedTuple):
    """One outcome, as the module's page describes its record; `latency_ms` and `attempt` are those of a push."""

    subscription_id: UUID
    at: int
    decision: DeliveryDecision
    latency_ms: int | None = None
    attempt: int | None = None

    @classmethod
    def of(cls, event: NotificationDecided | PushTried) -> Self | None:
        """None for what says nothing yet, that a push was queued or had been before, and for Clarion's own pushes."""
        if event.decision not in _PLACES:
            return None
        if isinstance(event, NotificationDecided):
            return cls(event.subscription_id, event.at, event.decision)
        if event.purpose in own_pushes.BODIES:
            return None
        return cls(event.subscription_id, event.at, event.decision, event.latency_ms, event.attempt)


def pack(deliveries: Iterable[DeliveryRecord]) -> bytes:
    """The object that holds `deliveries`."""
    ordered = sorted(deliveries, key=lambda one: (one.subscription_id, -one.at))
    return b"".join(map(_packed, ordered))


def find(size: int, subscription_id: UUID, limit: int, read: Callable[[int, int], bytes]) -> list[DeliveryRecord]:
    """The last `limit` outcomes of a subscription in an object of `size` bytes.

    `read(begin, end)` returns the object's bytes from `begin` up to `end`.
    """
    total = size // _RECORD.size
    begin, end = _estimate(total, subscription_id)
    while begin < end:
        records = [_unpacked(*fields) for fields in _RECORD.iter_unpack(read(begin * _RECORD.size, end * _RECORD.size))]
        found = [one for one in records if one.subscription_id == subscription_id]
        earlier = begin > 0 and records[0].subscription_id >= subscription_id
        later = end < total and records[-1].subscription_id <= subscription_id and len(found) < limit
        if not (earlier or later):
            return found[:limit]
        width = end - begin
        begin, end = max(begin - width * earlier, 0), min(end + width * later, total)
    return []


def without(content: bytes, subscriptions: Collection[UUID]) -> tuple[bytes, int]:
    """An object without the records of these subscriptions, and how many it had of them.

    Raises `ValueError` of what is no whole number of records: nobody knows where those of a subscription begin.
    """
    if len(content) % _RECORD.size:
        raise ValueError(f"has {len(content)} bytes, which is no whole number of records")
    ids = {each.bytes for each in subscriptions}
    records = [content[start : start + _RECORD.size] for start in range(0, len(content), _RECORD.size)]
    kept = [record for record in records if record[:_ID_BYTES] not in ids]
    return b"".join(kept), len(records) - len(kept)


def _estimate(total: int, subscription_id: UUID) -> tuple[int, int]:
    """Between which records a subscription's are. Places of random ids deviate by half a square root, at most."""
    place, margin = subscription_id.int * total >> 128, 3 * isqrt(total) + _SPARE
    return max(place - margin, 0), min(place + margin, total)


def _packed(one: DeliveryRecord) -> bytes:
    latency = _NO_LATENCY if one.latency_ms is None else min(one.latency_ms, _NO_LATENCY - 1)
    attempt = min(one.attempt or 0, _MOST_ATTEMPTS)
    return _RECORD.pack(one.subscription_id.bytes, one.at, latency, attempt, _PLACES[one.decision])


def _unpacked(subscription_id: bytes, at: int, latency: int, attempt: int, place: int) -> DeliveryRecord:
    latency_ms = None if latency == _NO_LATENCY else latency
    return DeliveryRecord(UUID(bytes=subscription_id), at, DECISIONS[place], latency_ms, attempt or None)
