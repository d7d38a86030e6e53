"""Spans of time, and the hours of arrival by which the lake is divided, such as `2026-11-20/16`; all in UTC."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
QUEUED_MS = 14 * DAY_MS
"""So long a queue keeps a message."""
LATEST_MS = QUEUED_MS + DAY_MS
"""No line arrives later than this after its time, unless it was redriven."""
SNAPSHOT_DAYS = 50
"""Days that a daily snapshot is kept: more than the 45 for which claims are looked up."""
CLOCK_SKEW_MS = 5 * 60_000
"""How far two clocks may be apart."""
FIREHOSE_BUFFER_MS = 15 * 60_000
"""How long Firehose holds records at most: longer than `lake_buffer_s`."""
FOREVER = (1 << 63) - 1
"""The end of what has not ended."""
_HOUR = "%Y-%m-%d/%H"


@dataclass(frozen=True)
class Period:
    """From `start` up to but without `end`, in UNIX milliseconds."""

    start: int
    end: int

    def has(self, instant: "Column") -> "Column":
        return (instant >= self.start) & (instant < self.end)

    def hours(self) -> Iterator[str]:
        """The hours of arrival that it touches, in order."""
        return map(hour_path, range(self.start // HOUR_MS * HOUR_MS, self.end, HOUR_MS))

    def has_day(self, day: str) -> bool:
        return hour_path(self.start)[:10] <= day <= hour_path(self.end - 1)[:10]

    def has_hour(self, hour: str) -> bool:
        """Whether it touches an hour of arrival."""
        return hour_path(self.start) <= hour <= hour_path(self.end - 1)

    def __str__(self) -> str:
        return f"{instant_text(self.start)} to {instant_text(self.end)}"


def arrivals(period: Period, until: int) -> Period:
    """The hours in which lines of a period may have arrived `until` an instant.

    Firehose files a line under the hour in which it began the file: this may be the hour before the line's own time.
    """
    return Period(period.start - HOUR_MS, until)


EVER = Period(0, 253_402_300_800_000)
"""Up to the year 10,000, which no hour of arrival goes beyond."""


def hour_path(instant: int) -> str:
    """Sorts like time."""
    return _utc(instant).strftime(_HOUR)


def hour_start(hour: str) -> int:
    """UNIX milliseconds."""
    return int(datetime.strptime(hour, _HOUR).replace(tzinfo=UTC).timestamp()) * 1000


def is_hour(hour: str) -> bool:
    """Whether there is such an hour."""
    try:
        hour_start(hour)
    except ValueError:
        return False
    return True


def hour_runs(hours: Iterable[str]) -> Iterator[str]:
    """Hours in order, those that follow one another as one text: `2026-11-20/02 to 23`."""
    for _, run in groupby(enumerate(hours), lambda place: hour_start(place[1]) - place[0] * HOUR_MS):
        some = [hour for _, hour in run]
        first, last = some[0], some[-1]
        end = last.removeprefix(first[:11])
        yield first if first == last else f"{first} to {end}"


def instant_text(instant: int) -> str:
    return _utc(instant).strftime("%Y-%m-%d %H:%M:%S")


def _utc(instant: int) -> datetime:
    return datetime.fromtimestamp(instant / 1000, UTC)
