"""`retire`: list what is of no use to anybody, and remove it."""

import argparse
from datetime import UTC, datetime

import boto3
from pynamodb.connection import Connection
from pyspark.sql import DataFrame

from clarion.aws import FIREHOSE_IN_TIME
from clarion.event_log import EventLog, EventWriter
from clarion.settings import EventSettings
from clarion.tables import bind
from pipeline.compaction.completeness import SEALED_AFTER_MS
from pipeline.jobs.shared import name_incomplete, settings_of, with_period
from pipeline.lake.event_lake import EventLake
from pipeline.period import DAY_MS, HOUR_MS, Period
from pipeline.repair import retire
from pipeline.terminal import ExitCode, every_thousand, log


class RetireSettings(EventSettings):
    table_prefix: str


def run(lake: EventLake, options: argparse.Namespace) -> int:
    settings = None if options.dry_run else settings_of(RetireSettings)
    incomplete = name_incomplete(lake, _of_idle_days(options))
    if incomplete:
        log("no idle one is listed: the lake may not know of its use. Compact what has arrived, or ask for fewer days")
    after = retire.RetireAfter(dead=options.dead_days, idle=None if incomplete else options.idle_days)
    useless = retire.useless(lake, options.now, after).persist()
    counts = {row["why"]: row["count"] for row in useless.groupBy("why").count().collect()}
    for why in (retire.DEAD,) if incomplete else (retire.DEAD, retire.IDLE):
        log(f"{counts.get(why, 0):>12,} {why}")
    for row in useless.orderBy("since").limit(options.show).collect():
        since = datetime.fromtimestamp(row["since"] / 1000, UTC)
        log(f"{row['subscription_id']}  {row['why']} since {since:%Y-%m-%d}")
    if settings:
        removed = _remove(settings, useless, options.now)
        log(f"{removed:>12,} removed; what has changed meanwhile stays")
    return ExitCode.FINDING if incomplete else ExitCode.DONE


def _of_idle_days(options: argparse.Namespace) -> argparse.Namespace:
    """The same, of the time in which something has to be known of: up to the last hours, whose files still arrive."""
    end = (options.now - SEALED_AFTER_MS) // HOUR_MS * HOUR_MS - HOUR_MS
    period = Period(options.now - options.idle_days * DAY_MS, end)
    return with_period(options, period, provisional=False)


def _remove(settings: RetireSettings, useless: DataFrame, now: int) -> int:
    bind(settings.table_prefix, seconds=None)
    firehose = boto3.client("firehose", config=FIREHOSE_IN_TIME)
    events = EventLog(EventWriter(firehose, boto3.client("sqs"), settings))
    return retire.retire(useless, Connection(), events, now, every_thousand("removed"))
