"""What is in force, and what was, without reading from the beginning of time.

    a day's snapshot ───────┐
    lines arrived since ────┴─▶ known ─┬─▶ what a job asks for
                                       └─▶ the last states ──▶ snapshot of a later day

A snapshot has the last state of each subscription, rule or limit, by all lines that had arrived when its day ended:
rules sorted by their keys, subscriptions by their ids. A reader reads with it what was compacted since, which
may be a late file of an earlier hour. A line that is there twice changes nothing. What was removed is remembered for a
while, as a line from before may still arrive: where an hour can't be read in full, since before that hour.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from itertools import pairwise
from operator import itemgetter
from typing import Any

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StringType, StructField, StructType

from clarion.networks import NETWORKS
from pipeline.columns import REMOVED, EventKind
from pipeline.compaction.completeness import unread_before
from pipeline.in_force.limits import LimitHistory, spans_of
from pipeline.in_force.rules import rule_changes
from pipeline.lake.commits import LakeView, Manifest
from pipeline.lake.event_lake import EventLake
from pipeline.lake.parquet import DataFile
from pipeline.lake.schemas import RULE, SCHEMAS
from pipeline.lake.small_tables import read_rows
from pipeline.lake.snapshots import (
    IN_FORCE,
    LATE_FILES_MS,
    SNAPSHOT_LEAD_MS,
    day_of,
    last_before,
    made_at,
    prune,
    read_snapshot,
    snapshot_days,
    unread_hours,
)
from pipeline.period import DAY_MS, HOUR_MS, LATEST_MS, Period, hour_start
from pipeline.spark.frames import broadcast_if_few

STATES: dict[EventKind, StructType] = {
    EventKind.SUBSCRIPTION: StructType([*SCHEMAS[EventKind.SUBSCRIPTION].fields, StructField("ruled_at", LongType())]),
    EventKind.RULES: StructType([
        StructField("at", LongType()),
        StructField("change", StringType()),
        StructField("subscription_id", StringType()),
        StructField("generation", LongType()),
        StructField("revision", LongType()),
        *RULE.fields,
    ]),
    EventKind.LIMITS: SCHEMAS[EventKind.LIMITS],
}  # fmt: skip
"""A row for each subscription, with the time of its last change of rules; for each rule; for each network's limits."""
MARGIN_MS = 6 * HOUR_MS
"""Longer than `compact` takes: what it seals may be committed so much later."""


def states_since(lake: EventLake, kind: EventKind, since: int, now: int) -> DataFrame:
    """What was in force at `since`, and all changes from then up to `now`, in the schema of `STATES`.

    There may be earlier changes among them, and lines more than once.
    """
    return _states(lake, kind, last_before(lake.root, kind, since - SNAPSHOT_LEAD_MS), now)


def known_files(view: LakeView, kind: EventKind, since: int, now: int) -> list[DataFile]:
    """The files that `states_since` reads."""
    base = last_before(view.root, kind, since - SNAPSHOT_LEAD_MS)
    snapshot = read_snapshot(view.root, kind, base) if base else None
    return [*(snapshot.files if snapshot else ()), *_changed(view, kind, base, now)]


def size_in_force(view: LakeView, now: int) -> int:
    """About how many bytes of Parquet `write_snapshots` reads."""
    return sum(file.bytes for kind in IN_FORCE for file in known_files(view, kind, now, now))


def write_snapshots(lake: EventLake, now: int) -> dict[EventKind, int]:
    """Write those of the last day that has ended, unless they are there, and remove old ones; the rows by kind."""
    day = day_of(now // DAY_MS * DAY_MS - 1)
    missing = [kind for kind in IN_FORCE if day not in snapshot_days(lake.root, kind)]
    counts = {}
    for kind in missing:
        base = last_before(lake.root, kind, day.end)
        unread = _unread(lake.view, kind, base, day.end)
        oldest = min(map(hour_start, unread), default=day.end)
        last = _LAST[kind](lake, base, day.end, oldest - LATEST_MS)
        counts[kind] = lake.write_day(kind, day, last, now, unread=unread)
        prune(lake.root, kind, now, monthly=True)
    return counts


def _unread(view: LakeView, kind: EventKind, base: Period | None, end: int) -> dict[str, int | None]:
    """The hours before `end` that could not be read in full, with their `sealed_at`; `base` is the snapshot before."""
    carried = unread_hours(view.root, kind, base) if base else {}
    unread = [each.hour for each in unread_before(view, Period(base.end if base else 0, end), carried.keys())]
    return {hour: found.sealed_at if (found := _manifest(view, hour)) else None for hour in unread}


def _subscriptions(lake: EventLake, base: Period | None, end: int, remembered_from: int) -> DataFrame:
    ruled = _changes(lake, EventKind.RULES, base, end).groupBy("subscription_id").agg(F.max("at").alias("touched_at"))
    return last_subscriptions(_states(lake, EventKind.SUBSCRIPTION, base, end), ruled, remembered_from)


def _rules(lake: EventLake, base: Period | None, end: int, remembered_from: int) -> DataFrame:
    kinds = (EventKind.SUBSCRIPTION, EventKind.RULES)
    ids = (_changes(lake, kind, base, end).select("subscription_id") for kind in kinds)
    changed = broadcast_if_few(reduce(DataFrame.unionByName, ids).distinct())
    subscriptions = _rows(lake, EventKind.SUBSCRIPTION, last_before(lake.root, EventKind.SUBSCRIPTION, end))
    found = subscriptions.join(changed, on="subscription_id", how="leftsemi")
    owners = changed.join(found, on="subscription_id", how="left")
    return last_rules(_states(lake, EventKind.RULES, base, end), owners, remembered_from)


def _limits(lake: EventLake, base: Period | None, end: int, _: int) -> DataFrame:
    return last_limits(_states(lake, EventKind.LIMITS, base, end))


_LAST = {EventKind.SUBSCRIPTION: _subscriptions, EventKind.RULES: _rules, EventKind.LIMITS: _limits}


def _states(lake: EventLake, kind: EventKind, base: Period | None, until: int) -> DataFrame:
    changes = _changes(lake, kind, base, until)
    return _rows(lake, kind, base).unionByName(changes) if base else changes


def _rows(lake: EventLake, kind: EventKind, day: Period | None) -> DataFrame:
    return lake.read_days(kind, STATES[kind], [day] if day else [])


def _changes(lake: EventLake, kind: EventKind, base: Period | None, until: int) -> DataFrame:
    """What has been compacted since a snapshot was made, of what arrived before `until`; without one, everything."""
    return as_states(lake.read_files(kind, SCHEMAS[kind], _changed(lake.view, kind, base, until)), kind)


def _changed(view: LakeView, kind: EventKind, base: Period | None, until: int) -> list[DataFile]:
    late = _late_files(view, kind, base) if base else ()
    return [*late, *view.files(kind, Period(base.end if base else 0, until))]


def _late_files(view: LakeView, kind: EventKind, base: Period) -> Iterator[DataFile]:
    """Of the hours before a snapshot's end, those that have changed since; what isn't sealed yet may have.

    Of long before, only what could not be read in full changes, once it is readable.
    """
    moment = made_at(view.root, kind, base) - MARGIN_MS
    late = Period(base.end - LATE_FILES_MS, base.end)
    for hour in view.manifests(late):
        if hour.sealed_at is None or hour.sealed_at > moment:
            yield from hour.kinds.get(kind, ())
    for unread, sealed_at in unread_hours(view.root, kind, base).items():
        found = _manifest(view, unread)
        if hour_start(unread) < late.start and found and found.sealed_at != sealed_at:
            yield from found.kinds.get(kind, ())


def _manifest(view: LakeView, hour: str) -> Manifest | None:
    start = hour_start(hour)
    return next(iter(view.manifests(Period(start, start + HOUR_MS))), None)


def as_states(lines: DataFrame, kind: EventKind) -> DataFrame:
    """Lines of the lake's kind, in the schema of `STATES`."""
    match kind:
        case EventKind.RULES:
            return rule_changes(lines)
        case EventKind.SUBSCRIPTION:
            return lines.withColumn("ruled_at", F.lit(None).cast("long"))
        case _:
            return lines


def last_subscriptions(states: DataFrame, ruled: DataFrame, remembered_from: int) -> DataFrame:
    """The last state of each subscription, sorted by its id; without what was removed before `remembered_from`.

    `ruled` are `subscription_id, touched_at`, persisted, of those whose rules have changed since `states` were known.
    """
    both = states.join(broadcast_if_few(ruled), on="subscription_id", how="left")
    same = Window.partitionBy("subscription_id")
    gone = F.col("status") == REMOVED
    newest = same.orderBy(F.desc("revision"), F.desc("at"), F.desc("generation"), F.desc(gone))
    ranged = both.repartitionByRange("subscription_id")
    dated = ranged.withColumn("ruled_at", F.max(F.greatest("ruled_at", "touched_at")).over(same))
    return _remembered(_first(dated, newest), gone, remembered_from).select(*STATES[EventKind.SUBSCRIPTION].names)


def last_rules(states: DataFrame, owners: DataFrame, remembered_from: int) -> DataFrame:
    """The last state of each rule, sorted by key; without what was removed before `remembered_from`.

    `owners` are `subscription_id, status, generation`, persisted, of the subscriptions that have changed since `states`
    were known, or whose rules have; both null of one that is forgotten, or not known yet. Rules of an earlier generation
    than theirs, of a removed one, and old ones without a subscription are left out.
    """
    now = owners.select("subscription_id", F.struct("status", "generation").alias("now"))
    known = states.join(broadcast_if_few(now), on="subscription_id", how="left")
    of_owner = (F.col("now.status") != REMOVED) & (F.col("generation") >= F.col("now.generation"))
    may_count = F.coalesce(of_owner, F.col("at") >= remembered_from)
    same = Window.partitionBy("key", "subscription_id", "generation")
    newest = same.orderBy(F.desc("revision"), F.desc("at"), F.desc("change"))
    ranged = known.where(F.col("now").isNull() | may_count).repartitionByRange("key", "subscription_id")
    removed = F.col("change") == REMOVED
    return _remembered(_first(ranged, newest), removed, remembered_from).select(*STATES[EventKind.RULES].names)


def last_limits(states: DataFrame) -> DataFrame:
    """Those of each network."""
    last = F.max_by(F.struct(*(F.col(name) for name in states.columns)), "at").alias("last")
    return states.groupBy("network").agg(last).select("last.*").coalesce(1)


def _first(rows: DataFrame, order: WindowSpec) -> DataFrame:
    return rows.withColumn("place", F.row_number().over(order)).where(F.col("place") == 1)


def _remembered(last: DataFrame, removed: Column, since: int) -> DataFrame:
    """Drop what was removed before `since`: no earlier line can still arrive or become readable."""
    return last.where(~removed | (F.col("at") >= since))


def limit_history(view: LakeView, since: int, now: int, grace: int = 0) -> LimitHistory:
    """What is known of the limits from `since` on; what is earlier is judged by the first of them.

    Each worker of match has a line for each network: they are few enough to be read without Spark.
    """
    files = known_files(view, EventKind.LIMITS, since, now)
    loaded = read_rows(view.root, files, to_arrow_schema(SCHEMAS[EventKind.LIMITS]))
    lines = sorted((line for line in loaded if line["at"] < now), key=itemgetter("at"))
    of_networks = {name: [line for line in lines if line["network"] == name] for name in NETWORKS}
    return LimitHistory({name: spans_of(name, _distinct_limits(some)) for name, some in of_networks.items()}, grace)


def _distinct_limits(lines: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Of one network's lines in order, the first, and those that say something else than the one before."""
    yield from lines[:1]
    yield from (line for before, line in pairwise(lines) if {**before, "at": 0} != {**line, "at": 0})
