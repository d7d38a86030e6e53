"""What several jobs do alike: log, name the hours that can't be judged, and say how a strict run ends."""

import argparse
import sys
from collections.abc import Callable, Mapping
from itertools import groupby

from pipeline.completeness import incomplete_hours
from pipeline.lake import EventLake
from pipeline.period import HOUR_MS, hour_runs
from pipeline.reconcile import Findings, reconcile
from pipeline.terms import Terms


def log(line: str) -> None:
    print(f"» {line}", file=sys.stderr, flush=True)


def every_thousand(done: str) -> Callable[[int], None]:
    """Logs progress, seldom."""
    logged = 0

    def report(count: int) -> None:
        nonlocal logged
        if count - logged >= 1_000:
            logged = count
            log(f"{count:>12,} {done}")

    return report


def strict(wanted: argparse.Namespace, found: Mapping[str, int]) -> int:
    """1 if `--strict` is given and something was found, which is kept for the last line."""
    why = ", ".join(f"{count:,} {what}" for what, count in found.items() if count)
    if not wanted.strict or not why:
        return 0
    wanted.why.append(f"{wanted.period}: {why}")
    return 1


def name_incomplete(lake: EventLake, wanted: argparse.Namespace) -> int:
    """How many hours can't be judged; all are named."""
    hours = incomplete_hours(lake.view, wanted.period, wanted.now, provisional=wanted.provisional)
    for reason, some in groupby(hours, lambda each: each.reason):
        for run in hour_runs(each.hour for each in some):
            log(f"incomplete: {run}: {reason}")
    return len(hours)


def reconciled(lake: EventLake, wanted: argparse.Namespace) -> Findings:
    return reconcile(lake, wanted.period, wanted.now, terms_of(wanted))


def terms_of(wanted: argparse.Namespace) -> Terms:
    return Terms(
        grace=1_000 * wanted.grace_seconds, late=1_000 * wanted.late_seconds, lookback=HOUR_MS * wanted.lookback_hours
    )
