"""Days that were judged before something arrived that may change what was found of them.

    lines compacted since ─┬─▶ observed on such a day ──────────────────────┐
                           ├─▶ the first attempt of a push of such a day ───┼─▶ judged again
                           └─▶ by a receipt that such a day's differences name ─┘

What is done is not done again: a push that was delivered, or an envelope that nobody wanted, changes by no other line.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from itertools import groupby

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipeline.commits import read_manifest, update
from pipeline.lake import EventLake, differences_name
from pipeline.period import DAY_MS, Period
from pipeline.rules import broadcast_if_few
from pipeline.schemas import EventKind
from pipeline.since import compacted_since, joined
from pipeline.state import LATEST_MS

_DAY = "day_start"


def changed_days(lake: EventLake, yesterday: Period, now: int) -> list[Period]:
    """Those before `yesterday` that have to be judged again; of the others it is noted that nothing has come till `now`."""
    starts = range(yesterday.start - LATEST_MS, yesterday.start, DAY_MS)
    judged = [(at, Period(start, start + DAY_MS)) for start in starts if (at := _judged_at(lake, start)) is not None]
    changed = []
    for moment, group in groupby(sorted(judged, key=lambda one: (one[0], one[1].start)), key=lambda one: one[0]):
        days = [day for _, day in group]
        found = _changed(lake, days, moment, now)
        for day in days:
            if day.start not in found:
                update(lake.root, differences_name(day), lambda known: replace(known, sealed_at=now))
        changed += [day for day in days if day.start in found]
    return sorted(changed, key=lambda day: day.start)


def _judged_at(lake: EventLake, start: int) -> int | None:
    verdict = read_manifest(lake.root, differences_name(Period(start, start + DAY_MS)))
    return verdict.sealed_at if verdict else None


def _changed(lake: EventLake, days: Sequence[Period], moment: int, now: int) -> set[int]:
    """The starts of those days of which something was compacted after `moment`."""
    arrived = joined(compacted_since(lake, moment, Period(days[0].start, now)))
    if not arrived:
        return set()
    parts = [_observed(lake, arrived), _first_tried(lake, arrived), _of_differences(lake, days, arrived)]
    found = reduce(DataFrame.unionByName, parts).where(F.col(_DAY).isin([day.start for day in days]))
    return {row[_DAY] for row in found.distinct().collect()}


def _observed(lake: EventLake, arrived: Sequence[Period]) -> DataFrame:
    return _lines(lake, EventKind.OBSERVED, arrived).select(_day_of(F.col("observed_at")))


def _first_tried(lake: EventLake, arrived: Sequence[Period]) -> DataFrame:
    """What was queued and not tried was a difference; what nobody knew was queued shows by being tried."""
    tried = _lines(lake, EventKind.PUSH, arrived).where(F.col("attempt") == 1)
    return tried.select(_day_of(F.col("at") - F.col("latency_ms")))


def _of_differences(lake: EventLake, days: Sequence[Period], arrived: Sequence[Period]) -> DataFrame:
    found = ((day, lake.differences(day)) for day in days)
    named = [rows.select("receipt", F.lit(day.start).alias(_DAY)) for day, rows in found if rows is not None]
    receipts = reduce(DataFrame.unionByName, named).distinct()
    kinds = (EventKind.ENVELOPE, EventKind.NOTIFICATION, EventKind.PUSH)
    lines = reduce(DataFrame.unionByName, (_lines(lake, kind, arrived).select("receipt") for kind in kinds))
    return lines.join(broadcast_if_few(receipts), on="receipt", how="inner").select(_DAY)


def _lines(lake: EventLake, kind: EventKind, arrived: Sequence[Period]) -> DataFrame:
    return reduce(DataFrame.unionByName, (lake.read(kind, each) for each in arrived))


def _day_of(instant: Column) -> Column:
    return (instant - F.pmod(instant, F.lit(DAY_MS))).alias(_DAY)
