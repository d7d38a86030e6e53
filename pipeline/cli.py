"""`clarion-pipeline JOB --lake URI …`: the pipeline's one entry point, on one machine and on EMR Serverless.

Progress goes to standard error; what a program may want to know goes to standard output, as JSON.
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path

import boto3
from botocore.exceptions import BotoCoreError, ClientError
from pynamodb.connection import Connection
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from clarion.event_log import FIREHOSE_IN_TIME, EventLog, EventWriter
from clarion.settings import EventSettings, PushQueues
from clarion.tables import bind
from pipeline import arguments, environment, replay, retire
from pipeline.about import About
from pipeline.claims import write_claims
from pipeline.compact import compact
from pipeline.completeness import incomplete_hours
from pipeline.counters import ASKED, records_by_hour
from pipeline.due import DueDays, due_days
from pipeline.files import exists, write_text
from pipeline.findings import INCOMPLETE, UNJUDGED, Difference
from pipeline.generator.day import answers, generate
from pipeline.generator.parts import PARTS
from pipeline.generator.plan import NETWORK, NO_FAULTS, SOME_OF_EACH, Plan
from pipeline.judged import judged_by, tables_of
from pipeline.known import write_snapshots
from pipeline.lake import DIFFERENCES, UNREADABLE, EventLake, differences_name
from pipeline.late import changed_days
from pipeline.limits import limit_history
from pipeline.page import page
from pipeline.period import DAY_MS, HOUR_MS, Period, instant_text
from pipeline.progress import progress
from pipeline.reconcile import Findings, reconcile
from pipeline.report import report
from pipeline.report_files import REPORTS, earlier, page_path, report_name, write_page, write_tables
from pipeline.schemas import DIFFERENCE, EventKind
from pipeline.session import session
from pipeline.snapshots import SNAPSHOTS
from pipeline.summary import Tables
from pipeline.terms import Terms
from pipeline.vacuum import KEPT_MS, vacuum
from pipeline.watch import FoundLosses, Watch, record


class ReplaySettings(PushQueues):
    envelopes_queue_url: str

    @property
    def queues(self) -> dict[str, str]:
        """By the routes of a plan."""
        pushes = {str(channel): url for channel, url in self.push_queues.items()}
        return {replay.ENVELOPES: self.envelopes_queue_url} | pushes


class RetireSettings(EventSettings):
    table_prefix: str


def main(given: Sequence[str] | None = None) -> int:
    """0 if all is well; 1 without a lake, or if `--strict` finds that something differs, is missing or can't be read.

    2 is for bad usage.
    """
    wanted = arguments.parse(given)
    if wanted.job != "generate" and not exists(wanted.lake):
        _log(f"there is no lake at {wanted.lake}")
        return 1
    started = time.monotonic()
    _log(f"{wanted.job} {wanted.period}")
    spark = session(f"clarion {wanted.job}")
    try:
        # At a terminal Spark draws a bar.
        with nullcontext() if sys.stderr.isatty() else progress(spark, _log):
            status = JOBS[wanted.job](EventLake(spark, wanted.lake, wanted.oversize), wanted)
    finally:
        spark.stop()
    _log(f"{wanted.job} done in {time.monotonic() - started:.0f} s")
    return status


def run_compact(lake: EventLake, wanted: argparse.Namespace) -> int:
    """Whatever is too old for a reader is removed as well."""
    compacted = compact(lake, wanted.period, wanted.now, _counted(wanted))
    for kind, count in sorted(compacted.lines.items()):
        _log(f"{count:>12,} {kind}")
    removed = vacuum(lake.root, (*EventKind, UNREADABLE, DIFFERENCES, SNAPSHOTS, REPORTS), wanted.now)
    _log(f"{len(removed):>12,} files removed that nothing has named for {KEPT_MS // DAY_MS} days")
    return int(wanted.strict and compacted.unreadable > 0)


def run_reconcile(lake: EventLake, wanted: argparse.Namespace) -> int:
    """Commits the differences to the lake, and counts them by kind, what can't be judged and which hours are missing."""
    incomplete = _incomplete(lake, wanted)
    name = differences_name(wanted.period)
    findings = _reconciled(lake, wanted)
    secret = Counter({row["network"]: row["count"] for row in findings.unjudged.groupBy("network").count().collect()})
    beside = tables_of(_terms(wanted), wanted.oversize, secret)
    lake.write_named(name, findings.differences, wanted.now, beside)
    write_claims(lake, wanted.period, findings.claims, wanted.now)
    found = lake.read_named(name, DIFFERENCE).groupBy("difference").count().collect()
    counts = {row["difference"]: row["count"] for row in found}
    for difference in Difference:
        _log(f"{counts.get(difference, 0):>12,} {difference}")
    # The frames that all these came from: none is needed any more.
    lake.spark.catalog.clearCache()
    _log(f"{secret.total():>12,} {UNJUDGED}: their conditions are secret")
    _log(f"written to {lake.path(name)}")
    if incomplete:
        _log("all of this is provisional: the lake has not all of the period")
    others = {UNJUDGED: secret.total(), INCOMPLETE: incomplete}
    print(json.dumps(counts | {name: count for name, count in others.items() if count}))
    return int(wanted.strict and (bool(counts) or incomplete > 0))


def run_watch(lake: EventLake, wanted: argparse.Namespace) -> int:
    """Until it is stopped; with `--once`, up to now. Each batch prints its count and the age of its oldest loss."""

    def report(found: FoundLosses) -> None:
        _log(f"{found.losses:>12,} losses found up to {instant_text(found.until)}")
        if found.left_before:
            _log(f"what was observed before {instant_text(found.left_before)} is left to the daily run")
        print(json.dumps({"losses": found.losses, "oldest_s": found.oldest_s}), flush=True)
        if wanted.stage:
            record(boto3.client("cloudwatch", config=ASKED), wanted.stage, found)
        lake.spark.catalog.clearCache()

    watch = Watch(lake, _terms(wanted), 1_000 * wanted.overdue_seconds, report)
    if wanted.once:
        watch.run(wanted.now)
    else:
        watch.start(every=wanted.every).awaitTermination()
    return 0


def run_replay(lake: EventLake, wanted: argparse.Namespace) -> int:
    settings = None if wanted.dry_run else ReplaySettings.from_environment()
    if _incomplete(lake, wanted) and settings:
        _log("nothing is sent: what seems to be lost may only be missing here")
        return 1
    chosen = _chosen(_reconciled(lake, wanted).differences, wanted)
    planned = replay.plan(lake, chosen, wanted.period, wanted.now, dry_run=wanted.dry_run)
    _log(f"{planned.notifications:>12,} notifications to send again, in {planned.messages:,} messages")
    _log(f"{planned.expired:>12,} left: their envelopes have expired, or are gone")
    _log(f"{planned.known:>12,} left: an earlier run has sent them again")
    if settings:
        report = _every_thousand("sent")
        sent = replay.send(
            lake, boto3.client("sqs"), settings.queues, now=wanted.now, per_second=wanted.per_second, report=report
        )
        _log(f"{sent:>12,} messages sent")
    return 0


def run_report(lake: EventLake, wanted: argparse.Namespace) -> int:
    tables = report(lake, wanted.period, wanted.now)
    tables["hours"] = environment.hours(lake.view, wanted.period, wanted.now, provisional=wanted.provisional)
    tables["limits"] = environment.limits(limit_history(lake, wanted.period.start, wanted.now), wanted.period)
    made = write_tables(lake.root, wanted.period, tables)
    rows = {name: table.to_pylist() for name, table in tables.items()}
    html = page(rows, _about(lake, wanted, rows), list(earlier(lake.root, wanted.period)))
    if wanted.page:
        write_text(wanted.page, html)
    else:
        write_page(lake.root, wanted.period, made, html)
    _log(f"tables in {lake.path(report_name(wanted.period))}")
    _log(f"page   in {wanted.page or lake.path(page_path(wanted.period))}")
    return int(wanted.strict and any(row["problem"] for row in rows["hours"]))


def run_daily(lake: EventLake, wanted: argparse.Namespace) -> int:
    """What the schedule runs, to the end whatever is found. Unless it is given a period, it judges each day that is due.

    A day's last lines arrive after it, and late ones later.
    """
    days = DueDays([wanted.period], []) if wanted.asked else due_days(lake.view, wanted.period)
    first = min((day.start for day in days.due), default=wanted.period.start)
    status = run_compact(lake, _of(wanted, Period(first - DAY_MS, wanted.now)))
    for kind, count in write_snapshots(lake, wanted.now).items():
        _log(f"{count:>12,} {kind} in the day's snapshot")
    for day in days.overdue:
        _log(f"never judged: {day}")
    late = [] if wanted.asked else changed_days(lake, wanted.period, wanted.now)
    for day in sorted({*days.due, *late}, key=lambda day: day.start):
        _log(f"the day {day}")
        status = max(status, run_reconcile(lake, _of(wanted, day)), run_report(lake, _of(wanted, day)))
    return max(status, int(wanted.strict and bool(days.overdue)))


def run_retire(lake: EventLake, wanted: argparse.Namespace) -> int:
    settings = None if wanted.dry_run else RetireSettings.from_environment()
    after = retire.RetireAfter(dead=wanted.dead_days, idle=wanted.idle_days)
    useless = retire.listed(lake, wanted.now, after).persist()
    for row in useless.groupBy("why").count().collect():
        _log(f"{row['count']:>12,} {row['why']}")
    for row in useless.orderBy("since").limit(wanted.show).collect():
        _log(
            f"{row['subscription_id']}  {row['why']} since {datetime.fromtimestamp(row['since'] / 1000, UTC):%Y-%m-%d}"
        )
    if settings:
        removed = _remove(settings, useless, wanted.now)
        _log(f"{removed:>12,} removed; what has changed meanwhile stays")
    return 0


def run_generate(lake: EventLake, wanted: argparse.Namespace) -> int:
    faults = SOME_OF_EACH if wanted.faults else NO_FAULTS
    plan = Plan(
        wanted.period.start,
        statements=wanted.statements,
        rules=wanted.rules,
        amounts={part.option: getattr(wanted, part.option) for part in PARTS},
        hours=(wanted.period.end - wanted.period.start) // HOUR_MS,
        earlier=wanted.earlier,
        delayed=wanted.delayed,
        seed=wanted.seed,
        faults=faults,
        limits=limit_history(lake, wanted.period.start, wanted.now).at(NETWORK, wanted.period.start),
    )
    generate(lake, plan, compacted=wanted.compacted)
    others = "".join(f", {plan.amounts[part.option]:,} {part.option} {part.help}" for part in PARTS)
    _log(f"{plan.statements:>12,} statements, {plan.rules:,} rules{others}, {plan.period}")
    planted = answers(lake).groupBy("difference").count().collect()
    print(json.dumps({row["difference"]: row["count"] for row in planted}))
    return 0


def _about(lake: EventLake, wanted: argparse.Namespace, tables: Tables) -> About:
    terms, oversize = judged_by(tables)
    return About(
        period=wanted.period,
        lake=wanted.lake if "://" in wanted.lake else str(Path(wanted.lake).absolute()),
        now=wanted.now,
        made=int(datetime.now(UTC).timestamp() * 1000),
        stage=wanted.stage,
        oversize=wanted.oversize or oversize,
        newest=environment.newest(lake.view, wanted.now),
        terms=terms,
    )


def _of(wanted: argparse.Namespace, period: Period) -> argparse.Namespace:
    """The same, of another period."""
    return argparse.Namespace(**{**vars(wanted), "period": period})


def _incomplete(lake: EventLake, wanted: argparse.Namespace) -> int:
    """How many hours can't be judged; each is named."""
    hours = incomplete_hours(lake.view, wanted.period, wanted.now, provisional=wanted.provisional)
    for hour in hours:
        _log(f"incomplete: {hour}")
    return len(hours)


def _counted(wanted: argparse.Namespace) -> dict[str, int] | None:
    """What the live system's counters say. Without them, an hour in which nothing has arrived can't be judged."""
    if not wanted.stream:
        return None
    try:
        return records_by_hour(boto3.client("cloudwatch", config=ASKED), wanted.stream, wanted.period, wanted.now)
    except (BotoCoreError, ClientError) as error:
        _log(f"CloudWatch does not answer: {error}")
        return None


def _remove(settings: RetireSettings, useless: DataFrame, now: int) -> int:
    bind(settings.table_prefix)
    firehose = boto3.client("firehose", config=FIREHOSE_IN_TIME)
    events = EventLog(EventWriter(firehose, boto3.client("sqs"), settings))
    return retire.retire(useless, Connection(), events, now, _every_thousand("removed"))


def _reconciled(lake: EventLake, wanted: argparse.Namespace) -> Findings:
    return reconcile(lake, wanted.period, wanted.now, _terms(wanted))


def _terms(wanted: argparse.Namespace) -> Terms:
    return Terms(
        grace=1_000 * wanted.grace_seconds, late=1_000 * wanted.late_seconds, lookback=HOUR_MS * wanted.lookback_hours
    )


def _chosen(differences: DataFrame, wanted: argparse.Namespace) -> DataFrame:
    """The slice that the command line asks for; without one, all."""
    chosen = differences
    for name in ("receipt", "subscription_id", "difference"):
        if value := getattr(wanted, name):
            chosen = chosen.where(F.col(name) == value)
    if wanted.client:
        chosen = chosen.where(F.col("client_id") == F.unhex(F.lit(wanted.client)))
    return chosen


def _log(line: str) -> None:
    print(f"» {line}", file=sys.stderr, flush=True)


def _every_thousand(done: str) -> Callable[[int], None]:
    """Logs progress, seldom."""
    logged = 0

    def log(count: int) -> None:
        nonlocal logged
        if count - logged >= 1_000:
            logged = count
            _log(f"{count:>12,} {done}")

    return log


JOBS: dict[str, Callable[[EventLake, argparse.Namespace], int]] = {
    "compact": run_compact,
    "reconcile": run_reconcile,
    "watch": run_watch,
    "replay": run_replay,
    "report": run_report,
    "daily": run_daily,
    "retire": run_retire,
    "generate": run_generate,
}
"""By the names of `pipeline.arguments`."""

if __name__ == "__main__":
    sys.exit(main())
