"""What `reconcile` finds: how what the live system did can differ from what is right, and which hours can't be judged."""

from enum import StrEnum
from typing import NamedTuple

from pyarrow import fs

from pipeline.files import filesystem
from pipeline.lake import RAW, UNREADABLE
from pipeline.period import HOUR_MS, Period, hour_path
from pipeline.schemas import EventKind


class Difference(StrEnum):
    MISSING = "missing"
    """It should have been pushed, and nobody decided otherwise: it was lost on the way."""
    WRONGLY_DROPPED = "wrongly_dropped"
    """It should have been pushed, but was dropped by a decision that rules and limits don't bear out."""
    UNEXPECTED = "unexpected"
    """It was pushed, but should not have been."""
    LATE = "late"
    """It was delivered, or given up, too long after it had been observed."""


REPAIRABLE = (Difference.MISSING, Difference.WRONGLY_DROPPED)
"""What `replay` sends again; what was late or unexpected has been pushed already."""
UNJUDGED = "unjudged"
"""Counted beside the differences: nobody can say whether it was wanted, since its rule is known by a digest alone."""


class Gaps(NamedTuple):
    """Hours of arrival, such as `2026-11-20/16`, of which the lake lacks something: no comparison finds what is lost.

    `uncompacted` ones have the stream's files and no Parquet. Of `empty` ones there is nothing, be it that nothing
    happened or that it was lost; if there is `nothing` else either, the period can't be called healthy.
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
    compacted = {hour for hour in hours if _has(files, place, (*EventKind, UNREADABLE), hour)}
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
