"""Counters, and how many connections there are, recorded in CloudWatch's embedded metric format."""

import asyncio
from collections import Counter
from collections.abc import Callable

from aws_lambda_powertools.metrics import MetricUnit

from clarion.metrics import Metric, flush, metrics_of

SERVICE = "ntf"
PERIOD = 60.0
"""Seconds between two reports."""

type Counts = Counter[Metric]


async def report_forever(stage: str, counts: Counts, connections: Callable[[], int]) -> None:
    while True:
        await asyncio.sleep(PERIOD)
        report(stage, counts, connections())


def report(stage: str, counts: Counts, connections: int) -> None:
    """What was counted since the last time, and in each report the connections: an alarm counts the reports."""
    metrics = metrics_of(SERVICE, stage)
    for name, value in {**counts, Metric.NTF_SESSIONS_OPEN: connections}.items():
        if value or name is Metric.NTF_SESSIONS_OPEN:
            metrics.add_metric(name=name, unit=MetricUnit.Count, value=value)
    flush(metrics)
    counts.clear()
