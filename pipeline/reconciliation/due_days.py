"""Which days the daily run has to judge: yesterday, each day that an earlier run missed, and each that has changed.

A day that was judged has changed if something arrived afterwards that may change what was found of it:

    lines not yet seen ────┬─▶ an envelope of such a day, what was decided of it, or tried first ─┐
                           ├─▶ a receipt that the day's differences name ─────────────────────────┼─▶ judged again
                           ├─▶ a claim on an envelope of the day's claims or differences ─────────┤
                           └─▶ rules, subscriptions or limits of then ────────────────────────────┘

No other line changes what was found: a push that was delivered stays so. A day of which other hours can't be judged than
its page says has changed as well.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from itertools import chain, islice, takewhile
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from clarion.limiter import LATENESS
from pipeline.columns import EventKind
from pipeline.compaction.compact import new_files
from pipeline.compaction.completeness import incomplete_hours
from pipeline.in_force.states import MARGIN_MS
from pipeline.lake.commits import MANIFESTS, LakeView, Manifest, read_manifest, read_manifests, update
from pipeline.lake.dedup import judged_at
from pipeline.lake.event_lake import EventLake, differences_name
from pipeline.lake.files import folders
from pipeline.lake.raw import RAW, arrival_hour, is_day
from pipeline.lake.schemas import SCHEMAS
from pipeline.lake.snapshots import CLAIMS, IN_FORCE, day_of, snapshot_days
from pipeline.period import DAY_MS, HOUR_MS, LATEST_MS, Period, arrivals, hour_start
from pipeline.reconciliation.claims import CLAIM, CLAIMING
from pipeline.report.report_files import is_written, read_tables, report_name
from pipeline.spark.frames import broadcast_if_few

CATCH_UP_DAYS = 7
"""How far back an unjudged day is judged without `--from`, yesterday included."""
NAMED_DAYS = LATEST_MS // DAY_MS
"""How far back an unjudged day is named as overdue, yesterday included."""
DAILY = "daily"
"""The name of a commit without files: what was judged until then, a daily run has returned."""
_DAY = "day_start"

type Verdicts = Mapping[Period, Manifest]
"""Of days that were judged, their differences."""
type Lines = Callable[[EventKind], DataFrame]
"""Of a kind, those of the hours that have changed since."""


class DueDays(NamedTuple):
    """In order. `overdue` ones were missed for so long that an operator has to start their run.

    They are those of the last `NAMED_DAYS`, and if nobody has judged any of these, those before.
    """

    due: list[Period]
    overdue: list[Period]


def due_days(view: LakeView, yesterday: Period) -> DueDays:
    """A day is due if it has never been judged, or something of it has arrived since."""
    days = _days_back(view.root, yesterday)
    due = [day for day in islice(days, CATCH_UP_DAYS) if not is_judged(view, day)]
    older = list(islice(days, NAMED_DAYS - CATCH_UP_DAYS))
    overdue = [day for day in older if _is_unknown(view.root, day)]
    if overdue == older:
        overdue += takewhile(lambda day: _is_unknown(view.root, day), days)
    return DueDays(due[::-1], overdue[::-1])


def _is_unknown(root: str, day: Period) -> bool:
    return read_manifest(root, differences_name(day)) is None


def is_judged(view: LakeView, day: Period) -> bool:
    """Whether `reconcile` has judged it as it is by now, and there is a page of that."""
    verdict = read_manifest(view.root, differences_name(day))
    if verdict is None or not is_written(view.root, day, verdict):
        return False
    arrived = view.manifests(arrivals(day, day.end + HOUR_MS))
    return all(each.sealed_at is not None and each.sealed_at == verdict.seen.get(each.hour) for each in arrived)


def unreported_days(root: str, yesterday: Period, now: int) -> list[Period]:
    """Of yesterday and the 15 days before those that were judged, and whose findings no daily run has returned since.

    A run that died before its end has returned nothing. The first run of a lake has no marker: it writes one and reports
    nothing from before.
    """
    last = read_manifest(root, DAILY)
    if last is None:
        note_reported(root, now - 1)
        return []
    days = [day_of(start) for start in range(yesterday.start - LATEST_MS, yesterday.end, DAY_MS)]
    pages = read_manifests(root, list(map(report_name, days)))
    judged_at = {page.hour: page.sealed_at or 0 for page in pages}
    return [day for day in days if judged_at.get(report_name(day), 0) > (last.sealed_at or 0)]


def note_reported(root: str, now: int) -> None:
    """A daily run of `now` is about to return what it has found."""
    update(root, DAILY, lambda known: replace(known, sealed_at=now))


def first_uncompacted(lake: EventLake, start: int) -> int:
    """When the oldest of the stream's files arrived that no commit has; `start` if none is older.

    All that arrived before a snapshot's end was compacted when it was written.
    """
    ends = [
        max((day.end for day in snapshot_days(lake.root, kind) if day.end <= start), default=0) for kind in IN_FORCE
    ]
    files = new_files(lake, Period(min(ends), start)) if min(ends) < start else ()
    return min((hour_start(arrival_hour(path)) for path in files), default=start)


def _days_back(root: str, yesterday: Period) -> Iterator[Period]:
    """From yesterday to the first day that the lake has anything of."""
    for start in range(yesterday.start, first_day(root, yesterday) - 1, -DAY_MS):
        yield Period(start, start + DAY_MS)


def first_day(root: str, yesterday: Period) -> int:
    """When the first day began of which the stream has files, or if it has none, any hour a commit.

    Of the day before a lake's first there are commits of hours that were only counted, or assumed to be quiet.
    """
    places = ([day for day in folders(root, place) if is_day(day)] for place in (RAW, MANIFESTS))
    found = next(filter(None, places), [])
    return min((yesterday.start, *(hour_start(f"{day.removeprefix('day=')}/00") for day in found)))


def changed_days(lake: EventLake, yesterday: Period, now: int, due: Collection[Period] = ()) -> list[Period]:
    """Those before `yesterday` that have to be judged again; of the others it is noted that nothing has come till `now`.

    Of those that are `due` nothing is noted: they stay so until they are judged. A run that judged a day may have died
    before it had written the page.
    """
    judged: dict[int, dict[Period, Manifest]] = defaultdict(dict)
    unwritten = []
    for day in (day_of(start) for start in range(yesterday.start - LATEST_MS, yesterday.start, DAY_MS)):
        verdict = read_manifest(lake.root, differences_name(day))
        if verdict and not is_written(lake.root, day, verdict):
            unwritten.append(day)
        elif verdict and verdict.sealed_at is not None:
            judged[verdict.sealed_at][day] = verdict
    arrived = lake.view.manifests(Period(yesterday.start - LATEST_MS - HOUR_MS, now))
    changed = []
    for at, verdicts in judged.items():
        found = _changed(lake, list(verdicts), _unseen(arrived, verdicts, at, now), yesterday, now)
        _note_seen(lake.root, [day for day in verdicts if day not in {*found, *due}], arrived, now)
        changed += found
    return [*unwritten, *changed]


def _unseen(arrived: Sequence[Manifest], verdicts: Verdicts, at: int, now: int) -> list[Manifest]:
    """The hours that have changed since days were judged, all `at` the same moment.

    Rules of before these days may come late under an hour of before them, which none of these has to have seen: such an
    hour has changed if it may have been committed later.
    """

    def is_unseen(hour: Manifest) -> bool:
        if hour.sealed_at is None:
            return True
        seen = [found.seen.get(hour.hour) for day, found in verdicts.items() if arrivals(day, now).has_hour(hour.hour)]
        return any(each != hour.sealed_at for each in seen) if seen else hour.sealed_at > at - MARGIN_MS

    return list(filter(is_unseen, arrived))


def _changed(
    lake: EventLake, days: Sequence[Period], unseen: Sequence[Manifest], yesterday: Period, now: int
) -> list[Period]:
    lines = partial(_lines_of, lake, unseen)
    parts = [
        _observed(lines),
        _decided(lines),
        _first_tried(lines),
        _of_differences(lines, lake, days),
        _claimed(lines, lake, days, yesterday),
        _terms(lines, days),
    ]
    found = {row[_DAY] for row in reduce(DataFrame.unionByName, parts).distinct().collect()}
    return [day for day in days if day.start in found or _has_other_gaps(lake, day, unseen, now)]


def _has_other_gaps(lake: EventLake, day: Period, unseen: Sequence[Manifest], now: int) -> bool:
    """Whether by an unseen hour of its own other hours can't be judged, or for other reasons, than its page says."""
    own = arrivals(day, day.end + HOUR_MS)
    if not any(own.has_hour(hour.hour) for hour in unseen):
        return False
    page = read_tables(lake.root, day) or {}
    named = {row["hour"]: row["problem"] for row in page.get("hours", ()) if row["problem"]}
    return named != dict(incomplete_hours(lake.view, day, now))


def _note_seen(root: str, days: Sequence[Period], arrived: Sequence[Manifest], now: int) -> None:
    """Nothing has come of these days. The report's `sealed_at`, when it was judged, stays."""
    hours = {hour.hour: hour.sealed_at for hour in arrived}
    for day in days:
        update(root, report_name(day), partial(replace, seen=hours))
        update(root, differences_name(day), partial(replace, sealed_at=now, seen=hours))


def _lines_of(lake: EventLake, hours: Sequence[Manifest], kind: EventKind) -> DataFrame:
    return lake.read_files(kind, SCHEMAS[kind], [file for hour in hours for file in hour.kinds.get(kind, ())])


def _observed(lines: Lines) -> DataFrame:
    return lines(EventKind.OBSERVED).select(_day_of(F.col("observed_at")))


def _decided(lines: Lines) -> DataFrame:
    """Any decision may be wrong, or all that is left of its envelope.

    What was decided late is judged as of an hour before, and its envelope may be of the day before that. One that
    was observed earlier than that is found by its own line, by a first push, or by the differences that name its receipt.
    """
    envelopes = lines(EventKind.ENVELOPE).select(_day_of(F.col("observed_at")))
    notified = lines(EventKind.NOTIFICATION)
    late = notified.where(F.col("judged_at") <= F.col("at") - LATENESS)
    parts = (envelopes, notified.select(_day_of(judged_at())), late.select(_day_of(F.col("judged_at") - DAY_MS)))
    return reduce(DataFrame.unionByName, parts)


def _claimed(lines: Lines, lake: EventLake, days: Sequence[Period], yesterday: Period) -> DataFrame:
    """What claimed an envelope before yesterday, and comes only now, is a claim without which other days were judged."""
    claiming = F.col("decision").isin(*CLAIMING)
    late = (
        lines(EventKind.NOTIFICATION).where(claiming & (judged_at() < yesterday.start)).select("envelope_id").distinct()
    )
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


def _first_tried(lines: Lines) -> DataFrame:
    """What was queued and not tried was a difference; what nobody knew was queued shows by being tried."""
    tried = lines(EventKind.PUSH).where(F.col("attempt") == 1)
    return tried.select(_day_of(F.col("at") - F.col("latency_ms")))


def _of_differences(lines: Lines, lake: EventLake, days: Sequence[Period]) -> DataFrame:
    found = ((day, lake.differences(day)) for day in days)
    named = [rows.select("receipt", F.lit(day.start).alias(_DAY)) for day, rows in found if rows is not None]
    receipts = reduce(DataFrame.unionByName, named).distinct()
    kinds = (EventKind.ENVELOPE, EventKind.NOTIFICATION, EventKind.PUSH)
    arrived = reduce(DataFrame.unionByName, (lines(kind).select("receipt") for kind in kinds))
    return arrived.join(broadcast_if_few(receipts), on="receipt", how="inner").select(_DAY)


def _terms(lines: Lines, days: Sequence[Period]) -> DataFrame:
    """What holds from a day on was wrong for all that follow."""
    kinds = (EventKind.RULES, EventKind.SUBSCRIPTION, EventKind.LIMITS)
    changed = reduce(DataFrame.unionByName, (lines(kind).select("at") for kind in kinds))
    starts = F.array(*(F.lit(day.start) for day in days))
    return changed.select(F.explode(F.filter(starts, lambda start: F.col("at") < start + DAY_MS)).alias(_DAY))


def _day_of(instant: Column) -> Column:
    return (instant - F.pmod(instant, F.lit(DAY_MS))).alias(_DAY)
