"""What several jobs do alike: read their settings, name the hours that can't be judged, and end a strict run."""

import argparse
from collections.abc import Mapping, Sequence
from itertools import groupby

from pydantic import ValidationError

from clarion.settings import PREFIX, Settings
from pipeline.compaction.completeness import EXAMPLE, IncompleteHour, incomplete_hours
from pipeline.lake.event_lake import EventLake
from pipeline.period import Period, hour_runs
from pipeline.spark.ending import JobStopped
from pipeline.terminal import ExitCode, log

NAMED = 3
"""Findings that the last line names; all of them are logged."""


class BadSettings(JobStopped):
    """The environment lacks a setting that the job needs."""


def settings_of[S: Settings](model: type[S]) -> S:
    try:
        return model.from_environment()
    except ValidationError as error:
        found = (f"{_variable(each['loc'])}{each['msg']}" for each in error.errors())
        raise BadSettings(f"the environment is not as docs/lake.md has it: {'; '.join(found)}") from error


def _variable(loc: tuple[int | str, ...]) -> str:
    return f"{PREFIX}{loc[0]}: ".upper() if loc else ""


def with_period(options: argparse.Namespace, period: Period, **others: object) -> argparse.Namespace:
    """The same command line, but for the period and `others`."""
    return argparse.Namespace(**{**vars(options), "period": period, **others})


def strict(options: argparse.Namespace, found: Mapping[str, int | Sequence[object]]) -> int:
    """1 if `--strict` is given and something was found, which is kept for the last line: how much, or the first of it."""
    why = ", ".join(_found(what, some) for what, some in found.items() if some)
    if not options.strict or not why:
        return ExitCode.DONE
    options.findings.append(f"{options.period}: {why}")
    return ExitCode.FINDING


def _found(what: str, some: int | Sequence[object]) -> str:
    if isinstance(some, int):
        return f"{some:,} {what}"
    more = "; …" if len(some) > NAMED else ""
    return f"{len(some):,} {what} ({'; '.join(map(str, some[:NAMED]))}{more})"


def name_incomplete(
    lake: EventLake, options: argparse.Namespace, *, up_to_now: bool = False
) -> Sequence[IncompleteHour]:
    """The hours that can't be judged, as `incomplete_hours` finds them; all are logged."""
    provisional = options.provisional
    hours = incomplete_hours(lake.view, options.period, options.now, provisional=provisional, up_to_now=up_to_now)
    for _, same in groupby(hours, lambda each: each.reason.partition(EXAMPLE)[0]):
        reasons = dict(same)
        for run in hour_runs(reasons):
            log(f"incomplete: {run}: {reasons[run.partition(' ')[0]]}")
    return hours
