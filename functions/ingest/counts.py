"""Counters and gauges, recorded as one line in CloudWatch's embedded metric format."""

import asyncio
from collections import Counter
from collections.abc import Callable

from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit

from clarion.metrics import Metric

SERVICE = "ingest"
_PERIOD = 10.0
_MILLISECONDS = (Metric.INGEST_LAG, Metric.RULES_BEHIND)

type Counts = Counter[str]


async def report_forever(metrics: EphemeralMetrics, counts: Counts, gauges: Callable[[], dict[Metric, int]]) -> None:
    """Every ten seconds, print what was counted since the last time, and what the gauges say now."""
    while True:
        await asyncio.sleep(_PERIOD)
        report(metrics, counts, gauges())


def report(metrics: EphemeralMetrics, counts: Counts, gauges: dict[Metric, int]) -> None:
    for name, value in (counts | gauges).items():
        unit = MetricUnit.Milliseconds if name in _MILLISECONDS else MetricUnit.Count
        metrics.add_metric(name=name, unit=unit, value=value)
    counts.clear()
    metrics.flush_metrics(raise_on_empty_metrics=False)
