"""The pairs' windows in their table, and what this worker remembers of them.

A write names the version it was decided on, so what is remembered may be stale without harm: the write then fails
and brings back the window as it is. But a failed write costs as much as ten reads. So memory stands in for a read
only while it is seldom stale: with few workers it is right, with many the reads are cheaper.

A version is never used twice, not even after the row has expired and begins anew: it is at least the time in
milliseconds. Else a worker that remembers the row from before could take the new one for it.
"""

from collections.abc import Collection, Mapping
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
from clarion.rows import DynamoItem, batch_get, item_of, values_of
from clarion.tables import WINDOW_PART, RateLimit, limit_part
from match.failures import THROTTLED, Failure, read_row

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


class Pair(NamedTuple):
    """Whose window it is, as `clarion.tables.pair_scope` names them, and their network's limit."""

    scope: bytes
    limit: Limit


class StoredWindow(NamedTuple):
    """A window as it was at `version`, where 0 is that of a pair without any; `remembered` if it was not read.

    What it admitted for `paged_until` or before may lie in pages.
    """

    window: Window
    version: int
    paged_until: int = 0
    remembered: bool = False


_NEW = StoredWindow(Window(), 0)


class Windows:
    def __init__(self, dynamodb: "DynamoDBClient") -> None:
        self._dynamodb = dynamodb
        self._remembered: dict[bytes, StoredWindow] = {}
        self._lock = Lock()
        self._staleness = 0.0

    def look(self, asked: Mapping[Pair, Collection[int]]) -> dict[Pair, StoredWindow | Failure]:
        """Each window as it was at some moment, of up to `BATCH_GET_ITEMS` pairs.

        A cooldown that is remembered holds for the times asked about, whatever came after it.
        """
        found: dict[Pair, StoredWindow | Failure] = {}
        for pair, times in asked.items():
            if known := self._usable(pair, times):
                found[pair] = known
        left = [pair for pair in asked if pair not in found]
        for pair, stored in _read(self._dynamodb, left).items():
            found[pair] = stored if isinstance(stored, Failure) else self._newest(pair, stored)
        return found

    def _usable(self, pair: Pair, times: Collection[int]) -> StoredWindow | None:
        """What is remembered, if it stands in for a read."""
        known = self._remembered.get(pair.scope)
        if known and (self._staleness < BREAK_EVEN or all(map(known.window.refuses, times))):
            return known._replace(remembered=True)
        return None

    def _newest(self, pair: Pair, stored: StoredWindow) -> StoredWindow:
        """Of what was read and what is remembered. An eventually consistent read may show less than was written here."""
        if known := self._remembered.get(pair.scope):
            self._record_staleness(stale=known.version < stored.version)
            stored = max(stored, known, key=attrgetter("version"))
        return self._remember(pair, stored)

    def pages(self, pair: Pair, since: int) -> set[Admitted]:
        """All in the pair's pages that was admitted for a time after `since`, and some before.

        Consistent, since the window has named the pages already.
        """
        rows = RateLimit.query(pair.scope, RateLimit.part > limit_part(since), consistent_read=True)
        return {admission for row in rows for admission in unpack(row.admitted)}

    def replace(self, pair: Pair, stored: StoredWindow, window: Window, now: int) -> tuple[bool, StoredWindow]:
        """Write `window` unless the pair has moved on from `stored`; returns whether, and the pair as it now is."""
        window, page = set_aside(stored.window, forget(window, pair.limit, now), pair.limit)
        paged_until = max(stored.paged_until, page[-1].at) if page else stored.paged_until
        after = StoredWindow(window, max(stored.version + 1, now), paged_until)
        if page:
            # Before the window goes on without it, so that nothing is lost; at the same version it is the same page.
            self._put(_page(pair, stored.version, page, now))
        written, current = self._put_window(pair, stored, after, now)
        if stored.remembered:
            self._record_staleness(stale=not written)
        return written, self._remember(pair, current)

    def _put_window(self, pair: Pair, stored: StoredWindow, after: StoredWindow, now: int) -> tuple[bool, StoredWindow]:
        condition: dict[str, Any] = {"ConditionExpression": "attribute_not_exists(version)"}
        if stored.version:
            values = {":seen": {"N": str(stored.version)}}
            condition = {"ConditionExpression": "version = :seen", "ExpressionAttributeValues": values}
        try:
            self._put(_row(pair, after, now), ReturnValuesOnConditionCheckFailure="ALL_OLD", **condition)
        except self._dynamodb.exceptions.ConditionalCheckFailedException as conflict:
            item: Any = conflict.response.get("Item")
            return False, _of(item) if item else _NEW
        return True, after

    def _put(self, item: DynamoItem, **condition: Any) -> None:
        self._dynamodb.put_item(TableName=RateLimit.Meta.table_name, Item=item, **condition)

    def _remember(self, pair: Pair, stored: StoredWindow) -> StoredWindow:
        with self._lock:
            self._remembered.pop(pair.scope, None)
            self._remembered[pair.scope] = stored
            if len(self._remembered) > REMEMBERED_PAIRS:
                del self._remembered[next(iter(self._remembered))]
        return stored

    def _record_staleness(self, *, stale: bool) -> None:
        self._staleness += (stale - self._staleness) / _LOOK_BACK


def _read(dynamodb: "DynamoDBClient", pairs: Collection[Pair]) -> dict[Pair, StoredWindow | Failure]:
    if not pairs:
        return {}
    keys = [{"scope": pair.scope, "part": WINDOW_PART} for pair in pairs]
    read = batch_get(dynamodb, RateLimit, keys)
    rows: dict[bytes, StoredWindow | Failure] = {item["scope"]["B"]: read_row(_of, item) for item in read.items}
    rows |= {key["scope"]["B"]: THROTTLED for key in read.left}
    return {pair: rows.get(pair.scope, _NEW) for pair in pairs}


def _of(item: Mapping[str, Any]) -> StoredWindow:
    row = values_of(RateLimit, item)
    window = Window(unpack(row["admitted"]), unpack_cooldowns(row.get("cooldowns", b"")))
    return StoredWindow(window, row["version"], row.get("paged_until", 0))


def _row(pair: Pair, stored: StoredWindow, now: int) -> DynamoItem:
    row = {
        "scope": pair.scope,
        "part": WINDOW_PART,
        "admitted": pack(stored.window.admitted),
        "cooldowns": pack_cooldowns(stored.window.cooldowns) or None,
        "paged_until": stored.paged_until or None,
        "version": stored.version,
        "ttl": now // 1000 + IDLE_LIFE,
    }
    return item_of(RateLimit, row)


def _page(pair: Pair, version: int, page: tuple[Admitted, ...], now: int) -> DynamoItem:
    part = limit_part(page[-1].at, version.to_bytes(_VERSION_BYTES))
    row = {"scope": pair.scope, "part": part, "admitted": pack(page), "ttl": now // 1000 + IDLE_LIFE}
    return item_of(RateLimit, row)
