"""`compact`: turn the stream's small files into Parquet, and remove files that no manifest names."""

import argparse
from collections.abc import Sequence

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from pipeline.arguments import DROP
from pipeline.columns import UNREADABLE, EventKind
from pipeline.compaction.compact import compact
from pipeline.compaction.counters import CLOUDWATCH_CONFIG, NotCounted, records_by_hour
from pipeline.compaction.unreadable import read_again_or_drop
from pipeline.compaction.vacuum import KEPT_MS, vacuum
from pipeline.jobs.shared import strict
from pipeline.lake.commits import DamagedRecord
from pipeline.lake.event_lake import DIFFERENCES, EventLake
from pipeline.lake.raw import arrived_files, misplaced
from pipeline.lake.snapshots import SNAPSHOTS
from pipeline.period import DAY_MS, Period
from pipeline.reconciliation.due_days import first_uncompacted
from pipeline.report.report_files import REPORTS
from pipeline.terminal import log

SWEPT = (*EventKind, UNREADABLE, DIFFERENCES, SNAPSHOTS, REPORTS)
"""What the daily run may write, and so remove. The little that `watch` and `replay` leave uncommitted expires instead."""


def run(lake: EventLake, options: argparse.Namespace) -> int:
    return _read_again_or_drop(lake, options) if options.unreadable else compact_arrived(lake, options)


def compact_arrived(lake: EventLake, options: argparse.Namespace) -> int:
    """Earlier hours that no run has compacted are done as well."""
    period = Period(first_uncompacted(lake, options.period.start), options.period.end)
    counted = _counted(lake, options)
    compacted = compact(lake, period, options.now, counted)
    for kind, count in sorted(compacted.lines.items()):
        log(f"{count:>12,} {kind}")
    for path in compacted.damaged:
        log(f"damaged, and left out: {path}")
    for path in misplaced(lake.root, options.period):
        log(f"of no hour, and left out: {path}")
    damaged = _remove_unnamed(lake, options.now)
    unanswered = [options.stream] if options.stream and counted is None else []
    return strict(
        options,
        {
            "lines can't be read": compacted.unreadable,
            "files are damaged": compacted.damaged,
            "streams of which CloudWatch has not said how much came": unanswered,
            "old files are kept, since a manifest can't be read": damaged,
        },
    )


def _remove_unnamed(lake: EventLake, now: int) -> Sequence[str]:
    """Returns why nothing was removed: without each manifest nobody knows which files count."""
    try:
        removed = vacuum(lake.root, SWEPT, now)
    except DamagedRecord as error:
        log(f"no old file is removed: {error}")
        return [str(error)]
    log(f"{len(removed):>12,} files removed that nothing has named for {KEPT_MS // DAY_MS} days")
    return []


def _read_again_or_drop(lake: EventLake, options: argparse.Namespace) -> int:
    read = read_again_or_drop(lake, options.period, options.now, drop=options.unreadable == DROP)
    for kind, count in sorted(read.items()):
        log(f"{count:>12,} {kind}, of what could not be read")
    return strict(options, {"lines can't be read": read.get(UNREADABLE, 0)})


def _counted(lake: EventLake, options: argparse.Namespace) -> dict[str, int] | None:
    """What the live system's counters say. Without them, an hour in which nothing has arrived can't be judged."""
    if options.assume_quiet:
        return dict.fromkeys(options.period.hours(), 0)
    if not options.stream:
        return None

    def has_files() -> bool:
        return bool(arrived_files(lake.root, options.period))

    try:
        client = boto3.client("cloudwatch", config=CLOUDWATCH_CONFIG)
        return records_by_hour(client, options.stream, options.period, options.now, has_files)
    except (BotoCoreError, ClientError, NotCounted) as error:
        log(f"CloudWatch does not say how many records came: {error}")
        return None
