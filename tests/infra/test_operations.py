"""The operator's page against what is deployed."""

import json
import re
from collections.abc import Callable
from pathlib import Path

from aws_cdk.assertions import Template
from aws_lambda_powertools.metrics import MetricUnit

from clarion.metrics import Metric, metrics_of
from clarion.networks import STATEMENTS, XMTP
from console.doctor import needs
from console.doctor.plan import Plan, PlannedStack
from infra.environments import PROD
from infra.jobs import GIGABYTES, VCPUS
from ingest.settings import IngestSettings
from pipeline.prices import GIGABYTE_SECOND

PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
HOURS = 730
IDLE = {
    None: [
        *(Metric.REPLAY_REMAINING, Metric.INGEST_LAG, Metric.ENVELOPES_HELD),
        *(Metric.SHARDS_OWNED, Metric.SEEN_ENVELOPES, Metric.KNOWN_KEYS, Metric.RULES_BEHIND),
    ],
    STATEMENTS: [Metric.NODES_CONNECTED],
}
"""What ingest records although there is nothing to do: of the task, and of each network."""
SHARDS = 4
"""Of the stream of a new table, which has as many partitions."""
POLLS = 5 * 3 * 60 * HOURS
"""Lambda asks a quiet queue five at a time, each for twenty seconds."""
CALL_S = 0.05
"""Of the schedule's function when nobody is due: reckoned."""
"""A million of Lambda's, on arm64."""
RUN_MINUTES = 5
"""Of a night with nothing to reconcile: reckoned, for no such run has been timed on AWS."""
WORKER_DOLLARS = VCPUS * 0.042094 + GIGABYTES * 0.004628


def times(seconds: float) -> float:
    """How often in a month something is done that is done every so many seconds."""
    return HOURS * 3600 / seconds


def setting(name: str) -> float:
    """Ingest's own, as production sets none."""
    return float(IngestSettings.model_fields[name].default)


def recorded_bytes(network: str | None) -> int:
    """A line of the log with the idle metrics; CloudWatch adds 26 to each."""
    metrics = metrics_of("ingest", "prod", network)
    for name in IDLE[network]:
        metrics.add_metric(name, MetricUnit.Count, 0)
    return len(json.dumps(metrics.serialize_metric_set(), separators=(",", ":"))) + 26


def alarmed(template: Template) -> int:
    """How many metrics the alarms look at: one each, or those that it is computed from."""
    alarms = template.find_resources("AWS::CloudWatch::Alarm").values()
    return sum(len(each["Properties"].get("Metrics", [None, None])) - 1 for each in alarms)


def idle_dollars(prod: Template) -> list[float]:
    """Prices of us-east-1, November 2026."""
    secrets, keys = (len(prod.find_resources(kind)) for kind in ("AWS::SecretsManager::Secret", "AWS::KMS::Key"))
    firewalls = prod.find_resources("AWS::WAFv2::WebACL").values()
    in_front = sum(5.00 + 1.00 * len(each["Properties"]["Rules"]) + 0.40 for each in firewalls)
    queues = len(prod.find_resources("AWS::Lambda::EventSourceMapping"))
    assert PROD.ingest
    assert PROD.pipeline
    processors, gigabytes = PROD.ingest.cpu / 1024, PROD.ingest.memory_mb / 1024
    call = 0.20 + CALL_S * PROD.schedule.memory_mb / 1024 * GIGABYTE_SECOND + 0.625 + 0.5 * 0.125
    return [
        PROD.ingest.tasks * HOURS * (processors * 0.03238 + gigabytes * 0.00356),
        PROD.ingest.tasks * HOURS * 0.005,
        alarmed(prod) * 0.10,
        (sum(map(len, IDLE.values())) + 1) * 0.30,
        (PROD.ingest.tasks * SHARDS * times(setting("stream_poll_seconds")) - 2_500_000) * 0.20 / 1_000_000,
        PROD.ingest.tasks * times(setting("lease_seconds") / 4) * (0.625 + 0.125) / 1_000_000,
        PROD.ingest.tasks * times(10) * sum(map(recorded_bytes, IDLE)) * 0.50 / 1_000_000_000,
        queues * POLLS * 0.40 / 1_000_000,
        times(60) * call / 1_000_000,
        PROD.pipeline.workers * WORKER_DOLLARS * HOURS / 24 * RUN_MINUTES / 60,
        (secrets - len(firewalls)) * 0.40,
        in_front,
        keys * 3.00,
        0.15,
    ]


def test_the_page_states_what_an_idle_deployment_costs(prod: Template) -> None:
    table = PAGE.partition("## What an idle deployment costs")[2].partition("\nNot in it ")[0]
    stated = [float(dollars) for dollars in re.findall(r"\| (?:\*\*)?(\d+\.\d\d)(?:\*\*)? \|$", table, re.MULTILINE)]
    lines = [round(dollars, 2) for dollars in idle_dollars(prod)]
    assert stated == [*lines, round(sum(lines), 2)]


RESERVED = 200
"""That the page sets aside by way of example."""


def planned(template: Template) -> Plan:
    return Plan((PlannedStack("any", template.to_json()),))


def test_the_page_states_how_many_functions_the_account_has_to_run_at_once(
    prod: Template, template_with: Callable[..., Template]
) -> None:
    plan, reserving = planned(prod), planned(template_with(api={"reserved": RESERVED}))
    table = PAGE.partition("### What the account needs")[2].partition("\n#")[0]
    stated = [int(count) for count in re.findall(r"\| (?:\*\*)?(\d+)(?:\*\*)? \|$", table, re.MULTILINE)]

    of_prod = [needs.fed(plan), needs.called(plan), needs.at_once(plan)]
    assert stated == [*of_prod, needs.reserved(reserving), needs.at_once(reserving)]


def test_dev_is_bounded_as_the_page_says(template_of: Callable[[str], Template]) -> None:
    sources = planned(template_of("dev")).resources("AWS::Lambda::EventSourceMapping")

    bounds = [source["ScalingConfig"]["MaximumConcurrency"] for source in sources]
    assert set(bounds) == {2}
    assert f"the least that SQS takes: {sum(bounds)} in all" in PAGE


FURTHER = PROD.dispatch.concurrency + PROD.dispatch.of_held.concurrency
"""What the queues of a further channel feed."""


def test_the_page_states_what_xmtp_adds(prod: Template, template_with: Callable[..., Template]) -> None:
    xmtp = template_with(
        networks=(STATEMENTS, XMTP),
        ingest={
            **dict(PROD.ingest or {}),
            "nodes": {STATEMENTS: ["wss://node.example.org"], XMTP: ["https://node.example.org:443"]},
        },
        api={"reserved": RESERVED},
    )
    alarms, sources = (
        len(xmtp.find_resources(kind)) - len(prod.find_resources(kind))
        for kind in ("AWS::CloudWatch::Alarm", "AWS::Lambda::EventSourceMapping")
    )
    reserved = needs.reserved(planned(xmtp))
    metrics = alarmed(xmtp) - alarmed(prod)
    assert metrics - alarms == 2
    assert f"| XMTP | {alarms} alarms at 0.10, and two metrics more in `api-failing` | {metrics * 0.10:.2f} |" in PAGE
    assert f"| polling of its queue of commands | {sources * POLLS * 0.40 / 1_000_000:.2f} |" in PAGE
    queues = needs.fed(planned(xmtp))
    assert f"of which its queue feeds {queues - needs.fed(planned(prod))} at once" in PAGE
    assert f"each of three functions then: {reserved} instead of {2 * RESERVED}" in PAGE
    stated = " ".join(PAGE.partition("### What the account needs")[2].split())
    assert f"the queues' {queues}, or {queues + FURTHER} with the webhook" in stated
    assert f"{queues + reserved} or {queues + FURTHER + reserved} together" in stated
