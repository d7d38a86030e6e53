"""`clarion-pipeline JOB --lake URI …`: the pipeline's one entry point, on one machine and on EMR Serverless.

Progress goes to standard error; what a program may want to know goes to standard output, as JSON.
"""

import argparse
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext

from clarion.settings import Settings
from pipeline.jobs import compact, daily, generate, reconcile, replay, report, retire, watch
from pipeline.jobs.shared import settings_of
from pipeline.lake.commits import LakeView
from pipeline.lake.event_lake import EventLake
from pipeline.lake.files import exists
from pipeline.reconciliation.reconcile import size_of
from pipeline.spark.ending import ended_by_signals, reason
from pipeline.spark.progress import progress
from pipeline.spark.session import session, starts_jvm
from pipeline.terminal import Exit, log
from pipeline.terms import terms_of

JOBS: dict[str, Callable[[EventLake, argparse.Namespace], int]] = {
    "compact": compact.run,
    "reconcile": reconcile.run,
    "watch": watch.run,
    "replay": replay.run,
    "report": report.run,
    "daily": daily.run,
    "retire": retire.run,
    "generate": generate.run,
}
"""As `pipeline.arguments` has them."""
SETTINGS: dict[str, type[Settings]] = {"replay": replay.ReplaySettings, "retire": retire.RetireSettings}
"""What a job needs of the environment, unless it is a dry run."""


def run(wanted: argparse.Namespace) -> int:
    """Do a job of `JOBS`; the exit code."""
    try:
        return _run(wanted)
    except Exception as error:
        if not (why := reason(error)):
            raise
        log(f"{wanted.job} can't go on: {why}")
        return Exit.NO_ANSWER


def _run(wanted: argparse.Namespace) -> int:
    if wanted.job != "generate" and not exists(wanted.lake):
        log(f"there is no lake at {wanted.lake}")
        return Exit.FINDING
    if wanted.job in SETTINGS and not wanted.dry_run:
        settings_of(SETTINGS[wanted.job])
    started = time.monotonic()
    log(f"{wanted.job} {wanted.period}" if wanted.has_period else wanted.job)
    size = (
        size_of(LakeView(wanted.lake), wanted.period, wanted.now, terms_of(wanted))
        if wanted.job == "reconcile" and starts_jvm()
        else None
    )
    with ended_by_signals(lambda: session(f"clarion {wanted.job}", size=size)) as spark:
        try:
            # At a terminal Spark draws a bar.
            with nullcontext() if sys.stderr.isatty() else progress(spark, log):
                status = JOBS[wanted.job](EventLake(spark, wanted.lake, wanted.oversize), wanted)
        finally:
            spark.stop()
    log(f"{wanted.job} done in {time.monotonic() - started:.0f} s")
    if wanted.why:
        log(f"ends with {status}: {'; '.join(wanted.why)}")
    return status
