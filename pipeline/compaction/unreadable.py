"""Read the unreadable lines again, as a later release may; or leave them out for good."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.storagelevel import StorageLevel

from pipeline.columns import UNREADABLE
from pipeline.compaction.compact import rows_of, sealed_anew, with_kind
from pipeline.lake.commits import Kinds, Manifest, commit_or_discard, discard, merged, new_commit, write_links
from pipeline.lake.event_lake import EventLake
from pipeline.lake.parquet import DataFile
from pipeline.period import Period

DROPPED = "dropped"
"""In place of a kind: the lines that were removed."""


def read_again_or_drop(lake: EventLake, arrived: Period, now: int, *, drop: bool) -> Mapping[str, int]:
    """Commit as what they are the lines of these hours that could not be read; or `drop` them. How many, by kind.

    An hour that has changed is sealed anew: so a day that was judged by it is judged again. Raises `CommitConflict`.
    """
    total: Counter[str] = Counter()
    for hour in lake.view.manifests(arrived):
        if files := hour.kinds.get(UNREADABLE):
            read = {} if drop else _read_again(lake, hour.hour, files)
            counted = {DROPPED: files} if drop else read
            total.update({kind: sum(each.lines for each in some) for kind, some in counted.items()})
            if read.keys() == {UNREADABLE}:
                discard(lake.root, replace(hour, kinds=read))
            else:
                _commit(lake.root, hour, read, now)
    lake.view.refresh()
    return total


def _read_again(lake: EventLake, hour: str, files: Sequence[DataFile]) -> Kinds:
    lines = with_kind(lake.read_unreadable(files)).persist(StorageLevel.DISK_ONLY)
    try:
        kinds = {row["kind"] for row in lines.select("kind").distinct().collect()}
        return {kind: lake.write_files(kind, rows_of(lines, kind))[hour] for kind in sorted(kinds)}
    finally:
        lines.unpersist()


def _commit(root: str, hour: Manifest, read: Kinds, now: int) -> None:
    """Lines that are dropped count as erased, or the hour would seem emptier than its counter says."""
    others = {kind: files for kind, files in hour.kinds.items() if kind != UNREADABLE}
    new = replace(hour, commit=new_commit(), sealed_at=sealed_anew(hour, now), kinds=merged(others, read))
    if not read:
        new = replace(new, erased=hour.arrived - new.lines)
    if new.arrived != hour.arrived:
        raise RuntimeError(f"{hour.hour}: of {hour.arrived} lines {new.arrived} were written")
    commit_or_discard(root, new, hour.commit, read)
    write_links(root, hour.hour, [UNREADABLE])
