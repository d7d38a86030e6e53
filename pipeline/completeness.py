"""Whether the lake has all of a period: no comparison finds what is not there, so this comes before any judgement."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from pipeline.commits import DataFile, Manifest, manifests
from pipeline.files import listed
from pipeline.period import HOUR_MS, Period
from pipeline.raw import arrived_files


class IncompleteHour(NamedTuple):
    """An hour of arrival that can't be judged, and why."""

    hour: str
    reason: str

    def __str__(self) -> str:
        return f"{self.hour}: {self.reason}"


def incomplete_hours(root: str, period: Period, now: int, *, provisional: bool = False) -> list[IncompleteHour]:
    """Those among the hours in which something of the period arrives: its own, and the one after, up to `now`.

    If `provisional`, an hour may still be under way.
    """
    arrival = Period(period.start, min(period.end + HOUR_MS, max(now, period.start + 1)))
    arrived, found = arrived_files(root, arrival), {each.hour: each for each in manifests(root, arrival)}
    sizes = _sizes(root, found.values())
    reasons = (
        (hour, next(_reasons(found.get(hour), set(arrived.get(hour, ())), sizes, provisional=provisional), None))
        for hour in arrival.hours()
    )
    return [IncompleteHour(hour, reason) for hour, reason in reasons if reason]


def _reasons(
    manifest: Manifest | None, arrived: set[str], sizes: Mapping[str, int], *, provisional: bool
) -> Iterator[str]:
    """Why an hour can't be judged, if it can't."""
    if manifest is None:
        yield f"{len(arrived)} files have arrived, and none is compacted" if arrived else "nothing has arrived"
        return
    named = {each.path for each in manifest.raw}
    if new := arrived - named:
        yield f"{len(new)} files have arrived since it was compacted"
    if gone := named - arrived:
        yield f"{len(gone)} of the {len(named)} files that it was made of are gone"
    if damaged := list(_damaged(manifest.files, sizes)):
        yield f"{len(damaged)} data files are gone or not as they were written, such as {damaged[0]}"
    if not manifest.lines and manifest.counted is None:
        yield "nothing has arrived, and nobody has counted what came"
    if manifest.lines < (manifest.counted or 0):
        yield f"{manifest.lines} lines have arrived, of {manifest.counted} records at least"
    if manifest.sealed_at is None and not provisional:
        yield "it was not over when it was compacted"


def _damaged(files: Iterable[DataFile], sizes: Mapping[str, int]) -> Iterator[str]:
    return (each.path for each in files if sizes.get(each.path) != each.bytes)


def _sizes(root: str, found: Iterable[Manifest]) -> dict[str, int]:
    """The sizes of all files in the folders that the manifests name files of, by path."""
    days = {each.path.partition("/hour=")[0] for manifest in found for each in manifest.files}
    return {path: info.size for day in sorted(days) for path, info in listed(root, day).items()}
