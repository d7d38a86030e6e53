"""What is in force, and what was, without reading from the beginning of time.

    a day's snapshot ───────┐
    lines arrived since ────┴─▶ known ─┬─▶ what a job asks for
                                       └─▶ the last states ──▶ snapshot of a later day

A snapshot has the last state of each subscription, rule or limit, by all lines that had arrived when its day ended:
rules sorted by their keys, subscriptions by their ids. Whoever reads it reads with it what was compacted since, which
may be a late file of an earlier hour. A line that is there twice changes nothing.
"""

from collections.abc import Iterator
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipeline.in_force.state import STATES, as_states, last_limits, last_rules, last_subscriptions
from pipeline.lake.commits import LakeView
from pipeline.lake.event_lake import EventLake
from pipeline.lake.parquet import DataFile
from pipeline.lake.schemas import SCHEMAS, EventKind
from pipeline.lake.snapshot_rows import read_days, write_day
from pipeline.lake.snapshots import (
    GRACE_MS,
    LATE_FILES_MS,
    day_of,
    last_before,
    made_at,
    prune,
    read_snapshot,
    snapshot_days,
)
from pipeline.period import DAY_MS, HOUR_MS, Period
from pipeline.spark.frames import broadcast_if_few

MARGIN_MS = 6 * HOUR_MS
"""Longer than `compact` takes: what it seals may be committed so much later."""


def known(lake: EventLake, kind: EventKind, since: int, now: int) -> DataFrame:
    """What was in force at `since`, and all changes from then up to `now`, in the schema of `STATES`.

    There may be earlier changes among them, and lines more than once.
    """
    return _states(lake, kind, last_before(lake.root, kind, since - GRACE_MS), now)


def known_files(view: LakeView, kind: EventKind, since: int, now: int) -> list[DataFile]:
    """The files that `known` reads."""
    base = last_before(view.root, kind, since - GRACE_MS)
    snapshot = read_snapshot(view.root, kind, base) if base else None
    return [*(snapshot.files if snapshot else ()), *_changed(view, kind, base, now)]


def write_snapshots(lake: EventLake, now: int) -> dict[EventKind, int]:
    """Write those of the last day that has ended, unless they are there, and remove old ones; the rows by kind."""
    day = day_of(now // DAY_MS * DAY_MS - 1)
    missing = [kind for kind in _LAST if day not in snapshot_days(lake.root, kind)]
    counts = {}
    for kind in missing:
        last = _LAST[kind](lake, last_before(lake.root, kind, day.end), day.end)
        counts[kind] = write_day(lake, kind, day, last, now)
        prune(lake.root, kind, now, monthly=True)
    return counts


def _subscriptions(lake: EventLake, base: Period | None, end: int) -> DataFrame:
    ruled = _changes(lake, EventKind.RULES, base, end).groupBy("subscription_id").agg(F.max("at").alias("touched_at"))
    return last_subscriptions(_states(lake, EventKind.SUBSCRIPTION, base, end), ruled, end)


def _rules(lake: EventLake, base: Period | None, end: int) -> DataFrame:
    kinds = (EventKind.SUBSCRIPTION, EventKind.RULES)
    ids = (_changes(lake, kind, base, end).select("subscription_id") for kind in kinds)
    changed = broadcast_if_few(reduce(DataFrame.unionByName, ids).distinct())
    subscriptions = _rows(lake, EventKind.SUBSCRIPTION, last_before(lake.root, EventKind.SUBSCRIPTION, end))
    owners = subscriptions.join(changed, on="subscription_id", how="leftsemi")
    return last_rules(_states(lake, EventKind.RULES, base, end), owners, end)


def _limits(lake: EventLake, base: Period | None, end: int) -> DataFrame:
    return last_limits(_states(lake, EventKind.LIMITS, base, end))


_LAST = {EventKind.SUBSCRIPTION: _subscriptions, EventKind.RULES: _rules, EventKind.LIMITS: _limits}
"""In this order: which rules count is a matter of their subscriptions."""


def _states(lake: EventLake, kind: EventKind, base: Period | None, until: int) -> DataFrame:
    changes = _changes(lake, kind, base, until)
    return _rows(lake, kind, base).unionByName(changes) if base else changes


def _rows(lake: EventLake, kind: EventKind, day: Period | None) -> DataFrame:
    return read_days(lake, kind, STATES[kind], [day] if day else [])


def _changes(lake: EventLake, kind: EventKind, base: Period | None, until: int) -> DataFrame:
    """What has been compacted since a snapshot was made, of what arrived before `until`; without one, everything."""
    return as_states(lake.read_files(kind, SCHEMAS[kind], _changed(lake.view, kind, base, until)), kind)


def _changed(view: LakeView, kind: EventKind, base: Period | None, until: int) -> list[DataFile]:
    late = _late_files(view, kind, base) if base else ()
    return [*late, *view.files(kind, Period(base.end if base else 0, until))]


def _late_files(view: LakeView, kind: EventKind, base: Period) -> Iterator[DataFile]:
    """Of the hours before a snapshot's end, those that have changed since; what isn't sealed yet may have."""
    moment = made_at(view.root, kind, base) - MARGIN_MS
    for hour in view.manifests(Period(base.end - LATE_FILES_MS, base.end)):
        if hour.sealed_at is None or hour.sealed_at > moment:
            yield from hour.kinds.get(kind, ())
