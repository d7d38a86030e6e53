"""`replay`: send again what is lost, of what the command line chooses."""

import argparse

import boto3
from botocore.config import Config
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from clarion.aws import IN_TIME
from clarion.settings import Settings
from pipeline.compaction.compact import new_files
from pipeline.jobs.shared import name_incomplete, settings_of
from pipeline.lake.event_lake import EventLake
from pipeline.lake.plans import LEASE_MS
from pipeline.lake.raw import arrival_hour, written_since
from pipeline.period import Period, hour_path, hour_runs
from pipeline.reconciliation.reconcile import reconcile
from pipeline.repair import replay
from pipeline.terminal import ExitCode, every_thousand, log
from pipeline.terms import terms_of

CHOICES = ("receipt", "subscription_id", "network", "difference")
"""The columns of differences that the command line may name a value of, beside the client."""
FRESH_MS = 30 * 60_000
"""So old a file of the hour under way should have been compacted."""
PATIENT = IN_TIME.merge(Config(retries={"total_max_attempts": 5}))
"""Gives up long before the lease of a run has ended."""


class ReplaySettings(Settings):
    envelopes_queue_url: str


def run(lake: EventLake, options: argparse.Namespace) -> int:
    settings = None if options.dry_run else settings_of(ReplaySettings)
    incomplete, later = name_incomplete(lake, options), _not_compacted(lake, options)
    if later:
        log(f"not compacted yet, and may say what was sent since; compact first: {', '.join(hour_runs(later))}")
    if (incomplete or later) and settings:
        log("nothing is sent: what seems to be lost may only be missing here")
        return ExitCode.FINDING
    found = reconcile(lake, options.period, options.now, terms_of(options)).differences
    lost = chosen(found, options)
    planned = replay.plan(
        lake, lost, options.period, options.now, dry_run=options.dry_run, queues_lost=options.queues_lost
    )
    log(f"{planned.messages:>12,} notifications to send again")
    log(f"{planned.expired:>12,} left: their envelopes have expired, or are gone")
    log(f"{planned.waiting:>12,} left: dispatch has them still, and tries them again")
    log(f"{planned.known:>12,} left: an earlier run has sent them again")
    if settings:
        report = every_thousand("sent")
        client, queue = boto3.client("sqs", config=PATIENT), settings.envelopes_queue_url
        sent = replay.send(lake, client, queue, now=options.now, per_second=options.per_second, on_progress=report)
        log(f"{sent.messages:>12,} messages sent")
        for run_left in sent.left:
            again = "if it was killed, another one can finish it"
            log(f"run {run_left} is left to who is sending it; {again} {LEASE_MS // 1000} seconds later")
        return ExitCode.FINDING if sent.left else ExitCode.DONE
    return ExitCode.DONE


def _not_compacted(lake: EventLake, options: argparse.Namespace) -> list[str]:
    """The hours since the period began that have files which no commit names, or have ended without a commit.

    To the hour under way files come all the time: it is one of these only if such a file is older than `FRESH_MS`.
    """
    since, under_way = Period(options.period.start, options.now), hour_path(options.now)
    commits = {each.hour for each in lake.view.manifests(since)}
    fresh = written_since(lake.root, under_way, options.now - FRESH_MS)
    pending = {arrival_hour(path) for path in new_files(lake, since) if path not in fresh}
    return [hour for hour in since.hours() if hour in pending or (hour != under_way and hour not in commits)]


def chosen(differences: DataFrame, options: argparse.Namespace) -> DataFrame:
    """The slice that the command line asks for; without one, all."""
    rows = differences
    for name in CHOICES:
        if value := getattr(options, name):
            rows = rows.where(F.col(name) == str(value))
    if options.client is not None:
        rows = rows.where(F.col("client_id") == F.lit(options.client))
    return rows
