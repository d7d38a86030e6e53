"""Which judged days are concerned by lines that came after they were judged.

    lines not yet seen ────┬─▶ an envelope of such a day, what was decided of it, or tried first ─┐
                           ├─▶ decisions that count for a limit on that day ──────────────────────┤
                           ├─▶ a receipt that the day's differences name ─────────────────────────┼─▶ the day
                           ├─▶ a claim on an envelope of the day's claims or differences ─────────┤
                           └─▶ rules, subscriptions or limits that its decisions depend on ───────┘

No other line changes what was found: a push that was delivered stays so.
"""

from collections.abc import Callable, Sequence
from functools import partial, reduce
from itertools import chain

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from clarion.limiter import LATENESS, SKEW
from pipeline.columns import EventKind
from pipeline.in_force.states import limit_history
from pipeline.lake.commits import Manifest
from pipeline.lake.dedup import judged_at
from pipeline.lake.event_lake import EventLake
from pipeline.lake.schemas import SCHEMAS
from pipeline.lake.snapshots import CLAIMS
from pipeline.period import DAY_MS, Period, arrivals
from pipeline.reconciliation.claims import CLAIM, CLAIMING
from pipeline.reconciliation.judged_days import JudgedDays
from pipeline.spark.frames import broadcast_if_few

_DAY = "day_start"

type Lines = Callable[[EventKind], DataFrame]
"""Reads the lines of a kind in the hours that changed since."""


def concerned_days(
    lake: EventLake, judged: JudgedDays, unseen: Sequence[Manifest], yesterday: Period, now: int
) -> set[int]:
    """The starts of days that a line of the `unseen` hours concerns.

    `judged` is in order; others may be among the result.
    """
    if not unseen:
        return set()
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
    found = _days_in(reduce(DataFrame.unionByName, parts))
    rest = {day: known for day, known in judged.items() if day.start not in found}
    return found | _by_changes_in_force(lines, lake, rest, now)


def _days_in(rows: DataFrame) -> set[int]:
    return {row[_DAY] for row in rows.select(_DAY).distinct().collect()}


def _lines_of(lake: EventLake, hours: Sequence[Manifest], kind: EventKind) -> DataFrame:
    return lake.read_files(kind, SCHEMAS[kind], [file for hour in hours for file in hour.kinds.get(kind, ())])


def _observed(lines: Lines) -> DataFrame:
    return lines(EventKind.OBSERVED).select(_day_of(F.col("observed_at")))


def _decided(lines: Lines, reach: int) -> DataFrame:
    """Days for which a new decision counts: its envelope's, and each up to `reach` ms later, for limits.

    What was decided late is judged as of an hour before, and its envelope may be of the day before that. One that
    was observed earlier than that is found by its own line, by a first push, or by the differences that name its receipt.
    """
    envelopes = lines(EventKind.ENVELOPE).select(_day_of(F.col("observed_at")))
    notified = lines(EventKind.NOTIFICATION)
    late = notified.where(_is_late())
    first, last = _day_of(judged_at()), _day_of(F.col("at") + reach)
    of_limits = F.explode(F.sequence(first, F.greatest(first, last), F.lit(DAY_MS)))
    parts = (envelopes, notified.select(of_limits.alias(_DAY)), late.select(_day_of(F.col("judged_at") - DAY_MS)))
    return reduce(DataFrame.unionByName, parts)


def _is_late() -> Column:
    """Whether a notification was judged as of an hour before, and not as of its observation."""
    return judged_at() <= F.col("at") - LATENESS


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

    The daily run records no claim of an envelope without its observation.
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
    """Days whose differences name the receipt of a new line."""
    found = ((day, lake.differences(day)) for day in days)
    named = [rows.select("receipt", F.lit(day.start).alias(_DAY)) for day, rows in found if rows is not None]
    receipts = reduce(DataFrame.unionByName, named).distinct()
    kinds = (EventKind.ENVELOPE, EventKind.NOTIFICATION, EventKind.PUSH)
    arrived = reduce(DataFrame.unionByName, (lines(kind).select("receipt") for kind in kinds))
    return arrived.join(broadcast_if_few(receipts), on="receipt", how="inner").select(_DAY)


def _by_changes_in_force(lines: Lines, lake: EventLake, judged: JudgedDays, now: int) -> set[int]:
    """Judged days that depend on rules, subscriptions or limits of which a change is known only now.

    These are all that end after the first change, and earlier ones with an envelope that was decided after it, or shortly
    before.
    """
    kinds = (EventKind.RULES, EventKind.SUBSCRIPTION, EventKind.LIMITS)
    changes = reduce(DataFrame.unionByName, (lines(kind).select("at") for kind in kinds))
    first = changes.agg(F.min("at").alias("at")).collect()[0]["at"]
    if first is None:
        return set()
    before = {day: known for day, known in judged.items() if day.end <= first}
    return {day.start for day in judged if day not in before} | _decided_since(first, lake, before, now)


def _decided_since(first: int, lake: EventLake, judged: JudgedDays, now: int) -> set[int]:
    """The days of what was decided after the `first` change, or as shortly before as to be in doubt.

    A decision in an hour that none of these days has seen is a late line itself.
    """
    if not judged:
        return set()
    since = first - max(known.terms.grace_of_limits for known in judged.values())
    seen = set(chain.from_iterable(known.differences.seen for known in judged.values()))
    hours = [hour for hour in lake.view.manifests(arrivals(Period(since, now), now)) if hour.hour in seen]
    envelopes, notified = (
        _lines_of(lake, hours, kind).where(F.col("at") >= since)
        for kind in (EventKind.ENVELOPE, EventKind.NOTIFICATION)
    )
    soon = notified.where(~_is_late()).select(_day_of(judged_at()))
    found = _days_in(envelopes.select(_day_of(F.col("observed_at"))).unionByName(soon))
    others = [day.start for day in judged if day.start not in found]
    late = notified.where(_is_late())
    return found | (_days_in(_days_observed(late, lake, min(others), now)) if others else set())


def _days_observed(late: DataFrame, lake: EventLake, since: int, now: int) -> DataFrame:
    """The days of what was decided `late`, as a page of a crowd or a replay may be: only the observation says which."""
    if late.isEmpty():
        return late.select(_day_of(F.col("at")))
    observed = lake.read(EventKind.OBSERVED, arrivals(Period(since, now), now))
    receipts = broadcast_if_few(late.select("receipt").distinct())
    return observed.join(receipts, on="receipt", how="leftsemi").select(_day_of(F.col("observed_at")))


def _day_of(instant: Column) -> Column:
    return (instant - F.pmod(instant, F.lit(DAY_MS))).alias(_DAY)
