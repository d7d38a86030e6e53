"""`watch`: until it is stopped; with `--once`, up to now. Each batch prints its count and the age of its oldest loss."""

import argparse
import json

import boto3

from pipeline.compaction.counters import CLOUDWATCH_CONFIG
from pipeline.lake.event_lake import EventLake
from pipeline.period import instant_text
from pipeline.repair.watch import FoundLosses, Watch, record
from pipeline.spark.ending import silence_stderr
from pipeline.terminal import ExitCode, log
from pipeline.terms import terms_of


def run(lake: EventLake, options: argparse.Namespace) -> int:
    def report(found: FoundLosses) -> None:
        log(f"{found.losses:>12,} losses found up to {instant_text(found.until)}")
        if found.left_before:
            log(f"what was observed before {instant_text(found.left_before)} is left to the daily run")
        print(json.dumps({"losses": found.losses, "oldest_s": found.oldest_s}), flush=True)
        if options.stage:
            record(boto3.client("cloudwatch", config=CLOUDWATCH_CONFIG), options.stage, found)
        lake.spark.catalog.clearCache()

    # The process of a Python source that Spark has given up would print that in a trace.
    silence_stderr(lake.spark)
    watch = Watch(lake, terms_of(options), 1_000 * options.overdue_seconds, report)
    if options.once:
        watch.run(options.now)
    else:
        watch.follow(every=options.every)
    return ExitCode.DONE
