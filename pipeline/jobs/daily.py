"""`daily`: what the schedule runs, to the end whatever is found. Unless it is given a period, it judges each day that is due.

A day's last lines arrive after it, and late ones later.
"""

import argparse
from collections.abc import Iterable

from pipeline.in_force.states import write_snapshots
from pipeline.jobs import compact, reconcile, report
from pipeline.jobs.shared import log, name_incomplete, strict
from pipeline.lake.event_lake import EventLake
from pipeline.period import DAY_MS, Period
from pipeline.reconciliation.due_days import DueDays, changed_days, due_days
from pipeline.spark.ending import reason


def run(lake: EventLake, wanted: argparse.Namespace) -> int:
    days = DueDays([wanted.period], []) if wanted.asked else due_days(lake.view, wanted.period)
    first = min((day.start for day in days.due), default=wanted.period.start)
    status = compact.run(lake, _of(wanted, Period(first - DAY_MS, wanted.now)))
    for kind, count in write_snapshots(lake, wanted.now).items():
        log(f"{count:>12,} {kind} in the day's snapshot")
    for day in days.overdue:
        log(f"never judged: {day}")
    late = [] if wanted.asked else changed_days(lake, wanted.period, wanted.now)
    status = max(status, _judge(lake, wanted, {*days.due, *late}))
    if wanted.period not in days.due:
        status = max(status, _status_of_judged(lake, wanted))
    return max(status, strict(wanted, {"days were never judged": len(days.overdue)}))


def _judge(lake: EventLake, wanted: argparse.Namespace, days: Iterable[Period]) -> int:
    """Raises `ExceptionGroup` of what has stopped some days, once all others are judged."""
    status, errors = 0, []
    for day in sorted(days, key=lambda day: day.start):
        log(f"the day {day}")
        try:
            status = max(status, reconcile.run(lake, _of(wanted, day)), report.run(lake, _of(wanted, day)))
        except Exception as error:  # noqa: BLE001 - raised in the end
            log(f"the day {day} is left as it is: {reason(error) or type(error).__name__}")
            errors.append(error)
    if errors:
        raise ExceptionGroup("days that could not be judged", errors)
    return status


def _status_of_judged(lake: EventLake, wanted: argparse.Namespace) -> int:
    """What `reconcile` returned for a period that an earlier run has judged."""
    found = lake.differences(wanted.period)
    differences = found.count() if found is not None else 0
    return strict(wanted, {"differences": differences, "hours can't be judged": name_incomplete(lake, wanted)})


def _of(wanted: argparse.Namespace, period: Period) -> argparse.Namespace:
    """The same, of another period."""
    return argparse.Namespace(**{**vars(wanted), "period": period})
