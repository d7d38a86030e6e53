"""`clarion status`: the funnel, the queues, ingest's leader and what is in alarm, on one page."""

import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import boto3
from pydantic import computed_field
from rich.console import Group
from rich.table import Table
from rich.text import Text

from clarion import tables
from clarion.tables import Lease
from console.deployment import Deployment
from console.depths import depth
from console.measures import DECISIONS, FUNNEL, Measures, measure
from console.output import UNKNOWN, Report, ago, clock, progress, table
from console.sources import Source

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch import CloudWatchClient

LEASE = "ingest"
WATCH_SECONDS = 15.0
"""At most: a leader renews its lease four times in `following.lease_seconds`, which the lease does not hold."""
LOOK_SECONDS = 0.5


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


class Leader(Report):
    """`renewed`: whether the lease was renewed while `clarion status` watched it, which it did no longer than it had to."""

    task: str | None
    renewed: bool


class Alarm(Report):
    name: str
    since: datetime
    runbook: str


class Status(Report):
    """Counts are of the last `minutes`. None: CloudWatch knows of none, which for a count means zero or never recorded."""

    stage: str
    account: str
    region: str
    at: datetime
    minutes: int
    measures: Measures
    leader: Leader
    queues: list[Queued]
    alarms: list[Alarm]

    @computed_field  # type: ignore[prop-decorator] # pydantic's own words
    @property
    def troubles(self) -> list[str]:
        dead = sum(queue.dead for queue in self.queues)
        muted = [queue.name for queue in self.queues if queue.muted]
        found = {
            f"{len(self.alarms)} alarms": bool(self.alarms),
            f"{dead} dead letters": dead > 0,
            f"muted: {', '.join(muted)}": bool(muted),
            "ingest has no leader": not self.leader.renewed,
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
        made = table("Ingest", "leader", "nodes connected", "lag", "rules behind")
        made.add_row(
            f"{self.leader.task or 'none'}{'' if self.leader.renewed else ' (lease not renewed)'}",
            ", ".join(f"{_number(count)} {network}" for network, count in nodes.items()) or UNKNOWN,
            ago(_seconds(gauges.get("ingest_lag"))),
            ago(_seconds(gauges.get("rules_behind"))),
        )
        return made

    def _alarms(self) -> Table:
        made = table("Alarms", "alarm", "since (UTC)", "what to do")
        for alarm in self.alarms:
            made.add_row(Text(alarm.name, "bold red"), clock(alarm.since), alarm.runbook)
        return made


def look(here: Deployment, minutes: int, watch_seconds: float) -> Status:
    sqs, lambda_, cloudwatch = boto3.client("sqs"), boto3.client("lambda"), boto3.client("cloudwatch")
    tables.bind(here.prefix)
    with progress(f"looking at {here}"):
        began, lease = time.monotonic(), _lease()
        measures = measure(cloudwatch, here, minutes)
        queues = [
            Queued(
                name=queue.name,
                **depth(sqs, queue.url)._asdict(),
                held=depth(sqs, queue.held_url).total if queue.held_url else None,
                oldest_seconds=measures.ages.get(queue.name),
                dead=depth(sqs, queue.dead_url).total,
                muted=not Source(lambda_, queue).on,
            )
            for queue in here.queues
        ]
        alarms = sorted(_alarms(cloudwatch, here), key=lambda alarm: alarm.since)
        leader = _leader(lease, began + watch_seconds)
    return Status(
        stage=here.stage,
        account=here.account,
        region=here.region,
        at=datetime.now(UTC),
        minutes=minutes,
        measures=measures,
        leader=leader,
        queues=queues,
        alarms=alarms,
    )


def _lease() -> Lease | None:
    try:
        return Lease.get(LEASE, consistent_read=True)
    except Lease.DoesNotExist:
        return None


def _leader(before: Lease | None, deadline: float) -> Leader:
    after = _lease()
    while before and not _renewed(before, after) and (left := deadline - time.monotonic()) > 0:
        time.sleep(min(LOOK_SECONDS, left))
        after = _lease()
    return Leader(task=(after and after.holder) or None, renewed=_renewed(before, after))


def _renewed(before: Lease | None, after: Lease | None) -> bool:
    return after is not None and bool(after.holder) and (before is None or before.version != after.version)


def _alarms(cloudwatch: "CloudWatchClient", here: Deployment) -> Iterable[Alarm]:
    pages = cloudwatch.get_paginator("describe_alarms").paginate(AlarmNamePrefix=here.prefix, StateValue="ALARM")
    for page in pages:
        for alarm in page["MetricAlarms"]:
            name, since = alarm["AlarmName"].removeprefix(here.prefix), alarm["StateUpdatedTimestamp"]
            yield Alarm(name=name, since=since, runbook=alarm.get("AlarmDescription", ""))


def _number(count: float | None) -> str:
    return UNKNOWN if count is None else f"{count:,.0f}"


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000
