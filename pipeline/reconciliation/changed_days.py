"""Which of the days that were judged the daily run has to judge again.

A day has changed if something arrived afterwards that may change what was found of it:

    lines not yet seen ────┬─▶ an envelope of such a day, what was decided of it, or tried first ─┐
                           ├─▶ decisions that count for a limit on that day ──────────────────────┤
                           ├─▶ a receipt that the day's differences name ─────────────────────────┼─▶ judged again
                           ├─▶ a claim on an envelope of the day's claims or differences ─────────┤
                           └─▶ rules, subscriptions or limits of then ────────────────────────────┘

No other line changes what was found: a push that was delivered stays so. A day of which other hours can't be judged than
its page says has changed as well.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial, reduce
from itertools import chain
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from clarion.limiter import LATENESS, SKEW
from pipeline.columns import EventKind
from pipeline.compaction.completeness import incomplete_hours
from pipeline.in_force.states import MARGIN_MS, limit_history
from pipeline.lake.commits import LAKE_ERRORS, CommitConflict, Manifest, commit, new_commit, read_manifest
from pipeline.lake.dedup import judged_at
from pipeline.lake.event_lake import EventLake, differences_name
from pipeline.lake.schemas import SCHEMAS
from pipeline.lake.small_tables import read_tables
from pipeline.lake.snapshots import CLAIMS, day_of
from pipeline.period import DAY_MS, HOUR_MS, LATEST_MS, Period, arrivals
from pipeline.reconciliation.claims import CLAIM, CLAIMING
from pipeline.report.report_files import is_written, report_name
from pipeline.spark.frames import broadcast_if_few
from pipeline.terms import TERMS, judged_by

_DAY = "day_start"
HOURS_TABLE = "hours"
"""Of a report: see `pipeline.report.inputs.HOURS`."""

type JudgedDays = Mapping[Period, Manifest]
"""The manifest of its differences, by day."""
type Lines = Callable[[EventKind], DataFrame]
"""Reads the lines of a kind in the hours that changed since."""


def changed_days(lake: EventLake, yesterday: Period, now: int, due: Collection[Period] = ()) -> list[Period]:
    """Yesterday and the 15 days before it, if they were judged and have to be judged again.

    A day without a page of its differences is one of them. For the others, except those that are `due`, it is recorded
    that they take account of all that came until `now`.
    """
    by_time: dict[int, dict[Period, Manifest]] = defaultdict(dict)
    unwritten = []
    for day in (day_of(start) for start in range(yesterday.start - LATEST_MS, yesterday.end, DAY_MS)):
        differences = read_manifest(lake.root, differences_name(day))
        if differences and not is_written(lake.root, day, differences):
            unwritten.append(day)
        elif differences and differences.sealed_at is not None:
            by_time[differences.sealed_at][day] = differences
    arrived = lake.view.manifests(Period(yesterday.start - LATEST_MS - HOUR_MS, now))
    changed = []
    for at, judged in by_time.items():
        found = _changed(lake, judged, _unseen(arrived, judged, at, now), yesterday, now)
        others = {day: differences for day, differences in judged.items() if day not in {*found, *due}}
        note_seen(lake.root, others, arrived, now)
        changed += found
    return [*unwritten, *changed]


def _unseen(arrived: Sequence[Manifest], judged: JudgedDays, at: int, now: int) -> list[Manifest]:
    """The hours that have changed since days were judged, all `at` the same moment.

    Rules of before these days may come late under an hour that is in none of their `seen`. It counts as unseen if it may
    have been committed after `at`.
    """

    def is_unseen(hour: Manifest) -> bool:
        if hour.sealed_at is None:
            return True
        seen = [found.seen.get(hour.hour) for day, found in judged.items() if arrivals(day, now).has_hour(hour.hour)]
        return any(each != hour.sealed_at for each in seen) if seen else hour.sealed_at > at - MARGIN_MS

    return list(filter(is_unseen, arrived))


def _changed(
    lake: EventLake, judged: JudgedDays, unseen: Sequence[Manifest], yesterday: Period, now: int
) -> list[Period]:
    if not unseen:
        return []
    days = list(judged)
    lines = partial(_lines_of, lake, unseen)
    reach = SKEW + limit_history(lake.view, days[0].start, now).reach
    parts = [
        _observed(lines),
        _decided(lines, reach),
        _first_tried(lines),
        _of_differences(lines, lake, days),
        _claimed(lines, lake, days, yesterday),
    ]
    found = {row[_DAY] for row in reduce(DataFrame.unionByName, parts).distinct().collect()}
    found |= _by_changes_in_force(lines, lake, judged)
    return [day for day in days if day.start in found or _has_other_incomplete_hours(lake, day, unseen, now)]


def _has_other_incomplete_hours(lake: EventLake, day: Period, unseen: Sequence[Manifest], now: int) -> bool:
    """Whether an hour is unseen that is its own or on its page, and the hours that can't be judged, or why, are not those.

    A page whose table of hours is gone or damaged counts as one of others.
    """
    own = arrivals(day, day.end + HOUR_MS)
    try:
        named = _problems(lake.root, day)
    except LAKE_ERRORS:
        return True
    concerning = (hour.hour for hour in unseen if own.has_hour(hour.hour) or hour.hour in named)
    return any(concerning) and named != dict(incomplete_hours(lake.view, day, now))


def _problems(root: str, day: Period) -> dict[str, str]:
    """Why hours can't be judged, by hour, as the day's page says."""
    page = read_manifest(root, report_name(day))
    hours = _rows(root, page, HOURS_TABLE) if page else ()
    return {row["hour"]: row["problem"] for row in hours if row["problem"]}


def _rows(root: str, found: Manifest, table: str) -> list[dict[str, Any]]:
    return [row for rows in read_tables(root, found, (table,)).values() for row in rows.to_pylist()]


def note_seen(root: str, judged: JudgedDays, arrived: Sequence[Manifest], now: int) -> None:
    """Record that these days take account of all hours `arrived`. The report's `sealed_at`, when it was judged, stays.

    A day whose differences or page another job has replaced meanwhile is left out.
    """
    hours = {hour.hour: hour.sealed_at for hour in arrived}
    for day, differences in judged.items():
        page = read_manifest(root, report_name(day))
        if page and page.sealed_at is not None:
            with suppress(CommitConflict):
                _replace(root, differences, replace(differences, sealed_at=now, seen=hours))
                _replace(root, page, replace(page, seen=hours))


def _replace(root: str, known: Manifest, new: Manifest) -> None:
    """Raises `CommitConflict` if another commit has come first."""
    commit(root, replace(new, commit=new_commit()), known.commit)


def _lines_of(lake: EventLake, hours: Sequence[Manifest], kind: EventKind) -> DataFrame:
    return lake.read_files(kind, SCHEMAS[kind], [file for hour in hours for file in hour.kinds.get(kind, ())])


def _observed(lines: Lines) -> DataFrame:
    return lines(EventKind.OBSERVED).select(_day_of(F.col("observed_at")))


def _decided(lines: Lines, reach: int) -> DataFrame:
    """Days of decisions: any may be wrong, or be all that is left of its envelope, and counts for limits for `reach` ms.

    What was decided late is judged as of an hour before, and its envelope may be of the day before that. One that
    was observed earlier than that is found by its own line, by a first push, or by the differences that name its receipt.
    """
    envelopes = lines(EventKind.ENVELOPE).select(_day_of(F.col("observed_at")))
    notified = lines(EventKind.NOTIFICATION)
    late = notified.where(F.col("judged_at") <= F.col("at") - LATENESS)
    first, last = _day_of(judged_at()), _day_of(F.col("at") + reach)
    of_limits = F.explode(F.sequence(first, F.greatest(first, last), F.lit(DAY_MS)))
    parts = (envelopes, notified.select(of_limits.alias(_DAY)), late.select(_day_of(F.col("judged_at") - DAY_MS)))
    return reduce(DataFrame.unionByName, parts)


def _claimed(lines: Lines, lake: EventLake, days: Sequence[Period], yesterday: Period) -> DataFrame:
    """Days whose claims or differences name an envelope of which a claim before yesterday is known only now."""
    claiming = F.col("decision").isin(*CLAIMING)
    decided = lines(EventKind.NOTIFICATION).where(claiming & (judged_at() < yesterday.start))
    late = decided.select("envelope_id").unionByName(_observed_late(lines, lake, yesterday)).distinct()
    if late.isEmpty():
        return late.select(F.lit(None).cast("long").alias(_DAY))
    claims = ((day, lake.read_days(CLAIMS, CLAIM, [day])) for day in days)
    found = ((day, lake.differences(day)) for day in days)
    known = [
        rows.select("envelope_id", F.lit(day.start).alias(_DAY))
        for day, rows in chain(claims, found)
        if rows is not None
    ]
    return (
        reduce(DataFrame.unionByName, known).join(broadcast_if_few(late), on="envelope_id", how="leftsemi").select(_DAY)
    )


def _observed_late(lines: Lines, lake: EventLake, yesterday: Period) -> DataFrame:
    """`envelope_id` of envelopes of before yesterday that were decided, and whose observation is known only now.

    Without it there was no claim.
    """
    observed = lines(EventKind.OBSERVED).where(F.col("observed_at") < yesterday.start)
    first = observed.agg(F.min("observed_at").alias("at")).collect()[0]["at"]
    if first is None:
        return lines(EventKind.NOTIFICATION).select("envelope_id").limit(0)
    decided = lake.read(EventKind.NOTIFICATION, arrivals(Period(first, yesterday.start), yesterday.end))
    receipts = broadcast_if_few(observed.select("receipt"))
    return decided.join(receipts, on="receipt", how="leftsemi").select("envelope_id")


def _first_tried(lines: Lines) -> DataFrame:
    """Days of envelopes of which a first attempt is new: until then the push was missing, or unknown.

    `latency_ms` counts from the observation.
    """
    tried = lines(EventKind.PUSH).where(F.col("attempt") == 1)
    return tried.select(_day_of(F.col("at") - F.col("latency_ms")))


def _of_differences(lines: Lines, lake: EventLake, days: Sequence[Period]) -> DataFrame:
    found = ((day, lake.differences(day)) for day in days)
    named = [rows.select("receipt", F.lit(day.start).alias(_DAY)) for day, rows in found if rows is not None]
    receipts = reduce(DataFrame.unionByName, named).distinct()
    kinds = (EventKind.ENVELOPE, EventKind.NOTIFICATION, EventKind.PUSH)
    arrived = reduce(DataFrame.unionByName, (lines(kind).select("receipt") for kind in kinds))
    return arrived.join(broadcast_if_few(receipts), on="receipt", how="inner").select(_DAY)


def _by_changes_in_force(lines: Lines, lake: EventLake, judged: JudgedDays) -> set[int]:
    """The days that decided something by rules, subscriptions or limits of which a change is known only now."""
    kinds = (EventKind.RULES, EventKind.SUBSCRIPTION, EventKind.LIMITS)
    changes = reduce(DataFrame.unionByName, (lines(kind).select("at") for kind in kinds))
    by_day = changes.groupBy(_day_of(F.col("at"))).agg(F.min("at").alias("at"))
    first = {row[_DAY]: row["at"] for row in by_day.collect()}
    found = set()
    for day, differences in judged.items():
        since = first.get(day.end)
        if any(start < day.end for start in first) or (since and _is_decided_since(since, lake, day, differences)):
            found.add(day.start)
    return found


def _is_decided_since(since: int, lake: EventLake, day: Period, differences: Manifest) -> bool:
    """Whether an envelope of a day was decided on the next one, `since` a change or as shortly before as to be in doubt.

    So it is taken to be where the terms that say how shortly are gone or damaged.
    """
    try:
        terms, _ = judged_by({TERMS: _rows(lake.root, differences, TERMS)})
    except LAKE_ERRORS:
        return True
    decided = Period(since - terms.grace_of_limits, day.end + DAY_MS)
    hours = lake.view.manifests(arrivals(decided, decided.end + HOUR_MS))
    envelopes = _lines_of(lake, [hour for hour in hours if hour.hour in differences.seen], EventKind.ENVELOPE)
    return not envelopes.where(day.has(F.col("observed_at")) & decided.has(F.col("at"))).isEmpty()


def _day_of(instant: Column) -> Column:
    return (instant - F.pmod(instant, F.lit(DAY_MS))).alias(_DAY)
