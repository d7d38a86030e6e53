"""`compact`: turn the stream's small files into Parquet, and remove files that no manifest names."""

import argparse

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from pipeline.arguments import DROP
from pipeline.columns import UNREADABLE, EventKind
from pipeline.compaction.compact import compact
from pipeline.compaction.counters import ASKED, NotCounted, records_by_hour
from pipeline.compaction.unreadable import read_again
from pipeline.compaction.vacuum import KEPT_MS, vacuum
from pipeline.jobs.shared import strict
from pipeline.lake.event_lake import DIFFERENCES, EventLake
from pipeline.lake.raw import arrived_files, misplaced
from pipeline.lake.snapshots import SNAPSHOTS
from pipeline.period import DAY_MS, Period
from pipeline.reconciliation.due_days import first_uncompacted
from pipeline.report.report_files import REPORTS
from pipeline.terminal import log

SWEPT = (*EventKind, UNREADABLE, DIFFERENCES, SNAPSHOTS, REPORTS)
"""What the daily run may write, and so remove. The little that `watch` and `replay` leave uncommitted expires instead."""


def run(lake: EventLake, wanted: argparse.Namespace) -> int:
    return _read_again(lake, wanted) if wanted.unreadable else compact_arrived(lake, wanted)


def compact_arrived(lake: EventLake, wanted: argparse.Namespace) -> int:
    """Earlier hours that no run has compacted are done as well."""
    period = Period(first_uncompacted(lake, wanted.period.start), wanted.period.end)
    counted = _counted(lake, wanted)
    compacted = compact(lake, period, wanted.now, counted)
    for kind, count in sorted(compacted.lines.items()):
        log(f"{count:>12,} {kind}")
    for path in compacted.damaged:
        log(f"damaged, and left out: {path}")
    for path in misplaced(lake.root, wanted.period):
        log(f"of no hour, and left out: {path}")
    removed = vacuum(lake.root, SWEPT, wanted.now)
    log(f"{len(removed):>12,} files removed that nothing has named for {KEPT_MS // DAY_MS} days")
    unanswered = [wanted.stream] if wanted.stream and counted is None else []
    return strict(
        wanted,
        {
            "lines can't be read": compacted.unreadable,
            "files are damaged": compacted.damaged,
            "streams of which CloudWatch has not said how much came": unanswered,
        },
    )


def _read_again(lake: EventLake, wanted: argparse.Namespace) -> int:
    read = read_again(lake, wanted.period, wanted.now, drop=wanted.unreadable == DROP)
    for kind, count in sorted(read.items()):
        log(f"{count:>12,} {kind}, of what could not be read")
    return strict(wanted, {"lines can't be read": read.get(UNREADABLE, 0)})


def _counted(lake: EventLake, wanted: argparse.Namespace) -> dict[str, int] | None:
    """What the live system's counters say. Without them, an hour in which nothing has arrived can't be judged."""
    if wanted.assume_quiet:
        return dict.fromkeys(wanted.period.hours(), 0)
    if not wanted.stream:
        return None

    def has_files() -> bool:
        return bool(arrived_files(lake.root, wanted.period))

    try:
        client = boto3.client("cloudwatch", config=ASKED)
        return records_by_hour(client, wanted.stream, wanted.period, wanted.now, has_files)
    except (BotoCoreError, ClientError, NotCounted) as error:
        log(f"CloudWatch does not say how many records came: {error}")
        return None
