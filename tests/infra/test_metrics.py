"""Each metric that an alarm or the dashboard looks at is recorded, and with exactly these dimensions.

CloudWatch takes an alarm on what nobody records, and it stays quiet for ever.
"""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from clarion.decisions import EnvelopeDecision, NotificationDecision, PushDecision
from clarion.metrics import NAMESPACE, decided
from clarion.networks import NETWORKS
from tests.infra.templates import Deployment, Watched, deployed, metrics_of_alarm, metrics_of_dashboard

ROOT = Path(__file__).parents[2]
QUEUE, FUNCTION, API = frozenset({"QueueName"}), frozenset({"FunctionName"}), frozenset({"ApiId"})
TABLE, STREAM = frozenset({"TableName"}), frozenset({"DeliveryStreamName"})
INDEX = TABLE | {"GlobalSecondaryIndexName"}
KNOWN: Mapping[tuple[str, frozenset[str]], set[str]] = {
    ("AWS/SQS", QUEUE): {
        "ApproximateAgeOfOldestMessage",
        "ApproximateNumberOfMessagesDelayed",
        "ApproximateNumberOfMessagesNotVisible",
        "ApproximateNumberOfMessagesVisible",
        "NumberOfEmptyReceives",
        "NumberOfMessagesDeleted",
        "NumberOfMessagesReceived",
        "NumberOfMessagesSent",
        "SentMessageSize",
    },
    ("AWS/Lambda", FUNCTION): {"ConcurrentExecutions", "Duration", "Errors", "Invocations", "Throttles"},
    ("AWS/Lambda", frozenset()): {"ConcurrentExecutions", "Duration", "Errors", "Invocations", "Throttles"},
    ("AWS/DynamoDB", TABLE): {
        "ConsumedReadCapacityUnits",
        "ConsumedWriteCapacityUnits",
        "ReadThrottleEvents",
        "WriteThrottleEvents",
    },
    ("AWS/DynamoDB", INDEX): {
        "ConsumedReadCapacityUnits",
        "ConsumedWriteCapacityUnits",
        "ReadThrottleEvents",
        "WriteThrottleEvents",
    },
    ("AWS/ApiGateway", API): {"4xx", "5xx", "Count", "DataProcessed", "IntegrationLatency", "Latency"},
    ("AWS/Firehose", STREAM): {"DeliveryToS3.DataFreshness", "DeliveryToS3.Success", "ThrottledRecords"},
    ("AWS/NetworkELB", frozenset({"LoadBalancer", "TargetGroup"})): {"HealthyHostCount", "UnHealthyHostCount"},
}
"""By namespace and dimensions, of the pages that `infra.metrics` names."""
DECISIONS = {
    decided(decision): f"{type(decision).__name__}.{decision.name}"
    for vocabulary in (EnvelopeDecision, NotificationDecision, PushDecision)
    for decision in vocabulary
}
"""As the code names them, by their metrics."""
CODE = {
    "ingest": ("ingest",),
    "match": ("match",),
    "dispatch": ("dispatch",),
    "cleanup": ("cleanup",),
    "schedule": ("schedule",),
    "api": ("api",),
    "authorizer": ("api/authorization.py",),
    "ntf": ("ntf",),
    "watch": ("../pipeline/repair/watch.py",),
    **{name: (name, "api") for name in NETWORKS},
}
"""Below `functions/`, by the service that records."""


def source(*places: Path) -> str:
    files = [file for place in places for file in ([place] if place.is_file() else place.rglob("*.py"))]
    return "\n".join(file.read_text() for file in files)


def is_recorded(metric: Watched) -> bool:
    """Whether the component's code names it; a decision may be made in what the components share."""
    code = source(*(ROOT / "functions" / place for place in CODE[metric.dimensions["service"]]))
    if metric.name not in DECISIONS:
        return re.search(rf"\b{metric.name.upper()}\b", code) is not None
    vocabulary, _, _ = DECISIONS[metric.name].partition(".")
    return vocabulary in code and DECISIONS[metric.name] in code + source(ROOT / "layers" / "core" / "clarion")


@pytest.fixture(scope="module")
def watched(monitored: Deployment) -> list[Watched]:
    alarms, dashboards = (deployed(monitored, f"AWS::CloudWatch::{kind}") for kind in ("Alarm", "Dashboard"))
    return [
        *(metric for alarm in alarms for metric in metrics_of_alarm(alarm)),
        *(metric for dashboard in dashboards for metric in metrics_of_dashboard(dashboard)),
    ]


def test_each_metric_of_aws_is_one_that_its_service_records(watched: list[Watched]) -> None:
    theirs = {
        (each.namespace, frozenset(each.dimensions), each.name) for each in watched if each.namespace != NAMESPACE
    }
    assert theirs
    assert {each for each in theirs if each[2] not in KNOWN.get(each[:2], ())} == set()


def test_each_of_our_own_is_recorded_by_the_component_that_it_is_said_to_be_of(watched: list[Watched]) -> None:
    ours = {(each.dimensions["service"], each.name): each for each in watched if each.namespace == NAMESPACE}
    assert ours
    assert [names for names, each in ours.items() if not is_recorded(each)] == []


def test_each_of_our_own_has_the_dimensions_that_it_is_recorded_with(watched: list[Watched]) -> None:
    """Those of a network, where ingest counts by network."""
    of_networks = set(re.findall(r"OfNetwork\(Metric\.(\w+),", source(ROOT / "functions" / "ingest")))
    for each in watched:
        if each.namespace == NAMESPACE:
            network = {"network"} if each.name.upper() in of_networks else set()
            assert each.dimensions.keys() == {"service", "stage", *network}, each


@pytest.mark.parametrize(
    ("service", "name"), [("ingest", "ingest_lagging"), ("schedule", "ingest_lag"), ("ingest", "push_delivered")]
)
def test_what_no_component_records_is_found(service: str, name: str) -> None:
    assert not is_recorded(Watched(NAMESPACE, name, {"service": service, "stage": "prod"}))
