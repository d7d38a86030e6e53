"""What CloudWatch has measured of a deployment, in two requests."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from clarion.decisions import EnvelopeDecision, NotificationDecision, PushDecision
from clarion.metrics import NAMESPACE, Metric, decided, dimensions
from clarion.networks import NETWORKS
from console.output import Report

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch import CloudWatchClient
    from mypy_boto3_cloudwatch.type_defs import DimensionTypeDef, MetricDataQueryTypeDef

    from console.deployment import Deployment

FUNNEL = {
    "envelopes received, by every ingest task": Metric.ENVELOPES_RECEIVED.value,
    "envelopes forwarded": Metric.ENVELOPES_FORWARDED.value,
    "envelopes matched": decided(EnvelopeDecision.MATCHED),
    "notifications queued": decided(NotificationDecision.QUEUED),
    "pushes delivered": decided(PushDecision.DELIVERED),
}
DECISIONS = {
    "envelope": {str(word): decided(word) for word in EnvelopeDecision},
    "notification": {str(word): decided(word) for word in NotificationDecision},
    "push": {str(word): decided(word) for word in PushDecision},
}
_COMPONENTS = {"envelopes": "ingest", "envelope": "match", "notification": "match", "push": "dispatch"}
"""Which component counts a metric, by its first word."""
GAUGES = (Metric.INGEST_LAG, Metric.RULES_BEHIND)
GAUGE_MINUTES = 10
"""SQS reports a queue's age up to some minutes late."""


class Measures(Report):
    """`counts` by metric. The latest are `gauges`, `nodes` (connected, by network) and `ages` (seconds, by queue).

    `latency` is in milliseconds.
    """

    counts: dict[str, float]
    latency: dict[str, float]
    gauges: dict[str, float]
    nodes: dict[str, float]
    ages: dict[str, float]

    def seconds(self, statistic: str) -> float | None:
        return self.latency[statistic] / 1000 if statistic in self.latency else None


class History(Report):
    """By minute, the oldest first: when each began, in UNIX seconds, and each series' values, None where there is none.

    Latencies are in milliseconds.
    """

    minutes: list[int]
    series: dict[str, list[float | None]]


class Series(NamedTuple):
    namespace: str
    name: str
    dimensions: Mapping[str, str]
    statistic: str

    def query(self, identity: str, period: int) -> "MetricDataQueryTypeDef":
        selected: list[DimensionTypeDef] = [{"Name": name, "Value": value} for name, value in self.dimensions.items()]
        return {
            "Id": identity,
            "MetricStat": {
                "Metric": {"Namespace": self.namespace, "MetricName": self.name, "Dimensions": selected},
                "Period": period,
                "Stat": self.statistic,
            },
        }


def measure(cloudwatch: "CloudWatchClient", here: "Deployment", minutes: int) -> Measures:
    names = dict.fromkeys([*FUNNEL.values(), *(name for words in DECISIONS.values() for name in words.values())])
    counts = {name: _count_of(here, name) for name in names}
    latency = {statistic: _counted(here, "dispatch", Metric.LATENCY, statistic) for statistic in ("p50", "p99")}
    over_all = _values(cloudwatch, counts | latency, minutes, period=60 * minutes)
    gauges = {str(name): _counted(here, "ingest", name, "Maximum") for name in GAUGES}
    nodes = {name: _counted(here, "ingest", Metric.NODES_CONNECTED, "Minimum", name) for name in NETWORKS}
    ages = {
        queue.name: Series(
            "AWS/SQS", "ApproximateAgeOfOldestMessage", {"QueueName": f"{here.prefix}{queue.name}"}, "Maximum"
        )
        for queue in here.queues
    }
    now = _values(cloudwatch, gauges | nodes | ages, GAUGE_MINUTES, period=60)
    return Measures(
        counts={name: sum(values) for name, values in over_all.items() if name in counts},
        latency={name: max(values) for name, values in over_all.items() if name in latency},
        gauges={name: values[0] for name, values in now.items() if name in gauges},
        nodes={name: values[0] for name, values in now.items() if name in nodes},
        ages={name: values[0] for name, values in now.items() if name in ages},
    )


def history(cloudwatch: "CloudWatchClient", here: "Deployment", minutes: int) -> History:
    """What came in, what went out, and how long it took, in each of the last so many whole minutes."""
    received, delivered = Metric.ENVELOPES_RECEIVED.value, decided(PushDecision.DELIVERED)
    series = {
        "received": _count_of(here, received),
        "delivered": _count_of(here, delivered),
        **{statistic: _counted(here, "dispatch", Metric.LATENCY, statistic) for statistic in ("p50", "p99")},
    }
    end = _this_minute()
    begins = [end - timedelta(minutes=ago) for ago in range(minutes, 0, -1)]
    found = _points(cloudwatch, {name: one.query(name, 60) for name, one in series.items()}, begins[0], end)
    return History(
        minutes=[round(begin.timestamp()) for begin in begins],
        series={name: [found[name].get(begin) for begin in begins] for name in series},
    )


def _this_minute() -> datetime:
    return datetime.now(UTC).replace(second=0, microsecond=0)


def _count_of(here: "Deployment", name: str) -> Series:
    """What was delivered is counted by its latencies."""
    if name == decided(PushDecision.DELIVERED):
        return _counted(here, "dispatch", Metric.LATENCY, "SampleCount")
    return _counted(here, _COMPONENTS[name.partition("_")[0]], name, "Sum")


def _counted(here: "Deployment", component: str, name: str, statistic: str, network: str | None = None) -> Series:
    return Series(NAMESPACE, name, dimensions(component, here.stage, network), statistic)


def _values(
    cloudwatch: "CloudWatchClient", series: Mapping[str, Series], minutes: int, *, period: int
) -> dict[str, list[float]]:
    """Of the last so many minutes, the youngest first; only of those that have any."""
    end = _this_minute() + timedelta(minutes=1)
    identities = {name: f"m{number}" for number, name in enumerate(series)}
    queries = {identities[name]: one.query(identities[name], period) for name, one in series.items()}
    found = _points(cloudwatch, queries, end - timedelta(minutes=minutes), end)
    return {name: list(points.values()) for name in series if (points := found[identities[name]])}


def _points(
    cloudwatch: "CloudWatchClient", queries: Mapping[str, "MetricDataQueryTypeDef"], start: datetime, end: datetime
) -> dict[str, dict[datetime, float]]:
    """By each query's identity and time, the youngest first. An answer may come in pages, each with a part of any query."""
    found: dict[str, dict[datetime, float]] = {identity: {} for identity in queries}
    pages = cloudwatch.get_paginator("get_metric_data").paginate(
        MetricDataQueries=list(queries.values()), StartTime=start, EndTime=end, ScanBy="TimestampDescending"
    )
    for page in pages:
        for result in page["MetricDataResults"]:
            found[result["Id"]].update(zip(result["Timestamps"], result["Values"], strict=True))
    return found
