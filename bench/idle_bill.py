"""What AWS bills an idle deployment for, by its templates.

A month of 730 hours in us-east-1, prices of November 2026: https://aws.amazon.com/pricing/
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from aws_cdk import Stack
from aws_cdk.assertions import Template
from aws_lambda_powertools.metrics import MetricUnit

from bench import rules_stream
from clarion.metrics import Metric, metrics_of
from clarion.networks import STATEMENTS
from infra.config import EnvironmentConfig
from infra.jobs import GIGABYTES, VCPUS
from ingest.counts import LOGGED_GAUGES, PERIOD
from ingest.settings import RENEWALS, IngestSettings
from pipeline.prices import (
    FREE_STREAM_READS,
    GIGABYTE_SECOND,
    INVOCATION,
    LOG_BYTE,
    METRIC_MONTH,
    READ_UNIT,
    SQS_REQUEST,
    STREAM_READ,
    WRITE_UNIT,
)

HOURS = 730
PROCESSOR_HOUR, GIGABYTE_HOUR = 0.03238, 0.00356
"""Of Fargate, on arm64."""
SPOT = 0.3
"""Of the price: reckoned. AWS says up to 70 % off, and it varies."""
ADDRESS_HOUR = 0.005
ALARM_METRIC = 0.10
METRIC = METRIC_MONTH / 1_000_000
QUEUE_POLLS = 5 * 3 * 60 * HOURS
"""Lambda asks a quiet queue five at a time, each for twenty seconds."""
TICK_S = 0.05
"""Of the schedule's function when nobody is due: reckoned."""
RUN_MINUTES = 5
"""Of a night with nothing to reconcile: reckoned, for no such run has been timed on AWS."""
WORKER_HOUR = VCPUS * 0.042094 + GIGABYTES * 0.004628
SECRET = 0.40
KEY, KEPT_ROTATIONS = 1.00, 2
"""A key that is rotated costs as much again for each of its first two rotations."""
REST = 0.15
IDLE: Mapping[str | None, Sequence[Metric]] = {
    None: (Metric.SHARDS_OWNED, Metric.RULES_BEHIND),
    STATEMENTS: (Metric.NODES_CONNECTED,),
}
"""What ingest records although there is nothing to do: of the task, and of each network."""


@dataclass(frozen=True)
class DeployedStacks:
    """An environment and the templates of its stacks."""

    environment: EnvironmentConfig
    templates: Sequence[Mapping[str, Any]]

    @classmethod
    def of(cls, stack: Stack, environment: EnvironmentConfig) -> "DeployedStacks":
        """With the other stacks of its app."""
        stacks = (each for each in stack.node.root.node.children if isinstance(each, Stack))
        return cls(environment, [Template.from_stack(each).to_json() for each in stacks])

    @property
    def tasks(self) -> int:
        """Of ingest."""
        (service,) = self.all("AWS::ECS::Service")
        return int(service["DesiredCount"])

    def all(self, kind: str) -> list[dict[str, Any]]:
        """The properties of all resources of a kind."""
        resources = (each for template in self.templates for each in template["Resources"].values())
        return [each.get("Properties", {}) for each in resources if each["Type"] == kind]


class Item(NamedTuple):
    """What is billed, how much of it there is, and for how many dollars a month."""

    name: str
    amount: str
    dollars: float


def times(seconds: float) -> float:
    """How often in a month something is done that is done every so many seconds."""
    return HOURS * 3600 / seconds


def setting(deployed: DeployedStacks, name: str) -> float:
    """Ingest's, in seconds: the environment's, or its own default."""
    following = deployed.environment.ingest.following if deployed.environment.ingest else None
    given = getattr(following, name, None)
    return float(IngestSettings.model_fields[name].default if given is None else given)


def items(deployed: DeployedStacks) -> Iterator[Item]:
    yield from _of_ingest(deployed)
    yield from _of_alarms(deployed)
    yield from _of_reading(deployed)
    yield from _of_functions(deployed)
    yield from _of_data(deployed)


def _of_ingest(deployed: DeployedStacks) -> Iterator[Item]:
    (service,), (task,) = deployed.all("AWS::ECS::Service"), deployed.all("AWS::ECS::TaskDefinition")
    tasks, processors, gigabytes = deployed.tasks, int(task["Cpu"]) / 1024, int(task["Memory"]) / 1024
    spot = "CapacityProviderStrategy" in service
    hour = (processors * PROCESSOR_HOUR + gigabytes * GIGABYTE_HOUR) * (SPOT if spot else 1)
    name = f"ingest's tasks on arm64: {PROCESSOR_HOUR} for a processor and an hour, {GIGABYTE_HOUR} for a GB; Spot at "
    amount = f"{tasks} of {processors:g} and {gigabytes:g} GB{', Spot' if spot else ''}"
    yield Item(f"{name}{SPOT:.0%} of it, reckoned", amount, tasks * HOURS * hour)
    yield Item(f"their public addresses: {ADDRESS_HOUR} an hour", str(tasks), tasks * HOURS * ADDRESS_HOUR)


def _of_alarms(deployed: DeployedStacks) -> Iterator[Item]:
    alarmed = alarm_metrics(deployed)
    yield Item(f"alarms, for each metric that they look at: {ALARM_METRIC:.2f}", str(alarmed), alarmed * ALARM_METRIC)
    recorded = sum(map(len, IDLE.values()))
    yield Item(
        f"metrics that are recorded although there is nothing to do, by ingest: {METRIC:.2f}",
        str(recorded),
        recorded * METRIC,
    )


def alarm_metrics(deployed: DeployedStacks) -> int:
    """How many metrics the alarms look at: one each, or those that it is computed from."""
    alarms = deployed.all("AWS::CloudWatch::Alarm")
    return sum(len(each.get("Metrics", [None, None])) - 1 for each in alarms)


def _of_reading(deployed: DeployedStacks) -> Iterator[Item]:
    """What the tasks read and write to know of rules and of each other."""
    tasks = deployed.tasks
    reads = stream_reads(deployed, "stream_idle_seconds")
    yield Item(
        f"reading the rules' stream, of a new table's {rules_stream.SHARDS} shards: {STREAM_READ:.2f} a million, of which "
        f"{FREE_STREAM_READS / 1_000_000} million are free",
        f"{reads / 1_000_000:.1f} million",
        rules_stream.month_dollars(reads),
    )
    renewals = tasks * times(setting(deployed, "lease_seconds") / RENEWALS)
    yield Item(
        f"the leases: each task writes its own at {WRITE_UNIT} a million, and reads all at {READ_UNIT}",
        f"{renewals / 1_000_000:.1f} million",
        renewals * (WRITE_UNIT + READ_UNIT) / 1_000_000,
    )
    logged = tasks * times(PERIOD) * sum(map(recorded_bytes, IDLE))
    yield Item(
        f"log lines that carry the metrics: {LOG_BYTE * 1000:.2f} a GB",
        f"{logged / 1_000_000_000:.2f} GB",
        logged * LOG_BYTE / 1_000_000,
    )


def stream_reads(deployed: DeployedStacks, pause: str) -> float:
    """In a month, by all tasks; `pause` is the setting that says how many seconds lie between two."""
    return HOURS * 3600 * rules_stream.reads_a_second(deployed.tasks, setting(deployed, pause))


def recorded_bytes(network: str | None) -> int:
    """A line of the log with the idle metrics, and with what is only logged; CloudWatch adds 26 to each."""
    metrics = metrics_of("ingest", "prod", network)
    for name in IDLE[network]:
        metrics.add_metric(name, MetricUnit.Count, 0)
    for name in (*LOGGED_GAUGES, Metric.INGEST_LAG) if network is None else ():
        metrics.add_metadata(name, 0)
    return len(json.dumps(metrics.serialize_metric_set(), separators=(",", ":"))) + 26


def _of_functions(deployed: DeployedStacks) -> Iterator[Item]:
    queues = len(deployed.all("AWS::Lambda::EventSourceMapping"))
    yield Item(
        f"polling of queues by Lambda, {QUEUE_POLLS:,} times each: {SQS_REQUEST:.2f} a million requests",
        f"{queues} queues",
        queues * QUEUE_POLLS * SQS_REQUEST / 1_000_000,
    )
    tick = INVOCATION + TICK_S * deployed.environment.schedule.memory_mb / 1024 * GIGABYTE_SECOND
    yield Item(
        f"the schedule, every minute: an invocation of {TICK_S} s (reckoned), a write unit and half a read unit",
        f"{times(60):,.0f}",
        times(60) * (tick + WRITE_UNIT + READ_UNIT / 2) / 1_000_000,
    )
    workers = nightly_workers(deployed)
    yield Item(
        f"the pipeline's nightly run, which begins even with nothing to do: {WORKER_HOUR:.4f} for a worker and an hour, "
        f"for {RUN_MINUTES} minutes (reckoned, not timed on AWS)",
        f"{workers} workers" if workers else "none",
        workers * WORKER_HOUR * HOURS / 24 * RUN_MINUTES / 60,
    )


def nightly_workers(deployed: DeployedStacks) -> int:
    """All begin at once: `infra.jobs`."""
    return deployed.environment.pipeline.workers if deployed.environment.pipeline else 0


def _of_data(deployed: DeployedStacks) -> Iterator[Item]:
    in_front = len(deployed.all("AWS::WAFv2::WebACL"))
    secrets = len(deployed.all("AWS::SecretsManager::Secret")) - in_front
    yield Item(f"secrets: {SECRET:.2f} each", str(secrets), secrets * SECRET)
    (key,) = deployed.all("AWS::KMS::Key")
    kept = KEPT_ROTATIONS if key.get("EnableKeyRotation") else 0
    yield Item(
        f"one key: {KEY:.2f}, and as much for each of its first two yearly rotations",
        f"{kept} rotations" if kept else "not rotated",
        (1 + kept) * KEY,
    )
    yield Item("other logs, the image, dashboard, tables, buckets, API, Firehose", "", REST)
