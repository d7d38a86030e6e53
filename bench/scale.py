"""How far each component goes as it is deployed, and what to raise: `make scale` writes the tables of docs/scale.md anew.

A load is so many statements a second, each pushed to one phone by APNs; batches are full, as they are under load. Quotas
are those of an account in us-east-1, November 2026:
https://docs.aws.amazon.com/general/latest/gr/aws-service-information.html
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple, Self
from uuid import UUID

from aws_cdk.assertions import Template

from bench.figures import MEASURED
from bench.markdown import inserted, table_row
from clarion.channels import Channel
from clarion.decisions import EnvelopeDecision, NotificationDecision, PushDecision
from clarion.events import EnvelopeDecided, NotificationDecided, PushTried
from clarion.networks import STATEMENTS
from clarion.sqs import ENTRIES
from infra.app import define_alone
from infra.environments import PROD
from ingest.delivery.outboxes import QUEUE_IN_FLIGHT
from match.settings import MatchSettings
from pipeline.prices import FIREHOSE_BYTE, FIREHOSE_RECORD_BYTES, GIGABYTE_SECOND, INVOCATION, SQS_REQUEST
from tests.match.ledger import Cost, read_table

ROOT = Path(__file__).parent.parent
PAGE_OF_DOCS = ROOT / "docs" / "scale.md"
COST_PAGE = ROOT / "docs" / "cost.md"
LOADS = (1_000, 10_000, 50_000)
CROWDS = (10_000, 100_000, 1_000_000)
PAGE = int(MatchSettings.model_fields["fan_out_page"].default)
BATCH = 10
"""Of how many statements `match_batch_cpu_s` is."""

LAMBDA_CONCURRENCY = 1_000
EVENT_SOURCE_START, EVENT_SOURCE_GROWTH = 5, 5.0
"""How many invocations a queue begins with, and gets more a second:
https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html
"""
NEW_TABLE_WRITES, NEW_TABLE_READS = 4_000, 12_000
"""Units a second of a table on demand that has had no traffic; it follows to twice its peak within half an hour."""
TABLE_WRITES = 40_000
PARTITION_WRITES = 1_000
FIREHOSE_REQUESTS, FIREHOSE_BYTES = 2_000, 5 << 20
IN_FLIGHT = 120_000
OBSERVED_BYTES = 900
"""The line of a statement of 550 bytes: docs/cost.md."""
DISPATCH_READS = 0.5
SECONDS_OF_A_DAY = 86_400
WARM, QUOTA = "the table's warm throughput", "the account's quota"
TASK_REMEDY = "`ingest.cpu` to 1,024, then `ingest.tasks`"
SENDS_REMEDY = "a constant, `QUEUE_IN_FLIGHT`"
MATCH_REMEDY = "`match.concurrency`, and `matching.subscription_cap` with it"


@dataclass(frozen=True)
class Measured:
    """As bench/measured.json has it, which says how."""

    match_single_cpu_s: float
    match_batch_cpu_s: float
    page_cpu_s: float
    ingest_cpu_s: float
    dispatch_batch_s: float
    table_request_s: float
    queue_request_s: float
    pick_up_s: float
    spread: float

    @classmethod
    def read(cls) -> Self:
        found = json.loads(MEASURED.read_text())
        return cls(**{field.name: found[field.name]["value"] for field in fields(cls)})

    @property
    def match_batch_s(self) -> float:
        return self.match_batch_cpu_s + self.match_wait_s

    @property
    def match_wait_s(self) -> float:
        """Rules, subscriptions, windows, claims and counts are asked for one after the other, then pushes and events."""
        return 5 * self.table_request_s + 2 * self.queue_request_s

    def page_s(self, threads: int = 16) -> float:
        """As if no thread's waiting were another's work: three requests for each receiver."""
        return self.page_cpu_s + 3 * PAGE / threads * self.table_request_s + 2 * self.queue_request_s


class Consumption(NamedTuple):
    """What a queue feeds: so many invocations at once, of so many messages, by a function of so many GB."""

    concurrency: int
    batch: int
    gigabytes: float


@dataclass(frozen=True)
class Capacities:
    """`processors` are those of the ingest task that sends, `sends` how many of its requests may be in flight."""

    match: Consumption
    pages: Consumption
    apns: Consumption
    processors: float
    sends: int

    @classmethod
    def of(cls, template: Template) -> Self:
        (task,) = template.find_resources("AWS::ECS::TaskDefinition").values()
        sources = {name: _source(template, name) for name in ("match", "pages", "apns")}
        return cls(**sources, processors=int(task["Properties"]["Cpu"]) / 1024, sends=QUEUE_IN_FLIGHT)


def _source(template: Template, name: str) -> Consumption:
    """Of a function's first queue: messages that are held share the function."""
    functions = template.find_resources(
        "AWS::Lambda::Function", {"Properties": {"FunctionName": f"{PROD.prefix}{name}"}}
    )
    (function,) = functions.values()
    sources = template.find_resources("AWS::Lambda::EventSourceMapping")
    fed = [each["Properties"] for logical, each in sources.items() if logical.startswith(f"{name.title()}Live")]
    largest = max(fed, key=_concurrency)
    return Consumption(_concurrency(largest), largest["BatchSize"], function["Properties"]["MemorySize"] / 1024)


def _concurrency(source: Mapping[str, Any]) -> int:
    return int(source["ScalingConfig"]["MaximumConcurrency"])


@dataclass(frozen=True)
class Component:
    """`capacity` of something is there, of which each statement a second takes `share`."""

    name: str
    limit: str
    capacity: float
    share: float
    remedy: str

    @property
    def at(self) -> float:
        """Statements a second."""
        return self.capacity / self.share

    def needed(self, load: float) -> float:
        return load * self.share


def components(deployed: Capacities, measured: Measured, ledger: Mapping[str, Cost]) -> Iterator[Component]:
    match_s, dispatch_s = measured.match_batch_s / deployed.match.batch, measured.dispatch_batch_s / deployed.apns.batch
    row = ledger["300 in a batch, each of another pair"]
    requests = 1 / deployed.match.batch + 1 / deployed.apns.batch
    yield Component("ingest", "processors of a task", deployed.processors, measured.ingest_cpu_s, TASK_REMEDY)
    yield Component("the same", "requests in flight", deployed.sends, measured.queue_request_s / ENTRIES, SENDS_REMEDY)
    yield Component("match", "`concurrency`", deployed.match.concurrency, match_s, MATCH_REMEDY)
    yield Component(
        "dispatch, by channel", "`concurrency`", deployed.apns.concurrency, dispatch_s, "`dispatch.concurrency`"
    )
    yield Component("push_records, rate_limits", "writes of a new table", NEW_TABLE_WRITES, row.writes / 2, WARM)
    yield Component("the same", "the account's writes a table", TABLE_WRITES, row.writes / 2, QUOTA)
    yield Component("subscriptions", "reads of a new table", NEW_TABLE_READS, 0.5 + DISPATCH_READS, WARM)
    yield Component("events", "Firehose's requests", FIREHOSE_REQUESTS, requests, QUOTA)
    yield Component("the same", "Firehose's bytes", FIREHOSE_BYTES, event_bytes(), QUOTA)
    yield Component("all functions", "the account's concurrency", LAMBDA_CONCURRENCY, match_s + dispatch_s, QUOTA)
    yield Component("a push queue", "messages in flight", IN_FLIGHT, measured.dispatch_batch_s, "-")


def event_bytes() -> int:
    """Of all events that come of a statement with one push."""
    of_all: dict[str, Any] = {
        "network": STATEMENTS,
        "at": 1_800_000_000_000,
        "receipt": UUID(int=1),
        "envelope_id": bytes(32),
    }
    subscription: dict[str, Any] = {"subscription_id": UUID(int=2), "channel": Channel.APNS}
    events = [
        EnvelopeDecided(**of_all, decision=EnvelopeDecision.MATCHED, observed_at=of_all["at"], sender=bytes(32)),
        NotificationDecided(
            **of_all,
            **subscription,
            decision=NotificationDecision.QUEUED,
            client_id=bytes(32),
            sender=bytes(32),
            key=bytes(65),
            order=1_800_000_000_000,
            judged_at=1_800_000_000_000,
            counted=True,
        ),
        PushTried(
            **of_all,
            **subscription,
            decision=PushDecision.DELIVERED,
            attempt=1,
            latency_ms=250,
            status=200,
            provider_id=str(UUID(int=3)),
        ),
    ]
    return OBSERVED_BYTES + sum(len(event.to_line()) for event in events)


def dollars_a_million(deployed: Capacities, measured: Measured, ledger: Mapping[str, Cost]) -> float:
    """For each a push, in full batches: the ledger's row, and what it leaves to Lambda, SQS and dispatch's events."""
    match, apns = deployed.match, deployed.apns
    computing = (measured.match_batch_s * match.gigabytes / match.batch) + (
        measured.dispatch_batch_s * apns.gigabytes / apns.batch
    )
    invocations = 1 / match.batch + 1 / apns.batch
    queues = (1 + 2 * 2) / match.batch * SQS_REQUEST
    events = FIREHOSE_RECORD_BYTES / apns.batch * FIREHOSE_BYTE + OBSERVED_BYTES * FIREHOSE_BYTE
    row = ledger["300 in a batch, each of another pair"].dollars
    return row + computing * GIGABYTE_SECOND + invocations * INVOCATION + queues + events


def crowd_s(receivers: int, workers: int, page_s: float) -> float:
    """Until the last of a crowd's pushes is queued: a first page, and the others by so many workers, which start."""
    starting = max(0, workers - EVENT_SOURCE_START) ** 2 / (2 * EVENT_SOURCE_GROWTH * workers)
    return page_s + starting + receivers / PAGE * page_s / workers


def load_table(rows: list[Component]) -> list[str]:
    heads = ["component", "limit", "there is", "full at, statements a second", *(f"needed at {n:,}" for n in LOADS)]
    lines = [table_row([*heads, "raise"]), table_row(["---", "---", *["--:"] * (2 + len(LOADS)), "---"])]
    for row in rows:
        needed = (_figure(row.needed(load)) for load in LOADS)
        lines.append(table_row([row.name, row.limit, _figure(row.capacity), f"{row.at:,.0f}", *needed, row.remedy]))
    return lines


def dollar_table(dollars: float) -> list[str]:
    lines = [table_row(["statements a second", "dollars a day", "dollars in 30 days"]), table_row(["--:"] * 3)]
    for load in LOADS:
        a_day = dollars * load * SECONDS_OF_A_DAY / 1_000_000
        lines.append(table_row([f"{load:,}", f"{a_day:,.0f}", f"{30 * a_day:,.0f}"]))
    return lines


def crowd_table(deployed: Capacities, measured: Measured, writes: float) -> list[str]:
    """`writes` are the units for one receiver in each of the two tables."""
    workers, page_s = deployed.pages.concurrency, measured.page_s()
    lines = [table_row(["receivers", "pages", "seconds", "write units a second in each table"]), table_row(["--:"] * 4)]
    for crowd in CROWDS:
        seconds = crowd_s(crowd, workers, page_s)
        lines.append(
            table_row([f"{crowd:,}", f"{crowd // PAGE:,}", f"{seconds:.0f}", f"{crowd * writes / seconds:,.0f}"])
        )
    return lines


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def tables(template: Template) -> list[list[str]]:
    """As docs/scale.md has them, in this order."""
    deployed, measured = Capacities.of(template), Measured.read()
    ledger = read_table(COST_PAGE.read_text())
    return [
        load_table(list(components(deployed, measured, ledger))),
        dollar_table(dollars_a_million(deployed, measured, ledger)),
        crowd_table(deployed, measured, ledger["delivered to 100,000, each"].writes / 2),
    ]


def production() -> Template:
    return Template.from_stack(define_alone("prod", builtin_cloud_formation_validation=False))


def main() -> None:
    PAGE_OF_DOCS.write_text(reduce(inserted, tables(production()), PAGE_OF_DOCS.read_text()))


if __name__ == "__main__":
    main()
