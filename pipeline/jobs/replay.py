"""`replay`: send again what is lost, of what the command line chooses."""

import argparse
from collections.abc import Sequence

import boto3
from botocore.config import Config
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from clarion.aws import IN_TIME
from clarion.settings import Settings
from pipeline.jobs.shared import name_incomplete, settings_of, with_period
from pipeline.lake.event_lake import EventLake
from pipeline.lake.plans import LEASE_MS, run_of
from pipeline.period import Period
from pipeline.reconciliation.reconcile import reconcile
from pipeline.repair import replay
from pipeline.terminal import ExitCode, every_thousand, log
from pipeline.terms import terms_of

CHOICES = ("receipt", "subscription_id", "network", "difference")
"""The columns of differences that the command line may name a value of, beside the client."""
PATIENT = IN_TIME.merge(Config(retries={"total_max_attempts": 5}))
"""Gives up long before the lease of a run has ended."""


class ReplaySettings(Settings):
    envelopes_queue_url: str


def run(lake: EventLake, options: argparse.Namespace) -> int:
    settings = None if options.dry_run else settings_of(ReplaySettings)
    incomplete = name_incomplete(lake, options, up_to_now=True)
    if incomplete:
        log("nothing is sent: what seems to be lost may only be missing here. Compact what has arrived, up to now")
        if settings:
            return ExitCode.FINDING
    stopped = [replay.still_to_send(lake, each, options.now) for each in replay.unfinished(lake.root, options.now)]
    finishable = [each for each in stopped if _can_be_finished(lake, options, each)]
    found = reconcile(lake, options.period, options.now, terms_of(options)).differences
    lost = chosen(found, options)
    planned = replay.plan(
        lake, lost, options.period, options.now, dry_run=options.dry_run, queues_lost=options.queues_lost
    )
    _log_plan(planned, sum(each.messages.count() for each in stopped))
    nothing_left_out = not incomplete and len(finishable) == len(stopped)
    if settings:
        new = [each for each in replay.unfinished(lake.root, options.now) if run_of(each) == planned.run]
        runs = [*finishable, *(replay.all_unsent(lake, each) for each in new)]
        nothing_left_out &= _send(lake, settings, options, runs)
    return ExitCode.DONE if nothing_left_out else ExitCode.FINDING


def _can_be_finished(lake: EventLake, options: argparse.Namespace, stopped: replay.Unsent) -> bool:
    """Whether every hour since the run's first unsent envelope can be judged. If not, log that the run is not sent.

    Some of it may have been delivered in these hours. Those from the period's first are checked already.
    """
    if stopped.since is None or stopped.since >= options.period.start:
        return True
    since = with_period(options, Period(stopped.since, options.period.end))
    if not name_incomplete(lake, since, up_to_now=True):
        return True
    log(f"nothing is sent of run {run_of(stopped.run)}, which was stopped: it may have been delivered in these hours")
    return False


def _log_plan(planned: replay.Planned, earlier: int) -> None:
    log(f"{planned.messages:>12,} notifications to send again")
    log(f"{planned.expired:>12,} left: their envelopes have expired, or are gone")
    log(f"{planned.waiting:>12,} left: dispatch has them still, and tries them again")
    log(f"{planned.known:>12,} left: they are in the plan of an earlier run")
    log(f"{earlier:>12,} messages that earlier runs have still to send")


def _send(
    lake: EventLake, settings: ReplaySettings, options: argparse.Namespace, runs: Sequence[replay.Unsent]
) -> bool:
    """Send these runs; returns False if another process is sending one of them."""
    report = every_thousand("sent")
    client, queue = boto3.client("sqs", config=PATIENT), settings.envelopes_queue_url
    sent = replay.send(lake, client, queue, runs, per_second=options.per_second, on_progress=report)
    log(f"{sent.messages:>12,} messages sent")
    for run_left in sent.left:
        again = "if it was killed, another one can finish it"
        log(f"run {run_left} is left to who is sending it; {again} {LEASE_MS // 1000} seconds later")
    return not sent.left


def chosen(differences: DataFrame, options: argparse.Namespace) -> DataFrame:
    """The slice that the command line asks for; without one, all."""
    rows = differences
    for name in CHOICES:
        if value := getattr(options, name):
            rows = rows.where(F.col(name) == str(value))
    if options.client is not None:
        rows = rows.where(F.col("client_id") == F.lit(options.client))
    return rows
