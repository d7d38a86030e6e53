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
from pipeline.terminal import ExitCode, log
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


def run(options: argparse.Namespace) -> int:
    """Do a job of `JOBS`; the exit code."""
    try:
        return _run(options)
    except Exception as error:
        if not (why := reason(error)):
            raise
        log(f"{options.job} can't go on: {why}")
        return ExitCode.NO_ANSWER


def _run(options: argparse.Namespace) -> int:
    if options.job != "generate" and not exists(options.lake):
        log(f"there is no lake at {options.lake}")
        return ExitCode.FINDING
    if options.job in SETTINGS and not options.dry_run:
        settings_of(SETTINGS[options.job])
    started = time.monotonic()
    log(f"{options.job} {options.period}" if options.has_period else options.job)
    size = (
        size_of(LakeView(options.lake), options.period, options.now, terms_of(options))
        if options.job == "reconcile" and starts_jvm()
        else None
    )
    with ended_by_signals(lambda: session(f"clarion {options.job}", size=size)) as spark:
        try:
            # At a terminal Spark draws a bar.
            with nullcontext() if sys.stderr.isatty() else progress(spark, log):
                status = JOBS[options.job](EventLake(spark, options.lake, options.oversize), options)
        finally:
            spark.stop()
    log(f"{options.job} done in {time.monotonic() - started:.0f} s")
    if options.findings:
        log(f"ends with {status}: {'; '.join(options.findings)}")
    return status
