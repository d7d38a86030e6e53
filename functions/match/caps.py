"""How many pushes one subscription gets, however many senders it has: never fewer than the cap, and not twice as many.

Each sandbox knows what it queued itself and publishes that by the ten, with the times the statements were observed;
the others read it. What is known is never more than what was queued, so that no subscription is full too soon. It may
be full too late, by what other sandboxes have queued and not published: docs/decisions/0010-caps.md has the bounds.

A subscription that gets fewer than ten in a window costs no write, any other a tenth of one for each push. The fewer
may still be queued, the more often a sandbox reads what others have published.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from clarion.limiter import LATENESS, Limit, fits, pack_instants, unpack_instants
from clarion.tables import RateLimit, limit_part
from match.faults import Fault, attempt

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

BLOCK = 10
"""How many make a write worth while."""
SANDBOXES = 60
"""So many may queue for one subscription side by side, each until its next reading, without filling it unawares."""
REMEMBERED_SUBSCRIPTIONS = 4_000
"""At up to some 20 KB each, of those that are full."""
_LIFE = 2 * LATENESS // 1000
"""Seconds that a block is kept. What is judged later than `LATENESS` after its time is judged by another."""


@dataclass(slots=True)
class _Known:
    """The sorted times of what was queued for a subscription.

    `own` was queued here and is not published yet; `published` was read, or published here since; `unchecked` was
    queued here since the last reading.
    """

    own: list[int] = field(default_factory=list)
    published: list[int] = field(default_factory=list)
    unchecked: list[int] = field(default_factory=list)


class Caps:
    def __init__(self, dynamodb: "DynamoDBClient", cap: Limit) -> None:
        self._dynamodb = dynamodb
        self._cap = cap
        self._known: dict[str, _Known] = {}
        self._touched: set[str] = set()
        self._lock = Lock()

    def full(self, subscription_id: str, at: int) -> bool:
        """Whether a statement of that time would be over the cap, as far as is known here."""
        with self._lock:
            known = self._known.get(subscription_id, _Known())
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
            for times in (known.own, known.unchecked):
                insort(times, at)
                del times[: -self._cap.count - BLOCK]
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
            for block in [block for block in blocks(known.own, self._cap.window) if len(block) >= BLOCK]:
                attempt(self._put, _row(subscription_id, block, now))
                known.own = [at for at in known.own if not block[0] <= at <= block[-1]]
                known.published = sorted([*known.published, *block])

    def _fits(self, known: _Known, at: int) -> bool:
        return fits(sorted([*known.own, *known.published]), self._cap, at)

    def _is_unsure(self, known: _Known, at: int) -> bool:
        """Whether so much was queued here since the last reading that, if others did the same, it may be full."""
        free = self._cap.count - self._near(known.published, at)
        return self._near(known.unchecked, at) >= max(1, free // SANDBOXES)

    def _near(self, times: Sequence[int], at: int) -> int:
        return bisect_left(times, at + self._cap.window) - bisect_left(times, at - self._cap.window + 1)

    def _read(self, known: _Known, subscription_id: str, at: int) -> None:
        """A block may reach a window beyond the times that count. Without an answer, what is known has to do."""
        within = RateLimit.part.between(limit_part(at - self._cap.window), limit_part(at + 2 * self._cap.window))
        rows = attempt(lambda name: list(RateLimit.query(_scope(name), within)), subscription_id)
        if isinstance(rows, Fault):
            return
        with self._lock:
            known.published = sorted(at for row in rows for at in unpack_instants(row.admitted))
            known.unchecked = []

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
