"""Counters and gauges, recorded in CloudWatch's embedded metric format: a line for the task, and one for each network.

What only explains the rest is beside them in the line, and no metric, which would be billed by the month.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from typing import NamedTuple

from aws_lambda_powertools.metrics import MetricUnit

from clarion.decisions import EnvelopeDecision
from clarion.metrics import Metric, decided, flush, metrics_of

SERVICE = "ingest"
PERIOD = 10.0
"""Seconds between two reports."""
_MILLISECONDS = (Metric.INGEST_LAG, Metric.RULES_BEHIND)


LOGGED_GAUGES = (Metric.REPLAY_REMAINING, Metric.ENVELOPES_HELD, Metric.SEEN_ENVELOPES, Metric.KNOWN_KEYS)
LOGGED_COUNTS = (Metric.ENVELOPES_SKIPPED, decided(EnvelopeDecision.UNMATCHED))
USUAL_LAG_MS = 5_000
"""A lag below it is only logged: an envelope waits a second for others that go to the lake, and a request may be repeated."""


class OfNetwork(NamedTuple):
    """A metric of one network; all others are of the task."""

    metric: Metric
    network: str


type Counts = Counter[str | OfNetwork]
type Gauges = dict[str | OfNetwork, int]


async def report_forever(stage: str, counts: Counts, gauges: Callable[[], Gauges]) -> None:
    """Every ten seconds, print what was counted since the last time, and what the gauges say now."""
    while True:
        await asyncio.sleep(PERIOD)
        report(stage, counts, gauges())


def report(stage: str, counts: Counts, gauges: Gauges) -> None:
    for network, values in _by_network({**counts, **gauges}).items():
        metrics = metrics_of(SERVICE, stage, network)
        for name, value in values.items():
            if _is_only_logged(name, value):
                metrics.add_metadata(name, value)
            # An alarm waits for a network's nodes to be none; other gauges at zero would be billed for nothing.
            elif value or network:
                unit = MetricUnit.Milliseconds if name in _MILLISECONDS else MetricUnit.Count
                metrics.add_metric(name=name, unit=unit, value=value)
        flush(metrics)
    counts.clear()


def _is_only_logged(name: str, value: int) -> bool:
    return name in LOGGED_GAUGES or name in LOGGED_COUNTS or (name == Metric.INGEST_LAG and value < USUAL_LAG_MS)


def _by_network(values: Mapping[str | OfNetwork, int]) -> Mapping[str | None, Mapping[str, int]]:
    """The task's own are under None."""
    found: defaultdict[str | None, dict[str, int]] = defaultdict(dict)
    for name, value in values.items():
        metric, network = name if isinstance(name, OfNetwork) else (name, None)
        found[network][metric] = value
    return found
