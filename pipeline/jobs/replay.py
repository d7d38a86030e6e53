"""`replay`: send again what is lost, of what the command line chooses."""

import argparse

import boto3
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from clarion.settings import PushQueues
from pipeline.jobs.shared import every_thousand, log, name_incomplete, reconciled, settings_of
from pipeline.lake.event_lake import EventLake
from pipeline.repair import replay

CHOICES = ("receipt", "subscription_id", "network", "difference")
"""The columns of differences that the command line may name a value of, beside the client."""


class ReplaySettings(PushQueues):
    envelopes_queue_url: str

    @property
    def queues(self) -> dict[str, str]:
        """By the routes of a plan."""
        pushes = {str(channel): url for channel, url in self.push_queues.items()}
        return {replay.ENVELOPES: self.envelopes_queue_url} | pushes


def run(lake: EventLake, wanted: argparse.Namespace) -> int:
    settings = None if wanted.dry_run else settings_of(ReplaySettings)
    if name_incomplete(lake, wanted) and settings:
        log("nothing is sent: what seems to be lost may only be missing here")
        return 1
    lost = chosen(reconciled(lake, wanted).differences, wanted)
    planned = replay.plan(lake, lost, wanted.period, wanted.now, dry_run=wanted.dry_run)
    log(f"{planned.notifications:>12,} notifications to send again, in {planned.messages:,} messages")
    log(f"{planned.expired:>12,} left: their envelopes have expired, or are gone")
    log(f"{planned.known:>12,} left: an earlier run has sent them again")
    if settings:
        report = every_thousand("sent")
        sent = replay.send(
            lake, boto3.client("sqs"), settings.queues, now=wanted.now, per_second=wanted.per_second, report=report
        )
        log(f"{sent:>12,} messages sent")
    return 0


def chosen(differences: DataFrame, wanted: argparse.Namespace) -> DataFrame:
    """The slice that the command line asks for; without one, all."""
    rows = differences
    for name in CHOICES:
        if value := getattr(wanted, name):
            rows = rows.where(F.col(name) == str(value))
    if wanted.client is not None:
        rows = rows.where(F.col("client_id") == F.lit(wanted.client))
    return rows
