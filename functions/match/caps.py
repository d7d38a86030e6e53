"""How many pushes one subscription gets, however many senders it has: never fewer than the cap, and not twice as many.

Each worker knows what it queued itself and publishes that in blocks, with the times the envelopes were observed;
the others read it. What is known is never more than what was queued, so that no subscription is full too soon. It may
be full too late, by what other workers have queued and not published: docs/decisions/0010-caps.md has the bounds.

A block is ten, or the cap divided by the number of workers if that is less. A subscription that gets fewer than a
block in a window costs no write, any other at most one for each block. The fewer may still be queued, the more often a
worker reads what others have published.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from threading import Lock
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from clarion.limiter import LATENESS, Limit, fits, pack_instants, unpack_instants
from clarion.tables import RateLimit, limit_part
from match.failures import Failure, attempt

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

MAX_BLOCK = 10
"""A block of this many costs a tenth of a write unit for each push; a larger one would widen the cap's upper bound."""
REMEMBERED_SUBSCRIPTIONS = 4_000
"""At up to some 100 KB each, of those that are full."""
_REMEMBERED_CAPS = 5
"""How many times the cap is remembered of what was published for a subscription."""
_LIFE = 2 * LATENESS // 1000
"""Seconds that a block is kept. What is judged later than `LATENESS` after its time is judged by another."""


def block_size(cap: int, concurrency: int) -> int:
    """So many that all workers together hold back less than a whole cap."""
    return max(1, min(MAX_BLOCK, cap // concurrency))


class _Known:
    """The times of what was queued for a subscription; each list is sorted.

    `own` was queued here and is not published yet. `published` was read, or published here, by the row's part.
    `unchecked` was queued here since the last reading around it. Of what was published for `forgotten_until` or before,
    some is remembered no more.
    """

    def __init__(self) -> None:
        self.own: list[int] = []
        self.published: dict[bytes, tuple[int, ...]] = {}
        self.unchecked: list[int] = []
        self.forgotten_until = 0

    def forget(self, since: int, most: int) -> None:
        """Keep nothing from before `since`, and the latest `most` of what was published, or a few less."""
        self.own, self.unchecked = (times[bisect_left(times, since) :] for times in (self.own, self.unchecked))
        surplus = sum(map(len, self.published.values())) - most
        for part in sorted(self.published):
            if surplus <= 0 and part >= limit_part(since):
                return
            times = self.published.pop(part)
            surplus -= len(times)
            self.forgotten_until = max(self.forgotten_until, times[-1])


class Caps:
    """`concurrency` is how many workers match in at once."""

    def __init__(self, dynamodb: "DynamoDBClient", cap: Limit, concurrency: int) -> None:
        self._dynamodb = dynamodb
        self._cap = cap
        self._block = block_size(cap.count, concurrency)
        # So many may queue side by side, each until its next reading, without filling a subscription unnoticed.
        self._workers = 2 * concurrency
        self._known: dict[str, _Known] = {}
        self._touched: set[str] = set()
        self._lock = Lock()

    def full(self, subscription_id: str, at: int) -> bool:
        """Whether an envelope of that time would be over the cap, as far as is known here."""
        with self._lock:
            known = self._known.get(subscription_id)
            if known is None:
                return False
            ask = self._fits(known, at) and self._is_unsure(known, at)
        if ask:
            self._read(known, subscription_id, at)
        with self._lock:
            return not self._fits(known, at)

    def add(self, subscription_id: str, at: int) -> None:
        """Count what was queued."""
        with self._lock:
            known = self._known.pop(subscription_id, None) or _Known()
            self._known[subscription_id] = known
            self._touched.add(subscription_id)
            insort(known.own, at)
            insort(known.unchecked, at)
            if len(self._known) > REMEMBERED_SUBSCRIPTIONS:
                del self._known[next(iter(self._known))]

    def publish(self, now: int) -> None:
        """Write down what was queued here, for those subscriptions where it makes a block.

        Counting holds up no push. A block is never written twice: a request without an answer may have taken effect.
        """
        with self._lock:
            touched, self._touched = self._touched, set()
        for subscription_id in sorted(touched & self._known.keys()):
            known = self._known[subscription_id]
            for block in [block for block in blocks(known.own, self._cap.window) if len(block) >= self._block]:
                row = _row(subscription_id, block, now)
                attempt(self._put, row)
                known.own = [at for at in known.own if not block[0] <= at <= block[-1]]
                known.published[row.part] = tuple(block)
            known.forget(now - LATENESS - self._cap.window, _REMEMBERED_CAPS * self._cap.count)

    def _fits(self, known: _Known, at: int) -> bool:
        return fits(sorted([*known.own, *self._published(known, at)]), self._cap, at)

    def _is_unsure(self, known: _Known, at: int) -> bool:
        """Whether so much was queued here since the last reading that, if others did the same, it may be full."""
        if at - self._cap.window < known.forgotten_until:
            return True
        free = self._cap.count - self._near(sorted(self._published(known, at)), at)
        return self._near(known.unchecked, at) >= max(1, free // self._workers)

    def _near(self, times: Sequence[int], at: int) -> int:
        return bisect_left(times, at + self._cap.window) - bisect_left(times, at - self._cap.window + 1)

    def _around(self, at: int) -> tuple[bytes, bytes]:
        """The first and the last part of a block that may hold a time within a window of `at`."""
        return limit_part(at - self._cap.window), limit_part(at + 2 * self._cap.window)

    def _published(self, known: _Known, at: int) -> list[int]:
        first, last = self._around(at)
        return [one for part, times in known.published.items() if first <= part <= last for one in times]

    def _read(self, known: _Known, subscription_id: str, at: int) -> None:
        """Without an answer, what is known has to do."""
        within = RateLimit.part.between(*self._around(at))
        rows = attempt(lambda name: list(RateLimit.query(_scope(name), within)), subscription_id)
        if isinstance(rows, Failure):
            return
        with self._lock:
            known.published |= {row.part: unpack_instants(row.admitted) for row in rows}
            known.unchecked = [one for one in known.unchecked if abs(one - at) >= self._cap.window]

    def _put(self, row: RateLimit) -> None:
        self._dynamodb.put_item(TableName=RateLimit.Meta.table_name, Item=row.serialize())


def blocks(times: Sequence[int], window: int) -> Iterator[list[int]]:
    """The sorted `times` in parts, of which each lies within a window."""
    start = 0
    while start < len(times):
        end = bisect_left(times, times[start] + window)
        yield list(times[start:end])
        start = end


def _row(subscription_id: str, block: Sequence[int], now: int) -> RateLimit:
    part = limit_part(block[-1], uuid4().bytes)
    return RateLimit(_scope(subscription_id), part, admitted=pack_instants(block), ttl=now // 1000 + _LIFE)


def _scope(subscription_id: str) -> bytes:
    return UUID(subscription_id).bytes
