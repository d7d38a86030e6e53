"""Which days the daily run has to judge: yesterday, and each day that an earlier run has missed."""

from collections.abc import Iterator
from itertools import islice, takewhile
from typing import NamedTuple

from pipeline.compaction.compact import new_files
from pipeline.in_force.state import STATES
from pipeline.lake.commits import MANIFESTS, LakeView, read_manifest
from pipeline.lake.event_lake import EventLake, differences_name
from pipeline.lake.files import folders
from pipeline.lake.raw import RAW, arrival_hour
from pipeline.lake.snapshots import snapshot_days
from pipeline.period import DAY_MS, HOUR_MS, Period, arrivals, hour_start
from pipeline.report.report_files import is_written

CATCH_UP_DAYS = 7
"""So many days one run judges at most."""


class DueDays(NamedTuple):
    """In order. `overdue` ones were missed for so long that an operator has to start their run."""

    due: list[Period]
    overdue: list[Period]


def due_days(view: LakeView, yesterday: Period) -> DueDays:
    """A day is due if it has never been judged, or something of it has arrived since."""
    days = _days_back(view.root, yesterday)
    due = [day for day in islice(days, CATCH_UP_DAYS) if not is_judged(view, day)]
    overdue = takewhile(lambda day: not is_judged(view, day), days)
    return DueDays(due[::-1], list(overdue)[::-1])


def is_judged(view: LakeView, day: Period) -> bool:
    """Whether `reconcile` has judged it as it is by now, and there is a page of that."""
    verdict = read_manifest(view.root, differences_name(day))
    if verdict is None or not is_written(view.root, day, verdict):
        return False
    arrived = view.manifests(arrivals(day, day.end + HOUR_MS))
    return all(each.sealed_at is not None and each.sealed_at == verdict.seen.get(each.hour) for each in arrived)


def first_uncompacted(lake: EventLake, start: int) -> int:
    """When the oldest of the stream's files arrived that no commit has; `start` if none is older.

    All that arrived before a snapshot's end was compacted when it was written.
    """
    ends = [max((day.end for day in snapshot_days(lake.root, kind) if day.end <= start), default=0) for kind in STATES]
    files = new_files(lake, Period(min(ends), start)) if min(ends) < start else ()
    return min((hour_start(arrival_hour(path)) for path in files), default=start)


def _days_back(root: str, yesterday: Period) -> Iterator[Period]:
    """From yesterday to the first day that the lake has anything of."""
    found = (day for place in (RAW, MANIFESTS) for day in folders(root, place) if day.startswith("day="))
    first = min((hour_start(f"{day.removeprefix('day=')}/00") for day in found), default=yesterday.start)
    for start in range(yesterday.start, min(first, yesterday.start) - 1, -DAY_MS):
        yield Period(start, start + DAY_MS)
