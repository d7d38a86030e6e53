"""How Spark reads and writes the rows of snapshots."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from functools import partial
from itertools import chain

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from pipeline.columns import file_name
from pipeline.lake.commits import data_folder, new_commit, read_manifests, update
from pipeline.lake.event_lake import EventLake
from pipeline.lake.parquet import WRITTEN, DataFile, write_parquet
from pipeline.lake.schemas import in_spark
from pipeline.lake.snapshots import SNAPSHOTS, snapshot_name
from pipeline.period import Period


def read_days(lake: EventLake, name: str, schema: StructType, days: Iterable[Period]) -> DataFrame:
    """The rows of all these days' snapshots."""
    found = read_manifests(lake.root, [snapshot_name(name, day) for day in days])
    return lake.read_files(f"{SNAPSHOTS}/{name}", schema, [file for each in found for file in each.files])


def write_day(  # noqa: PLR0913 - each by name
    lake: EventLake,
    name: str,
    day: Period,
    rows: DataFrame,
    now: int,
    *,
    unread: Mapping[str, int | None] | None = None,
) -> int:
    """Commit a day's snapshot, in the place of an earlier one, with files in the order of the partitions of `rows`.

    `unread` is as in `Manifest`.
    """
    home = snapshot_name(name, day)
    write = partial(_write_batches, root=lake.root, folder=data_folder(name, home, new_commit()))
    written = rows.toDF(*map(file_name, rows.columns)).mapInArrow(write, in_spark(WRITTEN)).collect()
    files = tuple(DataFile(*row) for row in written)
    update(lake.root, home, lambda known: replace(known, sealed_at=now, kinds={home: files}, unread=unread or {}))
    return sum(file.lines for file in files)


def _write_batches(batches: Iterable[pa.RecordBatch], root: str, folder: str) -> Iterator[pa.RecordBatch]:
    rows = (batch for batch in batches if batch.num_rows)
    if first := next(rows, None):
        yield pa.RecordBatch.from_pylist([asdict(write_parquet(root, folder, chain([first], rows)))], WRITTEN)
