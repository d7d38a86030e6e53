"""Many small files of an hour become one: `watch` compacts every few minutes, and each time adds a file of each kind.

One commit names the new file in the place of the old ones, which stay for their readers until `vacuum` removes
them: so a reader never sees half a rewrite.
"""

from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from pipeline.lake.commits import CommitConflict, Kinds, Manifest, commit_or_discard, new_commit
from pipeline.lake.event_lake import EventLake
from pipeline.period import Period

if TYPE_CHECKING:
    from pipeline.lake.parquet import DataFile

MAX_SMALL_FILES = 16
"""Small files of a kind that an hour may have; one more and they are merged."""
SMALL_BYTES = 4 << 20
"""Below that a file is small. What they become is small again only where there is little in them."""


def merge_small_files(lake: EventLake, arrived: Period) -> None:
    """In those hours of arrival that have too many. Where another commit comes first, the next run does it."""
    hours = [hour for hour in lake.view.manifests(arrived) if small_files_to_merge(hour)]
    small: defaultdict[str, list[DataFile]] = defaultdict(list)
    for hour in hours:
        for kind, files in small_files_to_merge(hour).items():
            small[kind] += files
    written = {kind: lake.write_again(kind, files) for kind, files in small.items()}
    for hour in hours:
        merged = _merged(hour, written)
        new = {kind: by_hour.get(hour.hour, ()) for kind, by_hour in written.items()}
        with suppress(CommitConflict):
            commit_or_discard(lake.root, merged, hour.commit, new)
    lake.view.refresh()


def small_files_to_merge(hour: Manifest) -> Kinds:
    """The small files of those kinds that have too many."""
    small = {kind: tuple(file for file in files if file.bytes < SMALL_BYTES) for kind, files in hour.kinds.items()}
    return {kind: files for kind, files in small.items() if len(files) > MAX_SMALL_FILES}


def _merged(hour: Manifest, written: Mapping[str, Kinds]) -> Manifest:
    kinds = dict(hour.kinds)
    for kind, small in small_files_to_merge(hour).items():
        kinds[kind] = (*(file for file in hour.kinds[kind] if file not in small), *written[kind].get(hour.hour, ()))
    merged = replace(hour, commit=new_commit(), kinds=kinds)
    if merged.lines != hour.lines:
        raise RuntimeError(f"{hour.hour}: of {hour.lines} lines {merged.lines} were written")
    return merged
