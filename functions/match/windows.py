"""The pairs' windows in their table, and what this sandbox remembers of them.

A write names the version it was decided on, so what is remembered may be stale without harm: the write then fails
and brings back the window as it is. But a failed write costs as much as ten reads. So memory stands in for a read
only while it is seldom stale: with few sandboxes it is right, with many the reads are cheaper.

A version is never used twice, not even after the row has expired and begins anew: it is at least the time in
milliseconds. Else a sandbox that remembers the row from before could take the new one for it.
"""

from collections.abc import Collection
from operator import attrgetter
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from clarion.limiter import (
    Admitted,
    Limit,
    Window,
    forget,
    pack,
    pack_cooldowns,
    set_aside,
    unpack,
    unpack_cooldowns,
)
from clarion.tables import WINDOW_PART, RateLimit, limit_part

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

IDLE_LIFE = 24 * 3600
"""Seconds that a window is kept after its last write: far longer than the queue may take to bring a retry."""
REMEMBERED_PAIRS = 4_000
"""At up to 8 KB each."""
BREAK_EVEN = 0.1
"""The share of stale memories at which the reads saved are worth the writes lost: docs/cost.md."""
_LOOK_BACK = 64
"""Over about how many memories their staleness is averaged."""
_VERSION_BYTES = 8


class Seen(NamedTuple):
    """A window as it was at `version`, where 0 is that of a pair without any; `remembered` if it was not read.

    What it admitted for `paged_until` or before may lie in pages.
    """

    window: Window
    version: int
    paged_until: int = 0
    remembered: bool = False


_NEW = Seen(Window(), 0)


class Windows:
    def __init__(self, dynamodb: "DynamoDBClient", limit: Limit) -> None:
        self._dynamodb = dynamodb
        self._limit = limit
        self._known: dict[bytes, Seen] = {}
        self._lock = Lock()
        self._staleness = 0.0

    def look(self, pair: bytes, times: Collection[int]) -> Seen:
        """The window as it was at some moment. A cooldown that is remembered holds for `times`, whatever came after it."""
        known = self._known.get(pair)
        if known and (self._staleness < BREAK_EVEN or all(map(known.window.refuses, times))):
            return known._replace(remembered=True)
        seen = _read(pair)
        if known:
            self._learn(stale=known.version < seen.version)
            # The read is eventually consistent: it may show less than what this sandbox wrote.
            seen = max(seen, known, key=attrgetter("version"))
        return self._remember(pair, seen)

    def pages(self, pair: bytes, since: int) -> set[Admitted]:
        """All in the pair's pages that was admitted for a time after `since`, and some before.

        Consistent, since the window has told of the pages already.
        """
        rows = RateLimit.query(pair, RateLimit.part > limit_part(since), consistent_read=True)
        return {admission for row in rows for admission in unpack(row.admitted)}

    def replace(self, pair: bytes, seen: Seen, window: Window, now: int) -> tuple[bool, Seen]:
        """Write `window` unless the pair has moved on from `seen`; returns whether, and the pair as it now is."""
        window, page = set_aside(seen.window, forget(window, self._limit, now), self._limit)
        paged_until = max(seen.paged_until, page[-1].at) if page else seen.paged_until
        after = Seen(window, max(seen.version + 1, now), paged_until)
        if page:
            # Before the window goes on without it, so that nothing is lost; at the same version it is the same page.
            self._put(_page(pair, seen.version, page, now))
        written, seen_now = self._put_window(pair, seen, after, now)
        if seen.remembered:
            self._learn(stale=not written)
        return written, self._remember(pair, seen_now)

    def _put_window(self, pair: bytes, seen: Seen, after: Seen, now: int) -> tuple[bool, Seen]:
        condition: dict[str, Any] = {"ConditionExpression": "attribute_not_exists(version)"}
        if seen.version:
            values = {":seen": {"N": str(seen.version)}}
            condition = {"ConditionExpression": "version = :seen", "ExpressionAttributeValues": values}
        try:
            self._put(_row(pair, after, now), ReturnValuesOnConditionCheckFailure="ALL_OLD", **condition)
        except self._dynamodb.exceptions.ConditionalCheckFailedException as conflict:
            item: Any = conflict.response.get("Item")
            return False, _of(RateLimit.from_raw_data(item)) if item else _NEW
        return True, after

    def _put(self, row: RateLimit, **condition: Any) -> None:
        self._dynamodb.put_item(TableName=RateLimit.Meta.table_name, Item=row.serialize(), **condition)

    def _remember(self, pair: bytes, seen: Seen) -> Seen:
        with self._lock:
            self._known.pop(pair, None)
            self._known[pair] = seen
            if len(self._known) > REMEMBERED_PAIRS:
                del self._known[next(iter(self._known))]
        return seen

    def _learn(self, *, stale: bool) -> None:
        self._staleness += (stale - self._staleness) / _LOOK_BACK


def _read(pair: bytes) -> Seen:
    try:
        return _of(RateLimit.get(pair, WINDOW_PART))
    except RateLimit.DoesNotExist:
        return _NEW


def _of(row: RateLimit) -> Seen:
    window = Window(unpack(row.admitted), unpack_cooldowns(row.cooldowns or b""))
    return Seen(window, int(row.version), int(row.paged_until or 0))


def _row(pair: bytes, seen: Seen, now: int) -> RateLimit:
    return RateLimit(
        pair,
        WINDOW_PART,
        admitted=pack(seen.window.admitted),
        cooldowns=pack_cooldowns(seen.window.cooldowns) or None,
        paged_until=seen.paged_until or None,
        version=seen.version,
        ttl=now // 1000 + IDLE_LIFE,
    )


def _page(pair: bytes, version: int, page: tuple[Admitted, ...], now: int) -> RateLimit:
    part = limit_part(page[-1].at, version.to_bytes(_VERSION_BYTES))
    return RateLimit(pair, part, admitted=pack(page), ttl=now // 1000 + IDLE_LIFE)
