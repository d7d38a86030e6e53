"""CloudWatch's embedded metric format: what was recorded is a line of the log, and no request.

https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from enum import StrEnum
from itertools import count

from clarion.clock import now_ms
from clarion.compact_json import encode

_VALUES_A_LINE = 100
"""Of one metric, at most. The names of all are fewer than the hundred that a line may have."""


class MetricUnit(StrEnum):
    COUNT = "Count"
    MILLISECONDS = "Milliseconds"


class EmbeddedMetrics:
    """All that is recorded carries `dimensions`. What is `logged` is beside it in the line, and no metric."""

    def __init__(self, namespace: str, dimensions: Mapping[str, str]) -> None:
        self._namespace = namespace
        self._dimensions = dimensions
        self._values: defaultdict[tuple[str, MetricUnit], list[float]] = defaultdict(list)
        self._logged: dict[str, object] = {}

    def add(self, name: str, unit: MetricUnit, value: float) -> None:
        self._values[name, unit].append(value)

    def log(self, name: str, value: object) -> None:
        self._logged[name] = value

    def flush(self) -> None:
        """Print what was recorded, and forget it; nothing without a metric."""
        for line in self.lines(now_ms()):
            print(line)  # noqa: T201 - the log is what a function prints
        self._values.clear()
        self._logged.clear()

    def lines(self, at: int) -> Iterator[str]:
        """`at` is in UNIX milliseconds."""
        for start in count(0, _VALUES_A_LINE):
            values = {key: some[start : start + _VALUES_A_LINE] for key, some in self._values.items()}
            values = {key: some for key, some in values.items() if some}
            if not values:
                return
            yield self._line(at, values)

    def _line(self, at: int, values: Mapping[tuple[str, MetricUnit], list[float]]) -> str:
        metrics = {
            "Namespace": self._namespace,
            "Dimensions": [list(self._dimensions)],
            "Metrics": [{"Name": name, "Unit": unit} for name, unit in values],
        }
        recorded = {name: some for (name, _), some in values.items()}
        content = {"_aws": {"Timestamp": at, "CloudWatchMetrics": [metrics]}, **self._dimensions, **self._logged}
        return encode(content | recorded).decode()
