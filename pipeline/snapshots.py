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
from pipeline.files import listed, remove
from pipeline.lake import EventLake
from pipeline.period import DAY_MS, SNAPSHOT_DAYS, Period, hour_path, hour_start

SNAPSHOTS = "snapshots"
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
    """Remove the snapshots of more than `SNAPSHOT_DAYS` ago, if `monthly` all but the first of each month.

    Their manifests go last: a run that was stopped in between is finished by the next one.
    """
    old = [snapshot_name(name, day) for day in snapshot_days(root, name) if day.end < now - SNAPSHOT_DAYS * DAY_MS]
    over = [each for each in old if not (monthly and each.endswith("-01"))]
    remove(root, [file.path for each in read_manifests(root, over) for file in each.files])
    remove(root, map(manifest_path, over))


def _write_batches(batches: Iterable[pa.RecordBatch], root: str, folder: str) -> Iterator[pa.RecordBatch]:
    rows = (batch for batch in batches if batch.num_rows)
    if first := next(rows, None):
        yield pa.RecordBatch.from_pylist([asdict(write_parquet(root, folder, chain([first], rows)))])
