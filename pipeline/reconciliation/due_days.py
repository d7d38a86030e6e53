"""Which days the daily run has to judge: those of the last seven that were not judged completely.

These were never judged, or before they were over, have no page of their differences, or have an hour that was sealed
anew since. What came late under hours of other days is looked for by `changed_days`.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import takewhile
from types import MappingProxyType
from typing import NamedTuple

from pipeline.compaction.compact import new_files
from pipeline.compaction.completeness import is_over
from pipeline.lake.commits import LAKE_ERRORS, MANIFESTS, LakeView, Manifest, read_manifest, read_manifests, update
from pipeline.lake.event_lake import EventLake, differences_name
from pipeline.lake.files import folders
from pipeline.lake.raw import RAW, arrival_hour, is_day
from pipeline.lake.snapshots import IN_FORCE, day_of, snapshot_days
from pipeline.period import DAY_MS, HOUR_MS, LATEST_MS, SNAPSHOT_DAYS, Period, arrivals, hour_path, hour_start
from pipeline.report.report_files import found_at, report_name

CATCH_UP_DAYS = 7
"""How far back an unjudged day is judged without `--from`, yesterday included."""
NAMED_DAYS = LATEST_MS // DAY_MS
"""How far back an unjudged day is named as overdue, yesterday included."""
DAILY = "daily"
"""A commit without files: its `sealed_at` is the `now` of the last daily run that reported what it found."""


class DueDays(NamedTuple):
    """In order. `overdue` days were missed for so long that an operator has to start their run.

    They are of the last `NAMED_DAYS`, but not of the last `CATCH_UP_DAYS`; if none of those was ever judged, earlier ones
    are added, back to a judged one. `unreadable` has the error of each day of which a manifest can't be read; it is in
    neither list.
    """

    due: list[Period]
    overdue: list[Period]
    unreadable: Mapping[Period, Exception] = MappingProxyType({})


def due_days(view: LakeView, yesterday: Period) -> DueDays:
    """A day is due unless it `is_judged`."""
    unreadable: dict[Period, Exception] = {}
    is_due = _false_if_unreadable(partial(_is_due, view), unreadable)
    is_overdue = _false_if_unreadable(partial(_was_never_judged, view.root), unreadable)
    days = _days_back(view.root, yesterday)
    recent, older, oldest = days[:CATCH_UP_DAYS], days[CATCH_UP_DAYS:NAMED_DAYS], days[NAMED_DAYS:]
    due = list(filter(is_due, recent))
    overdue = list(filter(is_overdue, older))
    if overdue == older:
        overdue += takewhile(is_overdue, oldest)
    return DueDays(due[::-1], overdue[::-1], unreadable)


def _false_if_unreadable(
    question: Callable[[Period], bool], errors: dict[Period, Exception]
) -> Callable[[Period], bool]:
    """`question`, but False for a day whose manifests can't be read; the error is stored in `errors`."""

    def answered(day: Period) -> bool:
        try:
            return question(day)
        except LAKE_ERRORS as error:
            errors[day] = error
            return False

    return answered


def _is_due(view: LakeView, day: Period) -> bool:
    return not is_judged(view, day)


def _was_never_judged(root: str, day: Period) -> bool:
    return read_manifest(root, differences_name(day)) is None


def is_judged(view: LakeView, day: Period) -> bool:
    """Whether `reconcile` has judged it as it is by now, after all its hours were over, and there is a page of that."""
    differences = read_manifest(view.root, differences_name(day))
    if differences is None or not has_page_of_whole_day(view.root, day, differences):
        return False
    arrived = view.manifests(arrivals(day, day.end + HOUR_MS))
    return all(each.sealed_at is not None and each.sealed_at == differences.seen.get(each.hour) for each in arrived)


def has_page_of_whole_day(root: str, day: Period, differences: Manifest) -> bool:
    """Whether a page shows these differences, and they were found after all hours of the day were over."""
    at = found_at(root, day, differences)
    return at is not None and is_over(hour_path(day.end), at)


def unreported_days(root: str, yesterday: Period, now: int) -> list[Period]:
    """Of yesterday and the 15 days before those that were judged, and whose findings no daily run has reported since.

    A run that died before its end has reported nothing. The first run of a lake has no marker: it writes one and reports
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
    """Record that the daily run of `now` reports what it found; an earlier `now` changes nothing."""
    update(root, DAILY, lambda known: replace(known, sealed_at=max(now, known.sealed_at or 0)))


def first_uncompacted(lake: EventLake, start: int) -> int:
    """When the oldest of the stream's files arrived that no commit has; `start` if none is older.

    All that arrived before a snapshot's end was compacted when it was written.
    """
    ends = [
        max((day.end for day in snapshot_days(lake.root, kind) if day.end <= start), default=0) for kind in IN_FORCE
    ]
    files = new_files(lake, Period(min(ends), start)) if min(ends) < start else ()
    return min((hour_start(arrival_hour(path)) for path in files), default=start)


def _days_back(root: str, yesterday: Period) -> list[Period]:
    """Yesterday and the days before it, back to `first_day`."""
    return [day_of(start) for start in range(yesterday.start, first_day(root, yesterday) - 1, -DAY_MS)]


def first_day(root: str, yesterday: Period) -> int:
    """When the first day began that can be judged, in UNIX milliseconds.

    It is the first day of which the stream has files or, if it has none, any hour has a commit; but no earlier than
    `SNAPSHOT_DAYS` before yesterday, since no day can be judged without snapshots. Where the stream has files, commits
    don't count: hours of before a lake's first may have been counted, or assumed to be quiet.
    """
    places = ([day for day in folders(root, place) if is_day(day)] for place in (RAW, MANIFESTS))
    found = next(filter(None, places), [])
    first = min((yesterday.start, *(hour_start(f"{day.removeprefix('day=')}/00") for day in found)))
    return max(first, yesterday.start - SNAPSHOT_DAYS * DAY_MS)
