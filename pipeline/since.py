"""What has been compacted since a job looked."""

from collections.abc import Iterable, Iterator

from pipeline.lake import EventLake
from pipeline.period import HOUR_MS, Period, hour_start


def compacted_since(lake: EventLake, moment: int, arrived: Period) -> Iterator[Period]:
    """The hours of arrival that have changed since, in order; what isn't sealed yet may have."""
    for hour in lake.view.manifests(arrived):
        if hour.sealed_at is None or hour.sealed_at > moment:
            yield Period(hour_start(hour.hour), hour_start(hour.hour) + HOUR_MS)


def joined(periods: Iterable[Period]) -> list[Period]:
    """Periods in order, with those that meet as one."""
    found: list[Period] = []
    for period in periods:
        meets = found and found[-1].end == period.start
        found.append(Period(found.pop().start if meets else period.start, period.end))
    return found
