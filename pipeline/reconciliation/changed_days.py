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

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from clarion.limiter import LATENESS, SKEW
from pipeline.columns import EventKind
from pipeline.compaction.completeness import incomplete_hours
from pipeline.in_force.states import MARGIN_MS, limit_history
from pipeline.lake.commits import CommitConflict, Manifest, commit, new_commit, read_manifest
from pipeline.lake.dedup import judged_at
from pipeline.lake.event_lake import EventLake, differences_name
from pipeline.lake.schemas import SCHEMAS
from pipeline.lake.snapshots import CLAIMS, day_of
from pipeline.period import DAY_MS, HOUR_MS, LATEST_MS, Period, arrivals
from pipeline.reconciliation.claims import CLAIM, CLAIMING
from pipeline.report.report_files import is_written, read_tables, report_name
from pipeline.spark.frames import broadcast_if_few
from pipeline.terms import Terms

_DAY = "day_start"

type Verdicts = Mapping[Period, Manifest]
"""Of days that were judged, their differences."""
type Lines = Callable[[EventKind], DataFrame]
"""Of a kind, those of the hours that have changed since."""


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
        found = _changed(lake, verdicts, _unseen(arrived, verdicts, at, now), yesterday, now)
        others = {day: verdict for day, verdict in verdicts.items() if day not in {*found, *due}}
        _note_seen(lake.root, others, arrived, now)
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
    lake: EventLake, verdicts: Verdicts, unseen: Sequence[Manifest], yesterday: Period, now: int
) -> list[Period]:
    if not unseen:
        return []
    days = list(verdicts)
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
    found |= _by_terms(lines, lake, verdicts)
    return [day for day in days if day.start in found or _has_other_gaps(lake, day, unseen, now)]


def _has_other_gaps(lake: EventLake, day: Period, unseen: Sequence[Manifest], now: int) -> bool:
    """Whether by an unseen hour of its own other hours can't be judged, or for other reasons, than its page says."""
    own = arrivals(day, day.end + HOUR_MS)
    if not any(own.has_hour(hour.hour) for hour in unseen):
        return False
    page = read_tables(lake.root, day) or {}
    named = {row["hour"]: row["problem"] for row in page.get("hours", ()) if row["problem"]}
    return named != dict(incomplete_hours(lake.view, day, now))


def _note_seen(root: str, verdicts: Verdicts, arrived: Sequence[Manifest], now: int) -> None:
    """Nothing has come of these days. The report's `sealed_at`, when it was judged, stays.

    Not of a day that another job judges or reports meanwhile: what that has seen, it notes itself.
    """
    hours = {hour.hour: hour.sealed_at for hour in arrived}
    for day, verdict in verdicts.items():
        page = read_manifest(root, report_name(day))
        if page and page.sealed_at is not None:
            with suppress(CommitConflict):
                _replace(root, verdict, replace(verdict, sealed_at=now, seen=hours))
                _replace(root, page, replace(page, seen=hours))


def _replace(root: str, known: Manifest, new: Manifest) -> None:
    """Raises `CommitConflict` if another commit has come first."""
    commit(root, replace(new, commit=new_commit()), known.commit)


def _lines_of(lake: EventLake, hours: Sequence[Manifest], kind: EventKind) -> DataFrame:
    return lake.read_files(kind, SCHEMAS[kind], [file for hour in hours for file in hour.kinds.get(kind, ())])


def _observed(lines: Lines) -> DataFrame:
    return lines(EventKind.OBSERVED).select(_day_of(F.col("observed_at")))


def _decided(lines: Lines, reach: int) -> DataFrame:
    """Any decision may be wrong, or all that is left of its envelope; and it counts for limits for `reach` milliseconds.

    What was decided late is judged as of an hour before, and its envelope may be of the day before that. One that
    was observed earlier than that is found by its own line, by a first push, or by the differences that name its receipt.
    """
    envelopes = lines(EventKind.ENVELOPE).select(_day_of(F.col("observed_at")))
    notified = lines(EventKind.NOTIFICATION)
    late = notified.where(F.col("judged_at") <= F.col("at") - LATENESS)
    instants = (judged_at(), F.col("at") + reach)
    parts = (
        envelopes,
        *(notified.select(_day_of(instant)) for instant in instants),
        late.select(_day_of(F.col("judged_at") - DAY_MS)),
    )
    return reduce(DataFrame.unionByName, parts)


def _claimed(lines: Lines, lake: EventLake, days: Sequence[Period], yesterday: Period) -> DataFrame:
    """What claimed an envelope before yesterday, and is known only now, is a claim without which other days were judged."""
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
    """`envelope_id` of what was observed before yesterday: without that line, what was decided of it held no claim."""
    observed = lines(EventKind.OBSERVED).where(F.col("observed_at") < yesterday.start)
    first = observed.agg(F.min("observed_at").alias("at")).collect()[0]["at"]
    if first is None:
        return lines(EventKind.NOTIFICATION).select("envelope_id").limit(0)
    decided = lake.read(EventKind.NOTIFICATION, arrivals(Period(first, yesterday.start), yesterday.end))
    receipts = broadcast_if_few(observed.select("receipt"))
    return decided.join(receipts, on="receipt", how="leftsemi").select("envelope_id")


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


def _by_terms(lines: Lines, lake: EventLake, verdicts: Verdicts) -> set[int]:
    """What holds from an instant on was wrong for all that was decided then and later, of whichever day it is."""
    kinds = (EventKind.RULES, EventKind.SUBSCRIPTION, EventKind.LIMITS)
    changed = reduce(DataFrame.unionByName, (lines(kind).select("at") for kind in kinds))
    first = {
        row[_DAY]: row["at"] for row in changed.groupBy(_day_of(F.col("at"))).agg(F.min("at").alias("at")).collect()
    }
    found = set()
    for day, verdict in verdicts.items():
        since = first.get(day.end)
        if any(start < day.end for start in first) or (since and _is_decided_since(since, lake, day, verdict)):
            found.add(day.start)
    return found


def _is_decided_since(since: int, lake: EventLake, day: Period, verdict: Manifest) -> bool:
    """Whether an envelope of a day was decided on the next one by what had changed `since` then."""
    decided = Period(since - Terms().grace_of_limits, day.end + DAY_MS)
    seen = [hour for hour in lake.view.manifests(arrivals(decided, decided.end)) if hour.hour in verdict.seen]
    envelopes = _lines_of(lake, seen, EventKind.ENVELOPE)
    return not envelopes.where(day.has(F.col("observed_at")) & decided.has(F.col("at"))).isEmpty()


def _day_of(instant: Column) -> Column:
    return (instant - F.pmod(instant, F.lit(DAY_MS))).alias(_DAY)
