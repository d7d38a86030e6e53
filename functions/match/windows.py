"""The pairs' windows in their table, and what this sandbox remembers of them.

A write names the version it was decided on, so what is remembered may be stale without harm: the write then fails
and brings back the window as it is. But a failed write costs as much as ten reads. So memory stands in for a read
only while it is seldom stale: with few sandboxes it is right, with many the reads are cheaper.
"""

from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from clarion.limiter import SKEW, Admission, Window, pack, unpack
from clarion.tables import RateLimit

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


class Seen(NamedTuple):
    """A window as it was at `version`, where 0 is that of a pair without any; `remembered` if it was not read."""

    window: Window
    version: int
    remembered: bool = False


_NEW = Seen(Window(), 0)


class Windows:
    def __init__(self, dynamodb: "DynamoDBClient") -> None:
        self._dynamodb = dynamodb
        self._known: dict[bytes, Seen] = {}
        self._lock = Lock()
        self._staleness = 0.0

    def look(self, pair: bytes, now: int) -> Seen:
        """The window as it was at some moment. A cooldown that is remembered holds, whatever came after it."""
        known = self._known.get(pair)
        if known and (now < known.window.cooldown_until or self._staleness < BREAK_EVEN):
            return known._replace(remembered=True)
        seen = _read(pair)
        if known:
            self._learn(stale=known.version < seen.version)
        return self._remember(pair, seen)

    def replace(self, pair: bytes, seen: Seen, window: Window, now: int) -> tuple[bool, Seen]:
        """Write `window` unless the pair has moved on from `seen`; returns whether, and the pair as it now is."""
        condition: dict[str, Any] = {"ConditionExpression": "attribute_not_exists(version)"}
        if seen.version:
            values = {":seen": {"N": str(seen.version)}}
            condition = {"ConditionExpression": "version = :seen", "ExpressionAttributeValues": values}
        try:
            self._dynamodb.put_item(
                TableName=RateLimit.Meta.table_name,
                Item=_row(pair, window, seen.version + 1, now).serialize(),
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
                **condition,
            )
            written, seen_now = True, Seen(window, seen.version + 1)
        except self._dynamodb.exceptions.ConditionalCheckFailedException as conflict:
            item: Any = conflict.response.get("Item")
            written, seen_now = False, _of(RateLimit.from_raw_data(item)) if item else _NEW
        if seen.remembered:
            self._learn(stale=not written)
        return written, self._remember(pair, seen_now)

    def set_aside(self, pair: bytes, number: int, page: Sequence[Admission], now: int) -> None:
        """Keep a page that the window has no room for. Done before the window goes on without it, so none is lost."""
        row = RateLimit(
            _page_key(pair, number), admitted=pack(page), cooldown_until=0, version=0, ttl=now // 1000 + IDLE_LIFE
        )
        self._dynamodb.put_item(TableName=RateLimit.Meta.table_name, Item=row.serialize())

    def set_aside_since(self, pair: bytes, window: Window, since: int) -> set[bytes]:
        """The marks of all that was admitted at `since` or later and is in the window's pages, and of some before."""
        marks: set[bytes] = set()
        for number in reversed(range(window.pages)):
            page = _page(pair, number)
            marks |= {admission.mark for admission in page}
            if not page or page[0].at < since - SKEW:
                break
        return marks

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
        return _of(RateLimit.get(pair))
    except RateLimit.DoesNotExist:
        return _NEW


def _of(row: RateLimit) -> Seen:
    window = Window(unpack(row.admitted), int(row.cooldown_until), int(row.pages), int(row.paged_until))
    return Seen(window, int(row.version))


def _page(pair: bytes, number: int) -> tuple[Admission, ...]:
    """Nothing, if all of it was too old for retries when its turn came; consistent, as its window has it already."""
    try:
        return unpack(RateLimit.get(_page_key(pair, number), consistent_read=True).admitted)
    except RateLimit.DoesNotExist:
        return ()


def _page_key(pair: bytes, number: int) -> bytes:
    return pair + number.to_bytes(4)


def _row(pair: bytes, window: Window, version: int, now: int) -> RateLimit:
    return RateLimit(
        pair,
        admitted=pack(window.admitted),
        cooldown_until=window.cooldown_until,
        pages=window.pages,
        paged_until=window.paged_until,
        version=version,
        ttl=now // 1000 + IDLE_LIFE,
    )
