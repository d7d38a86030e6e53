"""The operator's page against what is deployed."""

import json
import re
from pathlib import Path

from aws_cdk.assertions import Template
from aws_lambda_powertools.metrics import MetricUnit

from clarion.metrics import Metric, metrics_of
from infra.environments import PROD
from infra.pipeline import GIGABYTES, VCPUS
from ingest.settings import IngestSettings

PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
HOURS = 730
IDLE = [
    *(Metric.NODES_CONNECTED, Metric.REPLAY_REMAINING, Metric.INGEST_LAG, Metric.STATEMENTS_HELD),
    *(Metric.LEADERS, Metric.SEEN_STATEMENTS, Metric.KNOWN_PAIRS, Metric.RULES_BEHIND),
]
"""What ingest tells although there is nothing to do."""
SHARDS = 4
"""Of the stream of a new table, which has as many partitions."""
POLLS = 5 * 3 * 60 * HOURS
"""Lambda asks a quiet queue five at a time, each for twenty seconds."""
RUN_MINUTES = 5
"""Of a night with nothing to reconcile: reckoned, for no such run has been timed on AWS."""
WORKER_DOLLARS = VCPUS * 0.042094 + GIGABYTES * 0.004628


def times(seconds: float) -> float:
    """How often in a month something is done that is done every so many seconds."""
    return HOURS * 3600 / seconds


def setting(name: str) -> float:
    """Ingest's own, as production sets none."""
    return float(IngestSettings.model_fields[name].default)


def told_bytes() -> int:
    """A line of the log that tells the idle metrics; CloudWatch adds 26 to each."""
    metrics = metrics_of("ingest", "prod")
    for name in IDLE:
        metrics.add_metric(name, MetricUnit.Count, 0)
    return len(json.dumps(metrics.serialize_metric_set(), separators=(",", ":"))) + 26


def idle_dollars(prod: Template) -> list[float]:
    """Prices of us-east-1, November 2026."""
    alarms = prod.find_resources("AWS::CloudWatch::Alarm").values()
    metrics = sum(len(each["Properties"].get("Metrics", [None, None])) - 1 for each in alarms)
    secrets, keys = (len(prod.find_resources(kind)) for kind in ("AWS::SecretsManager::Secret", "AWS::KMS::Key"))
    firewalls = prod.find_resources("AWS::WAFv2::WebACL").values()
    in_front = sum(5.00 + 1.00 * len(each["Properties"]["Rules"]) + 0.40 for each in firewalls)
    queues = len(prod.find_resources("AWS::Lambda::EventSourceMapping"))
    assert PROD.ingest
    assert PROD.pipeline
    processors, gigabytes = PROD.ingest.cpu / 1024, PROD.ingest.memory_mb / 1024
    return [
        PROD.ingest.tasks * HOURS * (processors * 0.03238 + gigabytes * 0.00356),
        PROD.ingest.tasks * HOURS * 0.005,
        metrics * 0.10,
        len(IDLE) * 0.30,
        (PROD.ingest.tasks * SHARDS * times(setting("stream_poll_seconds")) - 2_500_000) * 0.20 / 1_000_000,
        times(setting("lease_seconds") / 4) * (0.625 + (PROD.ingest.tasks - 1) * 0.125) / 1_000_000,
        PROD.ingest.tasks * times(10) * told_bytes() * 0.50 / 1_000_000_000,
        queues * POLLS * 0.40 / 1_000_000,
        PROD.pipeline.workers * WORKER_DOLLARS * HOURS / 24 * RUN_MINUTES / 60,
        (secrets - len(firewalls)) * 0.40,
        in_front,
        keys * 3.00,
        0.15,
    ]


def test_the_page_tells_what_an_idle_deployment_costs(prod: Template) -> None:
    table = PAGE.partition("## What an idle deployment costs")[2].partition("\n## ")[0]
    told = [float(dollars) for dollars in re.findall(r"\| (?:\*\*)?(\d+\.\d\d)(?:\*\*)? \|$", table, re.MULTILINE)]
    lines = [round(dollars, 2) for dollars in idle_dollars(prod)]
    assert told == [*lines, round(sum(lines), 2)]
