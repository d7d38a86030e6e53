"""`daily`: what the schedule runs, to the end whatever is found. Unless it is given a period, it judges each day that is due.

A day's last lines arrive after it, and late ones later.
"""

import argparse
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from operator import attrgetter

from pipeline.in_force.states import size_in_force, write_snapshots
from pipeline.jobs import compact, reconcile, report
from pipeline.jobs.shared import name_incomplete, strict, with_period
from pipeline.lake.event_lake import EventLake
from pipeline.period import DAY_MS, LATEST_MS, Period
from pipeline.reconciliation.changed_days import changed_days
from pipeline.reconciliation.due_days import (
    DueDays,
    due_days,
    first_day,
    note_reported,
    unreported_days,
)
from pipeline.spark.ending import reason
from pipeline.spark.session import small_lake_settings
from pipeline.terminal import log


def run(lake: EventLake, options: argparse.Namespace) -> int:
    """Raises `ExceptionGroup` of what has stopped the snapshots or some days, once all other days are judged."""
    errors = list[Exception]()
    days = DueDays([options.period], []) if options.has_explicit_period else _due_days(lake, options, errors)
    unreported = list[Period]()
    if not options.has_explicit_period:
        with _others_go_on(errors, "what earlier runs have found"):
            unreported = unreported_days(lake.root, options.period, options.now)
    first = min((day.start for day in days.due), default=options.period.start)
    period = Period(_compacted_from(lake, options, first), options.now)
    status = compact.compact_arrived(lake, with_period(options, period))
    with _others_go_on(errors, "the day's snapshot"):
        _write_snapshots(lake, options.now)
    for day in days.overdue:
        log(f"never judged: {day}")
    judged = set(days.due)
    if not options.has_explicit_period:
        with _others_go_on(errors, "what came late"):
            judged.update(changed_days(lake, options.period, options.now, days.due))
    judged -= days.unreadable.keys()
    status = max(status, _judge(lake, options, judged, errors))
    found = {options.period, *unreported} - judged - days.unreadable.keys()
    status = max(status, _repeat_findings(lake, options, found, errors))
    if errors:
        raise ExceptionGroup("days that could not be judged, or what later ones need", errors)
    if not options.has_explicit_period:
        note_reported(lake.root, options.now)
    return max(status, strict(options, {"days were never judged": len(days.overdue)}))


def _due_days(lake: EventLake, options: argparse.Namespace, errors: list[Exception]) -> DueDays:
    """Those of which a manifest can't be read are errors."""
    days = due_days(lake.view, options.period)
    for day, error in days.unreadable.items():
        _leave(errors, f"the day {day}", error)
    return days


def _write_snapshots(lake: EventLake, now: int) -> None:
    with small_lake_settings(lake.spark, size_in_force(lake.view, now)):
        for kind, count in write_snapshots(lake, now).items():
            log(f"{count:>12,} {kind} in the day's snapshot")


def _compacted_from(lake: EventLake, options: argparse.Namespace, first_due: int) -> int:
    """From the day before the first that is due; where somebody counts, as far back as a day may be judged again.

    So a night that has an answer makes up for those that had none.
    """
    if not options.stream:
        return first_due - DAY_MS
    earliest: int = options.now - LATEST_MS
    return min(first_due - DAY_MS, max(first_day(lake.root, options.period), earliest))


def _judge(lake: EventLake, options: argparse.Namespace, days: Collection[Period], errors: list[Exception]) -> int:
    status = 0
    for day in sorted(days, key=attrgetter("start")):
        log(f"the day {day}")
        of_day = with_period(options, day)
        with _others_go_on(errors, f"the day {day}"):
            status = max(status, reconcile.run(lake, of_day), report.run(lake, of_day))
    return status


def _repeat_findings(
    lake: EventLake, options: argparse.Namespace, days: Collection[Period], errors: list[Exception]
) -> int:
    """End also for what an earlier run has found of days."""
    status = 0
    for day in sorted(days, key=attrgetter("start")):
        with _others_go_on(errors, f"the day {day}"):
            status = max(status, _status_of_judged(lake, with_period(options, day)))
    return status


@contextmanager
def _others_go_on(errors: list[Exception], what: str) -> Iterator[None]:
    """Log and collect an error, so that the other days are still judged."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - raised in the end
        _leave(errors, what, error)


def _leave(errors: list[Exception], what: str, error: Exception) -> None:
    log(f"{what} is left as it is: {reason(error) or type(error).__name__}")
    errors.append(error)


def _status_of_judged(lake: EventLake, options: argparse.Namespace) -> int:
    """What `reconcile` returned for a period that an earlier run has judged."""
    found = lake.differences(options.period)
    differences = found.count() if found is not None else 0
    return reconcile.strictly(
        options, differences, reconcile.unread_earlier(lake, options.period), name_incomplete(lake, options)
    )
