"""Days that were judged before something arrived that may change what was found of them.

    lines compacted since ─┬─▶ an envelope of such a day, or the first attempt of a push ─┐
                           ├─▶ a receipt that the day's differences name ─────────────────┼─▶ judged again
                           └─▶ rules, subscriptions or limits of then ────────────────────┘

No other line changes what was found: a push that was delivered stays so, and an envelope that nobody wanted unwanted.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipeline.commits import read_manifest, update
from pipeline.lake import EventLake, differences_name
from pipeline.period import DAY_MS, Period
from pipeline.rules import broadcast_if_few
from pipeline.schemas import SCHEMAS, EventKind
from pipeline.since import compacted_since
from pipeline.snapshots import day_of
from pipeline.state import LATEST_MS

_DAY = "day_start"

type Lines = Callable[[EventKind], DataFrame]
"""Of a kind, what was compacted since."""


def changed_days(lake: EventLake, yesterday: Period, now: int) -> list[Period]:
    """Those before `yesterday` that have to be judged again; of the others it is noted that nothing has come till `now`."""
    judged: dict[int, list[Period]] = defaultdict(list)
    for day in (day_of(start) for start in range(yesterday.start - LATEST_MS, yesterday.start, DAY_MS)):
        verdict = read_manifest(lake.root, differences_name(day))
        if verdict and verdict.sealed_at is not None:
            judged[verdict.sealed_at].append(day)
    return [day for moment, days in judged.items() for day in _changed(lake, days, moment, now)]


def _changed(lake: EventLake, days: Sequence[Period], moment: int, now: int) -> list[Period]:
    """Of days that were judged at the same moment."""
    lines = partial(_lines_since, lake, moment, Period(days[0].start, now))
    parts = [_observed(lines), _first_tried(lines), _of_differences(lines, lake, days), _terms(lines, days)]
    found = {row[_DAY] for row in reduce(DataFrame.unionByName, parts).distinct().collect()}
    for day in days:
        if day.start not in found:
            update(lake.root, differences_name(day), lambda known: replace(known, sealed_at=now))
    return [day for day in days if day.start in found]


def _lines_since(lake: EventLake, moment: int, arrived: Period, kind: EventKind) -> DataFrame:
    return lake.read_files(kind, SCHEMAS[kind], list(compacted_since(lake, kind, moment, arrived)))


def _observed(lines: Lines) -> DataFrame:
    return lines(EventKind.OBSERVED).select(_day_of(F.col("observed_at")))


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
