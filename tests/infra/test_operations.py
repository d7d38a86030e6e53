"""The operator's page against what is deployed."""

import re
from pathlib import Path

from aws_cdk.assertions import Template

from infra.environments import PROD

PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
HOURS = 730
IDLE_METRICS = 8
"""What ingest tells although there is nothing to do."""
POLLS = 5 * 3 * 60 * HOURS
"""Lambda asks a quiet queue five at a time, each for twenty seconds."""


def idle_dollars(prod: Template) -> list[float]:
    """Prices of us-east-1, November 2026."""
    alarms = prod.find_resources("AWS::CloudWatch::Alarm").values()
    metrics = sum(len(each["Properties"].get("Metrics", [None, None])) - 1 for each in alarms)
    secrets, keys = (len(prod.find_resources(kind)) for kind in ("AWS::SecretsManager::Secret", "AWS::KMS::Key"))
    queues = len(prod.find_resources("AWS::Lambda::EventSourceMapping"))
    assert PROD.ingest
    processors, gigabytes = PROD.ingest.cpu / 1024, PROD.ingest.memory_mb / 1024
    return [
        PROD.ingest.tasks * HOURS * (processors * 0.03238 + gigabytes * 0.00356),
        PROD.ingest.tasks * HOURS * 0.005,
        metrics * 0.10,
        IDLE_METRICS * 0.30,
        queues * POLLS * 0.40 / 1_000_000,
        secrets * 0.40,
        keys * 3.00,
        0.15,
    ]


def test_the_page_tells_what_an_idle_deployment_costs(prod: Template) -> None:
    table = PAGE.partition("## What an idle deployment costs")[2].partition("\n## ")[0]
    told = [float(dollars) for dollars in re.findall(r"\| (?:\*\*)?(\d+\.\d\d)(?:\*\*)? \|$", table, re.MULTILINE)]
    lines = [round(dollars, 2) for dollars in idle_dollars(prod)]
    assert told == [*lines, round(sum(lines), 2)]
