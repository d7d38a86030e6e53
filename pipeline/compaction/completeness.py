"""Whether the lake has all of a period: no comparison finds what is not there, so this comes before any judgement."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from pipeline.columns import UNREADABLE
from pipeline.lake.commits import LakeView, Manifest
from pipeline.lake.files import listed
from pipeline.lake.parquet import DataFile
from pipeline.lake.raw import arrived_files, written_since
from pipeline.lake.snapshots import IN_FORCE, LATE_FILES_MS, SNAPSHOT_LEAD_MS, day_of, last_before, unread_hours
from pipeline.period import FIREHOSE_BUFFER_MS, HOUR_MS, Period, arrivals, hour_start

SEALED_AFTER_MS = FIREHOSE_BUFFER_MS
"""This long after its end an hour has all its files, unless they are late."""
FRESH_MS = 30 * 60_000
"""How long a file, or an hour that has all its files, may be without its compaction where `up_to_now` is asked for."""
EXAMPLE = ", such as "
"""What follows in a reason is a file of that hour."""
_AFTER_FOLDER = re.compile("/hour=|/commit=")
"""Ends the folder that is listed: that of a kind's day, or of a commit's name."""


class IncompleteHour(NamedTuple):
    """An hour of arrival that can't be judged, and why."""

    hour: str
    reason: str

    def __str__(self) -> str:
        return f"{self.hour}: {self.reason}"


def incomplete_hours(
    view: LakeView, period: Period, now: int, *, provisional: bool = False, up_to_now: bool = False
) -> list[IncompleteHour]:
    """Those among the hours in which something of the period arrives: the one before to the one after, up to `now`.

    Of the hours before them, those with lines that are in neither a commit nor the last snapshot of what is in force:
    rules may be among them, without which what was rightly queued seems to be unexpected.

    If `provisional`, an hour that is not over yet is judged by what has arrived. If `up_to_now`, so are the
    later hours. Of these, one that has had all its files for less than `FRESH_MS`, or is under way, is judged by what
    has arrived, without uncompacted files younger than that. A job that judges by the same `view` reads what was found
    complete.
    """
    until, own_end = max(now, period.start + 1), period.end + HOUR_MS
    arrival = arrivals(period, until if up_to_now else min(until, own_end))
    found = {each.hour: each for each in view.manifests(arrival)}
    arrived, sizes = arrived_files(view.root, arrival), _sizes(view.root, found.values())
    bases = {kind: last_before(view.root, kind, period.start - SNAPSHOT_LEAD_MS) for kind in IN_FORCE}
    carried = {hour for kind, base in bases.items() if base for hour in unread_hours(view.root, kind, base)}
    known_until = min(base.end if base else 0 for base in bases.values())
    incomplete = unread_before(view, Period(known_until, arrival.start), carried)
    for hour in arrival.hours():
        manifest, files = found.get(hour), set(arrived.get(hour, ()))
        under_way = provisional and not is_over(hour, now)
        if hour_start(hour) >= own_end and not is_over(hour, now - FRESH_MS):
            under_way, files = True, files - _fresh(view.root, hour, manifest, now)
        reasons = _reasons(manifest, files, sizes, under_way=under_way)
        incomplete += [IncompleteHour(hour, reason) for reason in islice(reasons, 1)]
    return incomplete


def _fresh(root: str, hour: str, manifest: Manifest | None, now: int) -> set[str]:
    """The files of an hour that are young and not compacted."""
    compacted = {each.path for each in manifest.raw} if manifest else set()
    return written_since(root, hour, now - FRESH_MS) - compacted


def unread_before(view: LakeView, before: Period, carried: Collection[str]) -> list[IncompleteHour]:
    """Those with lines not compacted or unreadable: of the hours since a snapshot's end, and of those `carried` by it.

    What came late to the hours of a snapshot is not in it, either.
    """
    looked_at = Period(max(0, before.start - LATE_FILES_MS), before.end)
    found = set(_unread(view, looked_at))
    for start in {day_of(hour_start(hour)).start for hour in carried}:
        found.update(each for each in _unread(view, day_of(start)) if each.hour in carried)
    return sorted(found)


def _unread(view: LakeView, period: Period) -> Iterator[IncompleteHour]:
    if period.start >= period.end:
        return
    known = {each.hour: each for each in view.manifests(period)}
    arrived = arrived_files(view.root, period)
    for hour in {*known, *arrived}:
        manifest = known.get(hour, Manifest(hour, ""))
        if new := set(arrived.get(hour, ())) - {each.path for each in manifest.raw}:
            yield IncompleteHour(hour, f"files are not compacted, and may say what was in force{EXAMPLE}{min(new)}")
        elif unreadable := _unreadable(manifest):
            yield IncompleteHour(hour, f"{unreadable} lines can't be read, and may say what was in force")


def _unreadable(manifest: Manifest) -> int:
    return sum(each.lines for each in manifest.kinds.get(UNREADABLE, ()))


def is_over(hour: str, now: int) -> bool:
    """Whether all files of an hour should be there."""
    return now >= hour_start(hour) + HOUR_MS + SEALED_AFTER_MS


def _reasons(
    manifest: Manifest | None, arrived: set[str], sizes: Mapping[str, int], *, under_way: bool
) -> Iterator[str]:
    """Why an hour can't be judged, if it can't."""
    if manifest:
        yield from _changed(manifest, arrived, sizes)
        if unreadable := _unreadable(manifest):
            yield f"{unreadable} lines can't be read"
        if not under_way:
            yield from _unfinished(manifest)
    elif arrived:
        yield f"files have arrived, and none is compacted{EXAMPLE}{min(arrived)}"
    elif not under_way:
        yield "nothing has arrived"


def _changed(manifest: Manifest, arrived: set[str], sizes: Mapping[str, int]) -> Iterator[str]:
    named = {each.path for each in manifest.raw}
    if new := arrived - named:
        yield f"{len(new)} files have arrived since it was compacted, or are damaged{EXAMPLE}{min(new)}"
    if gone := named - arrived:
        yield f"{len(gone)} of the {len(named)} files that it was made of are gone"
    if damaged := list(_damaged(manifest.files, sizes)):
        yield f"{len(damaged)} data files are gone or not as they were written{EXAMPLE}{damaged[0]}"


def _unfinished(manifest: Manifest) -> Iterator[str]:
    if not manifest.arrived and manifest.counted is None:
        yield "nothing has arrived, and nobody has counted what came"
    if manifest.arrived < (manifest.counted or 0):
        yield f"{manifest.arrived} lines have arrived, of {manifest.counted} records at least"
    if manifest.sealed_at is None:
        yield "it was not over when it was compacted"


def damaged_files(root: str, found: Collection[Manifest]) -> list[str]:
    """The data files of these manifests that are gone, or have another size than was written."""
    sizes = _sizes(root, found)
    return [path for manifest in found for path in _damaged(manifest.files, sizes)]


def _damaged(files: Iterable[DataFile], sizes: Mapping[str, int]) -> Iterator[str]:
    return (each.path for each in files if sizes.get(each.path) != each.bytes)


def _sizes(root: str, found: Iterable[Manifest]) -> dict[str, int]:
    """The sizes, by path, of all files in the folders of the manifests' files. Each folder is listed once."""
    folders = {_AFTER_FOLDER.split(each.path)[0] for manifest in found for each in manifest.files}
    return {path: info.size for folder in sorted(folders) for path, info in listed(root, folder).items()}
