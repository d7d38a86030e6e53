"""Which days the daily run has to judge: yesterday, and each day that an earlier run has missed."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice, takewhile
from typing import NamedTuple

from pipeline.commits import MANIFESTS, LakeView, read_manifest, read_manifests, update
from pipeline.compact import new_files
from pipeline.files import folders
from pipeline.lake import EventLake, differences_name
from pipeline.period import DAY_MS, HOUR_MS, LATEST_MS, Period, arrivals, hour_start
from pipeline.raw import RAW, arrival_hour
from pipeline.report_files import is_written
from pipeline.snapshots import day_of, snapshot_days
from pipeline.state import STATES

CATCH_UP_DAYS = 7
"""So many days one run judges at most."""
DAILY = "daily"
"""The name of a commit without files: what was judged until then, a daily run has returned."""


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


def untold_days(root: str, yesterday: Period) -> list[Period]:
    """Of yesterday and the 15 days before those that were judged, and whose findings no daily run has returned since.

    A run that died before its end has returned nothing.
    """
    last = read_manifest(root, DAILY)
    told = (last.sealed_at or 0) if last else yesterday.start
    days = [day_of(start) for start in range(yesterday.start - LATEST_MS, yesterday.end, DAY_MS)]
    verdicts = read_manifests(root, list(map(differences_name, days)))
    judged_at = {found.hour: found.sealed_at or 0 for found in verdicts}
    return [day for day in days if judged_at.get(differences_name(day), 0) > told]


def note_told(root: str, now: int) -> None:
    """A daily run of `now` is about to return what it has found."""
    update(root, DAILY, lambda known: replace(known, sealed_at=now))


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
