"""`clarion status`: the funnel, the queues, ingest's tasks and what is in alarm, on one page."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Self

import boto3
from botocore.config import Config
from pydantic import computed_field
from rich.console import Group
from rich.table import Table
from rich.text import Text

from clarion import tables
from clarion.tables import Lease
from console.deployment import Deployment, Queue
from console.depths import depth
from console.measures import DECISIONS, FUNNEL, Measures, measure
from console.output import UNKNOWN, Report, ago, clock, progress, table
from console.sources import fed

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch import CloudWatchClient
    from mypy_boto3_cloudwatch.type_defs import MetricAlarmTypeDef
    from mypy_boto3_lambda import LambdaClient
    from mypy_boto3_sqs import SQSClient

_TIMES = Config(connect_timeout=5, read_timeout=20, retries={"mode": "standard", "total_max_attempts": 3})
"""Whoever presses Ctrl-C waits for the request that runs."""
SILENT_SECONDS = 60.0
"""After which a task is taken for gone: it renews its lease four times in `following.lease_seconds`."""
PREMATURE = "nothing: it is new, and on until it has something to look at"


class Queued(Report):
    """`oldest_seconds` is CloudWatch's, some minutes late; a `muted` queue's function is switched off.

    `held` is how many messages wait for somebody to fix their app, None where there is no queue for them.
    """

    name: str
    waiting: int
    in_flight: int
    delayed: int
    held: int | None
    oldest_seconds: float | None
    dead: int
    muted: bool


class WorkingTask(Report):
    """One of ingest's, which renewed its lease so many seconds ago."""

    name: str
    renewed_seconds: float


class Alarm(Report):
    """A `premature` one takes what it misses for bad, and looks further back than it exists: it has to be on."""

    name: str
    since: datetime
    runbook: str
    premature: bool

    @computed_field  # type: ignore[prop-decorator] # pydantic's own words
    @property
    def todo(self) -> str:
        return PREMATURE if self.premature else self.runbook


class Status(Report):
    """Counts are of the last `minutes`. None: CloudWatch knows of none, which for a count means zero or never recorded.

    Where no network is followed (`follows`) there is no ingest.
    """

    stage: str
    account: str
    region: str
    at: datetime
    minutes: int
    follows: bool
    measures: Measures
    tasks: list[WorkingTask]
    queues: list[Queued]
    alarms: list[Alarm]

    @computed_field  # type: ignore[prop-decorator] # pydantic's own words
    @property
    def troubles(self) -> list[str]:
        dead = sum(queue.dead for queue in self.queues)
        muted = [queue.name for queue in self.queues if queue.muted]
        alarms = sum(not alarm.premature for alarm in self.alarms)
        found = {
            _counted(alarms, "alarm"): alarms > 0,
            _counted(dead, "dead letter"): dead > 0,
            f"muted: {', '.join(muted)}": bool(muted),
            "no ingest task is at work": self.follows and not self.tasks,
        }
        return [words for words, true in found.items() if true]

    def __rich__(self) -> Group:
        verdict = Text("! " + "; ".join(self.troubles), "bold red") if self.troubles else Text("all is well", "green")
        head = Text(f"clarion {self.stage} · account {self.account} · {self.region} · {clock(self.at)} UTC", "bold")
        parts = [head, verdict, *self._tables()]
        return Group(*(part for pair in zip(parts, [""] * len(parts), strict=True) for part in pair))

    def _tables(self) -> Iterable[Table | Text]:
        yield self._funnel()
        yield self._decisions()
        yield self._queues()
        if self.follows:
            yield self._ingest()
        if self.alarms:
            yield self._alarms()

    def _funnel(self) -> Table:
        made = table(f"From envelopes to pushes, last {self.minutes} minutes", "stage", "count", numbers=("count",))
        for words, name in FUNNEL.items():
            made.add_row(words, _number(self.measures.counts.get(name)))
        made.add_row("median from observed to delivered", ago(self.measures.seconds("p50")))
        made.add_row("slowest of a hundred", ago(self.measures.seconds("p99")))
        return made

    def _decisions(self) -> Table:
        made = table("Decisions", "of a", "decided")
        for kind, names in DECISIONS.items():
            counts = ((word, self.measures.counts.get(name)) for word, name in names.items())
            made.add_row(kind, ", ".join(f"{count:,} {word}" for word, count in counts if count) or UNKNOWN)
        return made

    def _queues(self) -> Table:
        numbers = ("waiting", "in flight", "delayed", "held", "oldest", "dead letters")
        made = table("Queues", "queue", *numbers, "", numbers=numbers)
        for one in self.queues:
            counts = (_number(count) for count in (one.waiting, one.in_flight, one.delayed, one.held))
            dead = Text(f"{one.dead:,}", "bold red" if one.dead else "")
            made.add_row(
                one.name, *counts, ago(one.oldest_seconds), dead, Text("muted" if one.muted else "", "bold red")
            )
        return made

    def _ingest(self) -> Table:
        gauges, nodes = self.measures.gauges, self.measures.nodes
        made = table("Ingest", "tasks at work", "nodes connected", "lag", "rules behind")
        made.add_row(
            "\n".join(task.name for task in self.tasks) or "none",
            ", ".join(f"{_number(count)} {network}" for network, count in nodes.items()) or UNKNOWN,
            ago(_seconds(gauges.get("ingest_lag"))),
            ago(_seconds(gauges.get("rules_behind"))),
        )
        return made

    def _alarms(self) -> Table:
        made = table("Alarms", "alarm", "since (UTC)", "what to do")
        for alarm in self.alarms:
            made.add_row(Text(alarm.name, "bold red"), clock(alarm.since), alarm.todo)
        return made


@dataclass(frozen=True)
class Clients:
    sqs: "SQSClient"
    lambda_: "LambdaClient"
    cloudwatch: "CloudWatchClient"

    @classmethod
    def made(cls) -> Self:
        return cls(
            boto3.client("sqs", config=_TIMES),
            boto3.client("lambda", config=_TIMES),
            boto3.client("cloudwatch", config=_TIMES),
        )


def look(here: Deployment, minutes: int) -> Status:
    with progress(f"looking at {here}"):
        return status_of(here, minutes, Clients.made())


def status_of(here: Deployment, minutes: int, clients: Clients) -> Status:
    tables.bind(here.prefix, seconds=None)
    measures = measure(clients.cloudwatch, here, minutes)
    fed_functions = fed(clients.lambda_)
    return Status(
        stage=here.stage,
        account=here.account,
        region=here.region,
        at=datetime.now(UTC),
        minutes=minutes,
        follows=here.follows,
        measures=measures,
        tasks=sorted(_tasks(), key=lambda task: task.name),
        queues=[
            _queued(clients.sqs, queue, measures, muted=queue.function not in fed_functions) for queue in here.queues
        ],
        alarms=sorted(_alarms(clients.cloudwatch, here), key=lambda alarm: alarm.since),
    )


def _queued(sqs: "SQSClient", queue: Queue, measures: Measures, *, muted: bool) -> Queued:
    return Queued(
        name=queue.name,
        **depth(sqs, queue.url)._asdict(),
        held=depth(sqs, queue.held_url).total if queue.held_url else None,
        oldest_seconds=measures.ages.get(queue.name),
        dead=depth(sqs, queue.dead_url).total,
        muted=muted,
    )


def _tasks() -> Iterable[WorkingTask]:
    for lease in Lease.scan(consistent_read=True):
        seconds = time.time() - int(lease.version) / 1000
        if seconds < SILENT_SECONDS and not lease.ended and not lease.holder:
            yield WorkingTask(name=lease.name, renewed_seconds=seconds)


def _alarms(cloudwatch: "CloudWatchClient", here: Deployment) -> Iterable[Alarm]:
    pages = cloudwatch.get_paginator("describe_alarms").paginate(AlarmNamePrefix=here.prefix, StateValue="ALARM")
    for page in pages:
        for alarm in page["MetricAlarms"]:
            yield Alarm(
                name=alarm["AlarmName"].removeprefix(here.prefix),
                since=alarm["StateUpdatedTimestamp"],
                runbook=alarm.get("AlarmDescription", ""),
                premature=is_premature(alarm, datetime.now(UTC)),
            )


def is_premature(alarm: "MetricAlarmTypeDef", now: datetime) -> bool:
    """One of several metrics has no period of its own, and takes nothing that it misses for bad."""
    looks_back = timedelta(seconds=alarm.get("Period", 0) * alarm["EvaluationPeriods"])
    age = now - alarm["AlarmConfigurationUpdatedTimestamp"]
    return alarm.get("TreatMissingData") == "breaching" and age < looks_back


def _number(count: float | None) -> str:
    return UNKNOWN if count is None else f"{count:,.0f}"


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
