"""What has been compacted since a job looked."""

from collections.abc import Iterator

from pipeline.commits import DataFile
from pipeline.lake import EventLake
from pipeline.period import Period


def compacted_since(lake: EventLake, kind: str, moment: int, arrived: Period) -> Iterator[DataFile]:
    """The files of a kind in those hours of arrival that have changed since; what isn't sealed yet may have."""
    for hour in lake.view.manifests(arrived):
        if hour.sealed_at is None or hour.sealed_at > moment:
            yield from hour.kinds.get(kind, ())
