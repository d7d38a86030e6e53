"""Which hours of a period the lake does not have: what was lost before it came there, no comparison finds."""

from typing import NamedTuple

from pyarrow import fs

from pipeline.lake import HOUR_MS, RAW, UNREADABLE, Kind, Period, filesystem, hour_path


class Gaps(NamedTuple):
    """Hours of arrival, such as `2026-11-20/16`.

    `uncompacted` ones have the stream's files and no Parquet. Of `empty` ones there is nothing, be it that nothing
    happened or that it was lost; if `nothing` else is there either, the period can't be called healthy.
    """

    uncompacted: list[str]
    empty: list[str]
    nothing: bool

    @property
    def unjudged(self) -> bool:
        return bool(self.uncompacted) or self.nothing


def find_gaps(root: str, period: Period) -> Gaps:
    """The gaps among the hours that the period touches, in the lake at a path or URI."""
    hours = [hour_path(hour) for hour in range(period.start // HOUR_MS * HOUR_MS, period.end, HOUR_MS)]
    files, place = filesystem(root)
    compacted = {hour for hour in hours if _has(files, place, (*Kind, UNREADABLE), hour)}
    raw = {hour for hour in hours if _has(files, place, (RAW,), hour)}
    return Gaps(
        uncompacted=[hour for hour in hours if hour in raw - compacted],
        empty=[hour for hour in hours if hour not in raw | compacted],
        nothing=not compacted,
    )


def _has(files: fs.FileSystem, root: str, folders: tuple[str, ...], hour: str) -> bool:
    day, of_day = hour.split("/")
    places = [f"{root.rstrip('/')}/{folder}/day={day}/hour={of_day}" for folder in folders]
    return any(found.type != fs.FileType.NotFound for found in files.get_file_info(places))
