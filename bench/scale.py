"""How far each component goes as it is deployed, and what to raise: `make scale` writes the tables of docs/scale.md anew.

A load is so many statements a second, each pushed to one phone by APNs; batches are full, as they are under load. Quotas
are those that AWS begins with, November 2026:
https://docs.aws.amazon.com/general/latest/gr/aws-service-information.html
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import reduce
from math import ceil
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
from infra.jobs import DISK_GIGABYTES
from infra.options import Ingest
from ingest.delivery.outboxes import QUEUE_IN_FLIGHT
from match.settings import MatchSettings
from pipeline.prices import GIGABYTE_SECOND, INVOCATION, SQS_REQUEST
from tests.ledger.bill import AMOUNTS_TABLE, IN_TENS, OBSERVED_BYTES, Amounts, all_in, at_rate, dollars
from tests.ledger.month import Storage
from tests.match.ledger import Cost, read_table

ROOT = Path(__file__).parent.parent
PAGE_OF_DOCS = ROOT / "docs" / "scale.md"
COST_PAGE = ROOT / "docs" / "cost.md"
LOADS = (1_000, 10_000, 50_000)
MILLION = 1_000_000
CROWDS = (10_000, 100_000, MILLION)
PAGE = int(MatchSettings.model_fields["fan_out_page"].default)
CROWD = "delivered to 100,000, each"
"""The ledger's row."""
BATCH = 10
"""Of how many statements `match_batch_cpu_s` is."""

LAMBDA_CONCURRENCY, NEW_ACCOUNT_CONCURRENCY = 1_000, 10
EVENT_SOURCE_START, EVENT_SOURCE_GROWTH = 5, 5.0
"""How many invocations a queue begins with, and gets more a second:
https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html
"""
NEW_TABLE_WRITES, NEW_TABLE_READS = 4_000, 12_000
"""Units a second of a table on demand that has had no traffic; it follows to twice its peak within half an hour."""
TABLE_WRITES, TABLE_READS = 40_000, 40_000
PARTITION_WRITES = 1_000
FIREHOSE_REQUESTS, FIREHOSE_BYTES = 2_000, 5 << 20
OTHER_REGIONS_BYTES = 1 << 20
IN_FLIGHT = 120_000
READ = 0.5
"""Units, of an item of up to 4 KB: of the rules, the subscription and the window by match, of the subscription by dispatch."""
SHUFFLED_BYTES, SHUFFLE_SHARE = 1_700, 0.5
"""Of a notification on the disks of the nightly run, and the part of them that can be filled, as executors share unevenly:
docs/operations.md, "The pipeline"."""
READ_CPU_S = 0.000013
"""What a task takes to read a statement of a node's, whoever has it to forward: docs/decisions/0012-shards.md."""
MOST_TASKS = next(each.le for each in Ingest.model_fields["tasks"].metadata if hasattr(each, "le"))
SECONDS_OF_A_DAY = 86_400
WARM, QUOTA = "warm throughput", "the quota"
TASK_REMEDY = "`ingest.cpu`, then `ingest.tasks`"
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
        return self.page_cpu_s + self._page_wait_s(threads)

    def fastest_page_s(self, threads: int = 16) -> float:
        """As if all threads' waiting were others' work."""
        return max(self.page_cpu_s, self._page_wait_s(threads))

    def _page_wait_s(self, threads: int) -> float:
        return 3 * PAGE / threads * self.table_request_s + 2 * self.queue_request_s


class Consumption(NamedTuple):
    """What a queue feeds: so many invocations at once, of so many messages, by a function of so many GB."""

    concurrency: int
    batch: int
    gigabytes: float


@dataclass(frozen=True)
class Capacities:
    """`tasks` of ingest have so many `processors` each, and so many requests in flight: `sends`."""

    match: Consumption
    pages: Consumption
    apns: Consumption
    tasks: int
    processors: float
    sends: int
    executors: int

    @classmethod
    def of(cls, template: Template) -> Self:
        (task,) = template.find_resources("AWS::ECS::TaskDefinition").values()
        (service,) = template.find_resources("AWS::ECS::Service").values()
        sources = {name: _source(template, name) for name in ("match", "pages", "apns")}
        return cls(
            **sources,
            tasks=int(service["Properties"]["DesiredCount"]),
            processors=int(task["Properties"]["Cpu"]) / 1024,
            sends=QUEUE_IN_FLIGHT,
            executors=PROD.pipeline.workers - 1 if PROD.pipeline else 0,
        )


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


PROCESSORS, SENDS, CONCURRENCY = "processors", "requests in flight", "`concurrency`"


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


def shared_cpu_s(measured: Measured, tasks: int) -> float:
    """What a statement takes of all tasks together: each reads it, one forwards it. With one node to follow."""
    return measured.ingest_cpu_s + (tasks - 1) * READ_CPU_S


def components(deployed: Capacities, measured: Measured, ledger: Mapping[str, Cost]) -> list[Component]:
    """What is full first, first."""
    return sorted(_components(deployed, measured, ledger), key=lambda one: one.at)


def _components(deployed: Capacities, measured: Measured, ledger: Mapping[str, Cost]) -> Iterator[Component]:
    match_s, dispatch_s = measured.match_batch_s / deployed.match.batch, measured.dispatch_batch_s / deployed.apns.batch
    writes = ledger["300 in a batch, each of another pair"].writes / 2
    requests = 1 / deployed.match.batch + 1 / deployed.apns.batch
    both, most = match_s + dispatch_s, shared_cpu_s(measured, MOST_TASKS)
    disk, shuffled = deployed.executors * DISK_GIGABYTES * SHUFFLE_SHARE, SECONDS_OF_A_DAY * SHUFFLED_BYTES / 1e9
    three, others = "events, in three regions", "events, in all other regions"
    yield Component("ingest, one task", PROCESSORS, deployed.processors, measured.ingest_cpu_s, TASK_REMEDY)
    yield Component("ingest, one task", SENDS, deployed.sends, measured.queue_request_s / ENTRIES, "`ingest.tasks`")
    yield Component(f"ingest, {MOST_TASKS} tasks", "a processor each", MOST_TASKS, most, "-")
    yield Component("match", CONCURRENCY, deployed.match.concurrency, match_s, MATCH_REMEDY)
    yield Component("dispatch, a channel", CONCURRENCY, deployed.apns.concurrency, dispatch_s, "`dispatch.concurrency`")
    yield Component("push_records, rate_limits", "writes of a new table", NEW_TABLE_WRITES, writes, WARM)
    yield Component("push_records, rate_limits", "writes of a table", TABLE_WRITES, writes, QUOTA)
    yield Component("subscriptions", "reads of a new table", NEW_TABLE_READS, 2 * READ, WARM)
    yield Component("subscriptions", "reads of a table", TABLE_READS, 2 * READ, QUOTA)
    yield Component("rate_limits, by_key of rules", "reads of a new table", NEW_TABLE_READS, READ, WARM)
    yield Component("rate_limits, by_key of rules", "reads of a table", TABLE_READS, READ, QUOTA)
    yield Component(three, "Firehose's requests", FIREHOSE_REQUESTS, requests, QUOTA)
    yield Component(three, "Firehose's bytes", FIREHOSE_BYTES, event_bytes(), QUOTA)
    yield Component(others, "Firehose's bytes", OTHER_REGIONS_BYTES, event_bytes(), QUOTA)
    yield Component("all functions", "concurrency", LAMBDA_CONCURRENCY, both, QUOTA)
    yield Component("all functions, new account", "concurrency", NEW_ACCOUNT_CONCURRENCY, both, QUOTA)
    yield Component("a push queue", "messages in flight", IN_FLIGHT, measured.dispatch_batch_s, "-")
    yield Component("pipeline, a whole day", "GB of its disks", disk, shuffled, "`pipeline.workers`")


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


def dollars_a_million(bill: Amounts, load: float) -> float:
    """Of pushes in tens at this load: what AWS bills for them, and for what is kept of them."""
    return all_in(IN_TENS, at_rate(IN_TENS, bill, load)) + sum(each.dollars for each in Storage)


def crowd_dollars(deployed: Capacities, measured: Measured, bill: Amounts, cost: Cost) -> float:
    """For a million receivers of one envelope: match's row in the ledger, its pages, and dispatch as in tens."""
    page = measured.page_s() * deployed.pages.gigabytes * GIGABYTE_SECOND + INVOCATION
    billed = dollars(IN_TENS, bill)
    dispatched = ("Lambda, dispatch's time", "logs", "transfer to the provider")
    of_dispatch = sum(billed[name] for name in dispatched) + INVOCATION / deployed.apns.batch
    received = 2 / ENTRIES * SQS_REQUEST
    return cost.dollars + page / PAGE + of_dispatch + received + sum(each.dollars for each in Storage)


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


def dollar_table(bill: Amounts) -> list[str]:
    heads = ["statements a second", "dollars a million pushes", "dollars a day", "dollars in 30 days"]
    lines = [table_row(heads), table_row(["--:"] * len(heads))]
    for load in LOADS:
        million = round(dollars_a_million(bill, load), 2)
        a_day = million * load * SECONDS_OF_A_DAY / 1_000_000
        lines.append(table_row([f"{load:,}", f"{million:.2f}", f"{a_day:,.0f}", f"{30 * a_day:,.0f}"]))
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


@dataclass(frozen=True)
class Aftermath:
    """What a crowd of a million leaves to a channel's dispatch, in seconds after the envelope was shown."""

    queued_s: float
    pushed_s: float
    each_s: float
    """Of a worker of dispatch, for one push."""

    @classmethod
    def of(cls, deployed: Capacities, measured: Measured) -> Self:
        queued_s = crowd_s(MILLION, deployed.pages.concurrency, measured.page_s())
        each_s = measured.dispatch_batch_s / deployed.apns.batch
        return cls(queued_s, max(queued_s, MILLION * each_s / deployed.apns.concurrency), each_s)

    @property
    def longest_wait_s(self) -> float:
        """Of what is sent last, and of anything else that enters the queue then."""
        return self.pushed_s - self.queued_s

    def alarm_s(self, age_s: float) -> float:
        """When `queue-old` goes off, as the oldest message gets older steadily: after three minutes at that age."""
        return age_s * self.pushed_s / self.longest_wait_s + 180

    @property
    def keeping_up(self) -> int:
        """The concurrency at which pushes are sent as fast as they are queued."""
        return ceil(MILLION * self.each_s / self.queued_s)


def aftermath_table(after: Aftermath, dollars: float) -> list[str]:
    limits = PROD.thresholds
    rows = {
        "the last push is with its provider after": _minutes(after.pushed_s),
        "a push, or a call, that enters the channel's queue as the crowd's last does waits": _minutes(
            after.longest_wait_s
        ),
        "`queue-old-apns` goes off after": _minutes(after.alarm_s(limits.push_age_s)),
        "`queue-old-fcm` goes off after": _minutes(after.alarm_s(limits.call_age_s)),
        "`dispatch.concurrency` that keeps up": f"{after.keeping_up}",
        "dollars, with what is kept": f"{dollars:.2f}",
    }
    lines = [table_row([f"a crowd of {MILLION:,} on one channel", "as deployed"]), table_row(["---", "--:"])]
    return [*lines, *(table_row(row) for row in rows.items())]


def _minutes(seconds: float) -> str:
    return f"{ceil(seconds / 60)} min"


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def tables(template: Template) -> list[list[str]]:
    """As docs/scale.md has them, in this order."""
    deployed, measured = Capacities.of(template), Measured.read()
    ledger, bill = read_table(COST_PAGE.read_text()), bill_in_tens()
    return [
        load_table(components(deployed, measured, ledger)),
        dollar_table(bill),
        crowd_table(deployed, measured, ledger[CROWD].writes / 2),
        aftermath_table(Aftermath.of(deployed, measured), crowd_dollars(deployed, measured, bill, ledger[CROWD])),
    ]


def bill_in_tens() -> Amounts:
    return AMOUNTS_TABLE.read(COST_PAGE.read_text())[IN_TENS.name]


def production() -> Template:
    return Template.from_stack(define_alone("prod", builtin_cloud_formation_validation=False))


def main() -> None:
    PAGE_OF_DOCS.write_text(reduce(inserted, tables(production()), PAGE_OF_DOCS.read_text()))


if __name__ == "__main__":
    main()
