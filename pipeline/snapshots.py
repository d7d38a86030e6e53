"""Snapshots by day: what a job would otherwise have to put together from all days before.

    snapshots/<name>/day=2026-11-20/commit=<id>/….parquet   sorted, a commit of that name: see `pipeline.commits`

`pipeline.known` keeps those of what is in force, `pipeline.claims` those of claims.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from functools import partial
from itertools import chain

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from pipeline.columns import file_name
from pipeline.commits import (
    MANIFESTS,
    DataFile,
    Manifest,
    data_folder,
    manifest_path,
    new_commit,
    read_manifest,
    read_manifests,
    update,
    write_parquet,
)
from pipeline.files import filesystem, listed
from pipeline.lake import EventLake
from pipeline.period import DAY_MS, Period, hour_path, hour_start

SNAPSHOTS = "snapshots"
KEPT_DAYS = 50
"""So long each day's snapshot is kept: claims may be looked for over 45 days."""
_WRITTEN = "path string, lines long, bytes long, digest string"


def day_of(instant: int) -> Period:
    start = instant // DAY_MS * DAY_MS
    return Period(start, start + DAY_MS)


def snapshot_name(name: str, day: Period) -> str:
    return f"{SNAPSHOTS}/{name}/day={hour_path(day.start)[:10]}"


def snapshot_days(root: str, name: str) -> list[Period]:
    """Those that have a snapshot, in order."""
    paths = listed(root, f"{MANIFESTS}/{SNAPSHOTS}/{name}")
    return [day_of(hour_start(f"{path.rpartition('=')[2].removesuffix('.json')}/00")) for path in sorted(paths)]


def read_snapshot(root: str, name: str, day: Period) -> Manifest | None:
    return read_manifest(root, snapshot_name(name, day))


def made_at(root: str, name: str, day: Period) -> int:
    """Nothing that was compacted after that is in the snapshot; UNIX milliseconds."""
    found = read_snapshot(root, name, day)
    return (found.sealed_at or 0) if found else 0


def read_days(lake: EventLake, name: str, schema: StructType, days: Iterable[Period]) -> DataFrame:
    """The rows of all these days' snapshots."""
    found = read_manifests(lake.root, [snapshot_name(name, day) for day in days])
    return lake.read_files(f"{SNAPSHOTS}/{name}", schema, [file for each in found for file in each.files])


def write_day(lake: EventLake, name: str, day: Period, rows: DataFrame, now: int) -> int:
    """Commit a day's snapshot, in the place of an earlier one, with files in the order of the partitions of `rows`."""
    home = snapshot_name(name, day)
    write = partial(_write_batches, root=lake.root, folder=data_folder(name, home, new_commit()))
    written = rows.toDF(*map(file_name, rows.columns)).mapInArrow(write, _WRITTEN).collect()
    files = tuple(DataFile(*row) for row in written)
    update(lake.root, home, lambda known: replace(known, sealed_at=now, kinds={home: files}))
    return sum(file.lines for file in files)


def prune(root: str, name: str, now: int, *, monthly: bool) -> None:
    """Remove the snapshots of more than `KEPT_DAYS` ago, if `monthly` all but the first of each month."""
    old = [day for day in snapshot_days(root, name) if day.end < now - KEPT_DAYS * DAY_MS]
    files, base = filesystem(root)
    for day in old:
        if monthly and snapshot_name(name, day).endswith("-01"):
            continue
        found = read_snapshot(root, name, day)
        named = [file.path for file in found.files] if found else []
        for path in (manifest_path(snapshot_name(name, day)), *named):
            files.delete_file(f"{base.rstrip('/')}/{path}")


def _write_batches(batches: Iterable[pa.RecordBatch], root: str, folder: str) -> Iterator[pa.RecordBatch]:
    rows = (batch for batch in batches if batch.num_rows)
    if first := next(rows, None):
        yield pa.RecordBatch.from_pylist([asdict(write_parquet(root, folder, chain([first], rows)))])
