"""Every alarm goes off when it should, in the emulator, and has its entry in the runbook."""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from aws_cdk.assertions import Template

from clarion.channels import CALL_SECONDS
from clarion.metrics import NAMESPACE
from clarion.networks import NETWORKS, STATEMENTS, XMTP
from dispatch.attempts import CAP_SECONDS, RETRY_SECONDS
from infra.alarms import LEDGER
from infra.environments import PROD
from local.emulator import Emulator, started
from tests.infra.templates import (
    Deployment,
    dashboard_widgets,
    deployed,
    measured,
    metrics_of_alarm,
    metrics_of_dashboard,
    named,
    properties,
)
from tests.match.ledger import PATHS, read_table

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch import CloudWatchClient
    from mypy_boto3_sqs import SQSClient

DOCS = Path(__file__).parents[2] / "docs"
RUNBOOK, COST = DOCS / "operations.md", DOCS / "cost.md"

HEARING: Any = {
    "Version": "2012-10-17",
    "Statement": {
        "Effect": "Allow",
        "Principal": {"Service": "sns.amazonaws.com"},
        "Action": "sqs:SendMessage",
        "Resource": "arn:aws:sqs:us-east-1:000000000000:heard",
    },
}

type Alarm = Mapping[str, Any]


@pytest.fixture(scope="module")
def alarms(prod: Template) -> Mapping[str, Alarm]:
    found = [each["Properties"] for each in prod.find_resources("AWS::CloudWatch::Alarm").values()]
    return {each["AlarmName"].removeprefix("clarion-prod-"): each for each in found}


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with started("test-alarms") as emulator:
        yield emulator


def single(alarm: Alarm) -> bool:
    """Of one metric; the emulator computes none from several."""
    return "MetricName" in alarm


@cache
def clients(emulator: Emulator) -> "tuple[Any, SQSClient, CloudWatchClient]":
    session, url = emulator.session, emulator.endpoint
    return (
        session.client("sns", endpoint_url=url),
        session.client("sqs", endpoint_url=url),
        session.client("cloudwatch", endpoint_url=url),
    )


class Siren:
    """One alarm in an emulator that holds nothing else: it pools what a metric's dimensions should keep apart."""

    def __init__(self, emulator: Emulator, alarm: Alarm) -> None:
        httpx.post(f"{emulator.endpoint}/_ministack/reset").raise_for_status()
        sns, sqs, self._cloudwatch = clients(emulator)
        topic = sns.create_topic(Name="alarms")["TopicArn"]
        self._queue = sqs.create_queue(QueueName="heard", Attributes={"Policy": json.dumps(HEARING)})["QueueUrl"]
        sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=HEARING["Statement"]["Resource"])
        self._sqs = sqs
        dimensions = alarm.get("Dimensions", [])
        self._dimensions = [{"Name": each["Name"], "Value": str(each["Value"])} for each in dimensions]
        self._alarm = alarm
        actions = {"AlarmActions": [topic], "OKActions": [topic], "Dimensions": self._dimensions}
        self._cloudwatch.put_metric_alarm(**{**alarm, **actions})

    def record(self, value: float) -> None:
        """Once in each of the periods that the alarm looks at."""
        now = datetime.now(UTC)
        for period in range(self._alarm["EvaluationPeriods"]):
            datum = {
                "MetricName": self._alarm["MetricName"],
                "Dimensions": self._dimensions,
                "Timestamp": now - timedelta(seconds=period * self._alarm["Period"] + 1),
                "Value": value,
            }
            self._cloudwatch.put_metric_data(Namespace=self._alarm["Namespace"], MetricData=[datum])  # type: ignore[list-item] # the stub's TypedDict

    def state(self) -> str:
        (alarm,) = self._cloudwatch.describe_alarms()["MetricAlarms"]
        return alarm["StateValue"]

    def heard(self) -> list[str]:
        """The names and states that the topic published."""
        messages = self._sqs.receive_message(QueueUrl=self._queue, WaitTimeSeconds=20).get("Messages", [])
        published = [json.loads(json.loads(message["Body"])["Message"]) for message in messages]
        return [f"{each['AlarmName']}: {each['NewStateValue']}" for each in published]


def test_every_alarm_leads_to_its_entry_in_the_runbook(alarms: Mapping[str, Alarm]) -> None:
    entries = set(re.findall(r"^### `([a-z-]+)`$", RUNBOOK.read_text(), re.MULTILINE))
    linked = {alarm["AlarmDescription"].rpartition("docs/operations.md#")[2] for alarm in alarms.values()}
    assert linked == entries
    assert all(name.startswith(alarm["AlarmDescription"].rpartition("#")[2]) for name, alarm in alarms.items())


def test_the_page_lists_every_alarm_with_its_limit(alarms: Mapping[str, Alarm]) -> None:
    table = RUNBOOK.read_text().partition("| entry | about | goes off at | for |\n")[2].partition("\n\n")[0]
    assert table.splitlines()[1:] == list(rows(alarms))


def rows(alarms: Mapping[str, Alarm]) -> Iterator[str]:
    """Of that list, in the order of the entries; alarms with one limit share a row."""
    for entry in re.findall(r"^### `([a-z-]+)`$", RUNBOOK.read_text(), re.MULTILINE):
        subjects: dict[str, list[str]] = defaultdict(list)
        for name, alarm in alarms.items():
            if alarm["AlarmDescription"].endswith(f"#{entry}"):
                subjects[limit(alarm)].append(name.removeprefix(entry).removeprefix("-") or "-")
        yield from (f"| [`{entry}`](#{entry}) | {', '.join(about)} | {limit} |" for limit, about in subjects.items())


def limit(alarm: Alarm) -> str:
    """And for how long, of how long if less than that is enough."""
    what = f"`{alarm['MetricName']}`" if single(alarm) else alarm["Metrics"][0]["Label"]
    period = alarm.get("Period") or alarm["Metrics"][1]["MetricStat"]["Period"]
    comparison = "<" if "Less" in alarm["ComparisonOperator"] else "≥"
    looked_at = alarm["EvaluationPeriods"]
    enough = alarm.get("DatapointsToAlarm", looked_at)
    minutes = " of ".join(f"{periods * period // 60}" for periods in sorted({enough, looked_at}))
    return f"{what} {comparison} {alarm['Threshold']:,g} | {minutes} min"


def test_spending_is_measured_by_the_ledger(alarms: Mapping[str, Alarm]) -> None:
    ledger = read_table(COST.read_text())
    dearest = max(ledger[path.name].writes for path in PATHS if path.delivered)
    assert dearest == LEDGER
    assert alarms["spend-above-ledger"]["Threshold"] == dearest * PROD.thresholds.above_ledger


def test_a_queue_that_calls_go_through_may_be_no_older_than_a_call(alarms: Mapping[str, Alarm]) -> None:
    assert alarms["queue-old-voip"]["Threshold"] == alarms["queue-old-fcm"]["Threshold"] == CALL_SECONDS


def test_the_tables_that_are_watched_are_there_with_their_indexes(monitored: Deployment) -> None:
    there = set()
    for table in deployed(monitored, "AWS::DynamoDB::GlobalTable"):
        indexes = [index["IndexName"] for index in table.get("GlobalSecondaryIndexes", [])]
        there |= {(table["TableName"], index) for index in (None, *indexes)}
    watched = [
        metric.dimensions
        for alarm in deployed(monitored, "AWS::CloudWatch::Alarm")
        for metric in metrics_of_alarm(alarm)
        if metric.namespace == "AWS/DynamoDB"
    ]
    assert {(each["TableName"], each.get("GlobalSecondaryIndexName")) for each in watched} <= there


def test_throttles_are_those_of_all_functions(alarms: Mapping[str, Alarm]) -> None:
    alarm = alarms["function-throttled"]
    assert (alarm["Namespace"], alarm["MetricName"], alarm.get("Dimensions")) == ("AWS/Lambda", "Throttles", None)


@pytest.mark.parametrize(
    ("name", "metric"),
    [
        ("pushes-delayed", "push_retry"),
        ("pushes-stale", "push_stale"),
        ("envelopes-failing", "envelopes_failed"),
        ("receivers-unreadable", "receivers_unreadable"),
    ],
)
def test_what_fails_again_and_again_is_watched_where_it_is_counted_and_shown(
    prod: Template, alarms: Mapping[str, Alarm], name: str, metric: str
) -> None:
    """SQS leaves what it has handed out three times out of a queue's age."""
    assert alarms[name]["MetricName"] == metric
    assert metric in {row[1] for widget in widgets(prod) for row in measured(widget)}


def test_one_push_that_waits_for_its_provider_alone_raises_no_alarm(alarms: Mapping[str, Alarm]) -> None:
    at, attempts = 0.0, 0
    while at < alarms["pushes-delayed"]["Period"]:
        attempts += 1
        at += RETRY_SECONDS * 2.0 ** (attempts - 1) / 2  # at the soonest
    assert attempts < alarms["pushes-delayed"]["Threshold"]


def test_one_held_message_alone_keeps_its_alarm_on_from_each_attempt_to_the_next(alarms: Mapping[str, Alarm]) -> None:
    alarm = alarms["provider-misconfigured"]
    assert alarm["DatapointsToAlarm"] == 1
    assert alarm["EvaluationPeriods"] * alarm["Period"] > CAP_SECONDS + PROD.dispatch.of_held.window_s
    assert alarm["Period"] < CAP_SECONDS


def test_every_node_of_a_network_is_missed_however_many_of_another_are_connected(
    template_with: Callable[..., Template],
) -> None:
    nodes = {STATEMENTS: [f"wss://{name}.example" for name in ("one", "two", "three")], XMTP: ["https://one.example"]}
    ingest = {**dict(PROD.ingest or {}), "nodes": nodes}
    found = named(
        template_with(networks=tuple(nodes), ingest=ingest, api={"reserved": None}),
        "AWS::CloudWatch::Alarm",
        "AlarmName",
    )
    for entry, thresholds in (("nodes-missing", [3, 1]), ("ingest-disconnected", [1, 1])):
        alarms = [found[f"{entry}-{name}"] for name in nodes]
        assert [alarm["Threshold"] for alarm in alarms] == thresholds
        for name, alarm in zip(nodes, alarms, strict=True):
            assert {"Name": "network", "Value": name} in alarm["Dimensions"]
            assert alarm["Statistic"] == "Minimum", "what one task at work lacks, no other may hide"


def test_every_alarm_is_heard_when_it_starts_and_when_it_ends(alarms: Mapping[str, Alarm]) -> None:
    for alarm in alarms.values():
        assert len(alarm["AlarmActions"]) == 1
        assert alarm["OKActions"] == alarm["AlarmActions"]


def test_every_alarm_goes_off_at_its_limit_and_is_heard(alarms: Mapping[str, Alarm], emulator: Emulator) -> None:
    for name, alarm in alarms.items():
        if single(alarm):
            siren = Siren(emulator, alarm)
            siren.record(0 if "Less" in alarm["ComparisonOperator"] else alarm["Threshold"])
            assert siren.state() == "ALARM", name
            assert siren.heard() == [f"clarion-prod-{name}: ALARM"]


def test_no_alarm_goes_off_short_of_its_limit(alarms: Mapping[str, Alarm], emulator: Emulator) -> None:
    for name, alarm in alarms.items():
        if single(alarm):
            siren = Siren(emulator, alarm)
            siren.record(alarm["Threshold"] if "Less" in alarm["ComparisonOperator"] else 0)
            assert siren.state() == "OK", name


@pytest.mark.parametrize(("name", "stage"), [("prod", "prod"), ("largest", "twelveletter")])
def test_alarms_and_dashboard_look_at_their_own_deployment_alone(
    template_of: Callable[[str], Template], name: str, stage: str
) -> None:
    (dashboard,) = properties(template_of(name), "AWS::CloudWatch::Dashboard")
    alarms = properties(template_of(name), "AWS::CloudWatch::Alarm")
    watched = [*metrics_of_dashboard(dashboard), *(metric for alarm in alarms for metric in metrics_of_alarm(alarm))]
    ours = [metric.dimensions for metric in watched if metric.namespace == NAMESPACE]
    assert len(ours) > 40
    for dimensions in ours:
        assert dimensions.keys() - {"network"} == {"service", "stage"}
        assert dimensions["service"] in {
            "ingest",
            "match",
            "dispatch",
            "cleanup",
            "schedule",
            "api",
            "ntf",
            "watch",
            *NETWORKS,
        }
        assert dimensions["stage"] == stage
    theirs = [metric.dimensions for metric in watched if metric.namespace not in {NAMESPACE, "AWS/ApiGateway"}]
    # Those without any are of the whole account.
    for dimensions in filter(None, theirs):
        assert any(name.startswith(f"clarion-{stage}-") for name in dimensions.values())


def widgets(template: Template) -> list[dict[str, Any]]:
    """The properties of what the dashboard shows."""
    (dashboard,) = properties(template, "AWS::CloudWatch::Dashboard")
    return dashboard_widgets(dashboard)


def test_the_dashboard_shows_every_alarm_and_the_funnel_from_envelopes_to_delivered_pushes(
    prod: Template, alarms: Mapping[str, Alarm]
) -> None:
    funnel, *_ = (widget for widget in widgets(prod) if "alarms" not in widget)
    assert sum(len(widget.get("alarms", [])) for widget in widgets(prod)) == len(alarms)
    assert [(row[3], row[1]) for row in measured(funnel)] == [
        ("ingest", "envelopes_received"),
        ("ingest", "envelopes_forwarded"),
        ("match", "envelope_matched"),
        ("match", "notification_queued"),
        ("dispatch", "latency"),
    ]


@pytest.mark.parametrize(
    ("push_records", "rate_limits", "delivered", "rings"),
    [
        (2_000, None, 500, True),
        (2_000, 1_000, None, True),  # nothing delivered: the spending is of no use at all
        (2_000, 1_000, 50, True),
        (10_000, 10_000, 9_990, False),
        (60, 60, 50, False),
        (None, None, None, False),
    ],
)
def test_spend_goes_off_when_nothing_comes_of_it(
    alarms: Mapping[str, Alarm],
    push_records: float | None,
    rate_limits: float | None,
    delivered: float | None,
    *,
    rings: bool,
) -> None:
    values = {"push_records": push_records, "rate_limits": rate_limits, "delivered": delivered}
    assert goes_off(alarms["spend-above-ledger"], values) == rings


@pytest.mark.parametrize(
    ("all_5xx", "answered", "failed", "rings"),
    [
        (None, None, None, False),
        (500, 500, None, False),  # asked for what there is not
        (500, 500, 5, True),
        (5, None, None, True),  # the function didn't answer
        (504, 500, None, False),
        (None, None, 5, True),  # gRPC-web, whose errors have status 200
        (0, 500, 5, True),  # counted in the period before
    ],
)
def test_the_api_fails_by_its_own_fault_alone(
    alarms: Mapping[str, Alarm], all_5xx: float | None, answered: float | None, failed: float | None, *, rings: bool
) -> None:
    values = {"all": all_5xx, "answered_api": answered, "failed_api": failed}
    assert goes_off(alarms["api-failing"], values) == rings


def test_all_other_alarms_look_at_one_metric(alarms: Mapping[str, Alarm]) -> None:
    assert {name for name, alarm in alarms.items() if not single(alarm)} == {"spend-above-ledger", "api-failing"}


def goes_off(alarm: Alarm, values: Mapping[str, float | None]) -> bool:
    (expression,) = (metric["Expression"] for metric in alarm["Metrics"] if "Expression" in metric)
    return bool(computed(expression, values) >= alarm["Threshold"])


def computed(expression: str, values: Mapping[str, float | None]) -> float:
    """As CloudWatch reckons one period; what was not recorded in it is missing."""
    functions = {
        "FILL": lambda value, instead: instead if value is None else value,
        "IF": lambda condition, one, other: one if condition else other,
    }
    return float(eval(expression, functions, dict(values)))  # noqa: S307 - our own text, whose grammar Python shares
