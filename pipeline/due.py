"""Which days the daily run has to judge: yesterday, and each day that an earlier run has missed."""

from collections.abc import Iterator
from itertools import islice, takewhile
from typing import NamedTuple

from pipeline.commits import MANIFESTS, LakeView, read_manifest
from pipeline.files import folders
from pipeline.lake import differences_name
from pipeline.period import DAY_MS, HOUR_MS, Period, hour_start
from pipeline.raw import RAW

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
    """Whether `reconcile` has judged it as it is by now."""
    verdict = read_manifest(view.root, differences_name(day))
    if verdict is None or verdict.sealed_at is None:
        return False
    arrived = view.manifests(Period(day.start, day.end + HOUR_MS))
    return all(each.sealed_at is not None and each.sealed_at <= verdict.sealed_at for each in arrived)


def _days_back(root: str, yesterday: Period) -> Iterator[Period]:
    """From yesterday to the first day that the lake has anything of."""
    found = (day for place in (RAW, MANIFESTS) for day in folders(root, place) if day.startswith("day="))
    first = min((hour_start(f"{day.removeprefix('day=')}/00") for day in found), default=yesterday.start)
    for start in range(yesterday.start, min(first, yesterday.start) - 1, -DAY_MS):
        yield Period(start, start + DAY_MS)
