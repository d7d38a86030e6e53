"""CloudWatch's percentiles, such as `p99`, which moto answers by nothing."""

from math import ceil
from typing import SupportsFloat

from moto.cloudwatch.models import Statistics

MOTOS = Statistics.get_statistics_for_type
"""The function as moto has it."""


def install() -> None:
    """For all of the process."""
    Statistics.get_statistics_for_type = _statistic  # type: ignore[assignment, method-assign]


def _statistic(statistics: Statistics, name: str) -> SupportsFloat | None:
    values = sorted(statistics.metric_single_values_list)
    if not name.startswith("p") or not values:
        return MOTOS(statistics, name)
    return values[ceil(len(values) * float(name.removeprefix("p")) / 100) - 1]
