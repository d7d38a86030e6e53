"""What of a period the lake has, hour by hour: what is not compacted, lost, quiet, or can't be read."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

from pipeline.columns import UNREADABLE, EventKind
from pipeline.lake.commits import LakeView, Manifest, read_manifests
from pipeline.lake.files import folders, is_shown
from pipeline.lake.raw import RAW, arrived_files, is_day
from pipeline.lake.snapshots import SNAPSHOT_LEAD_MS, last_before, unread_hours
from pipeline.period import DAY_MS, Period, hour_runs, hour_start


@dataclass
class Coverage:
    """By what counts in `view`, and the stream's files as they were when a day was first asked for."""

    view: LakeView
    _arrived: dict[str, dict[str, list[str]]] = field(default_factory=dict)

    def pending(self, arrived: Period) -> dict[str, list[str]]:
        """By hour, the stream's files that no commit has: the hour has none yet, or they came later."""
        days = [day for day in self._days if arrived.has_day(day)]
        for day in days:
            if day not in self._arrived:
                start = hour_start(f"{day}/00")
                self._arrived[day] = arrived_files(self.view.root, Period(start, start + DAY_MS))
        made_of = {raw.path for hour in self.view.manifests(arrived) for raw in hour.raw}
        found = (each for day in days for each in self._arrived[day].items() if arrived.has_hour(each[0]))
        left = {hour: [path for path in paths if path not in made_of and is_shown(path)] for hour, paths in found}
        return {hour: paths for hour, paths in sorted(left.items()) if paths}

    def absent(self, arrived: Period) -> list[str]:
        """The hours that have neither a commit nor a file of the stream: a quiet one has at least a commit."""
        known = self._hours(arrived)
        return [hour for hour in arrived.hours() if hour not in known]

    def quiet(self, arrived: Period) -> list[str]:
        """The hours that are committed, without an observation among their lines."""
        left = self.pending(arrived)
        found = (hour for hour in self.view.manifests(arrived) if hour.hour not in left)
        return [hour.hour for hour in found if not any(each.lines for each in hour.kinds.get(EventKind.OBSERVED, ()))]

    def doubts(self, arrived: Period, soon: Period | None = None) -> Iterator[str]:
        """Why what was found may not be all: hours that are lost or half read.

        An hour is lost of which there is nothing, though of one before and of one after it there is; and any of `soon`.
        """
        around = self._hours(Period(max(0, arrived.start - DAY_MS), arrived.end + DAY_MS))
        absent = (hour for hour in arrived.hours() if hour not in around)
        near = set(soon.hours()) if soon else set()
        lost = [hour for hour in absent if hour in near or (around and min(around) < hour < max(around))]
        if lost:
            yield f"{len(lost)} hours are lost: {', '.join(hour_runs(lost))}"
        for hour in self.view.manifests(arrived):
            yield from _unread(hour)
            if hour.arrived < (hour.counted or 0):
                yield f"{hour.arrived} lines of {hour.hour} have arrived, of {hour.counted} records at least"

    def doubts_before(self, start: int) -> Iterator[str]:
        """What was in force may be unknown, by lines of long before that could not be read."""
        day = last_before(self.view.root, EventKind.RULES, start - SNAPSHOT_LEAD_MS)
        unread = unread_hours(self.view.root, EventKind.RULES, day) if day else {}
        yield from chain.from_iterable(map(_unread, read_manifests(self.view.root, sorted(unread))))

    def _hours(self, arrived: Period) -> set[str]:
        """Those that have a commit, or a file of the stream."""
        return {hour.hour for hour in self.view.manifests(arrived)} | self.pending(arrived).keys()

    @cached_property
    def _days(self) -> list[str]:
        """Those of which the stream has files."""
        return [day.removeprefix("day=") for day in folders(self.view.root, RAW) if is_day(day)]


def _unread(hour: Manifest) -> Iterator[str]:
    if unreadable := sum(each.lines for each in hour.kinds.get(UNREADABLE, ())):
        yield f"{unreadable} lines of {hour.hour} can't be read"
