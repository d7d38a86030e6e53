"""How Spark reads and writes the lake. docs/lake.md describes it for people, `pipeline.lake.schemas` its rows.

A line may be there twice and may arrive late. So readers ask for the hours from which they want rows up to now,
filter on the row's own time, and keep one row of each key.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from itertools import chain, groupby
from operator import itemgetter

import pyarrow as pa
from pyarrow import compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from pipeline.columns import UNREADABLE, EventKind, file_name
from pipeline.lake.commits import (
    Kinds,
    LakeView,
    Manifest,
    data_folder,
    new_commit,
    read_manifest,
    read_manifests,
    update,
)
from pipeline.lake.files import joined
from pipeline.lake.parquet import WRITTEN, DataFile, write_parquet
from pipeline.lake.plans import REPLAYS, runs_since
from pipeline.lake.schemas import DIFFERENCE, PLAN, SCHEMAS, in_spark
from pipeline.lake.small_tables import write_tables
from pipeline.lake.snapshots import SNAPSHOTS, snapshot_name
from pipeline.period import EVER, Period

PARTITIONS = ("day", "hour")
DIFFERENCES = "differences"

_UNREADABLE = StructType([StructField("value", StringType())])
_DATED = [StructField(name, StringType()) for name in PARTITIONS]
_GLOB_CHARACTERS = re.compile(r"[][{}*?\\]")
HOME = "home"
"""The column of the hour or name that a row is written for."""
_WRITTEN = pa.schema([(HOME, pa.string()), *WRITTEN])


@dataclass(frozen=True)
class EventLake:
    """A lake at `root`: a path, or a URI that Spark can read.

    `oversize` is where envelopes lie that were too large for a message: what their `location` is below of.
    """

    spark: SparkSession
    root: str
    oversize: str | None = None

    @cached_property
    def view(self) -> LakeView:
        """What is committed, as all readers of this lake see it until it is refreshed."""
        return LakeView(self.root)

    def path(self, name: str) -> str:
        return joined(self.root, name)

    def read(self, kind: EventKind, arrived: Period = EVER) -> DataFrame:
        """The rows of a kind by hour of arrival, in its schema; duplicates included."""
        return self.read_files(kind, SCHEMAS[kind], self.view.files(kind, arrived))

    def file_paths(self, kind: EventKind, arrived: Period) -> DataFrame:
        """`path` of each file of a kind, by hour of arrival: for tasks that read them themselves."""
        return paths_frame(self.spark, [self.path(each.path) for each in self.view.files(kind, arrived)])

    def plans(self, since: int) -> DataFrame:
        """What `replay` has planned since then to send again, in `PLAN`."""
        return self.read_files(REPLAYS, PLAN, [file for run in runs_since(self.root, since) for file in run.files])

    def differences(self, period: Period) -> DataFrame | None:
        """What `reconcile` has found for exactly this period; None if it has not been asked."""
        found = read_manifest(self.root, differences_name(period))
        return self.read_commit(found, DIFFERENCE) if found else None

    def read_named(self, name: str, schema: StructType) -> DataFrame:
        """The rows that were committed under a name; none if there was no such commit."""
        return self.read_commit(read_manifest(self.root, name) or Manifest(name, ""), schema)

    def read_commit(self, found: Manifest, schema: StructType) -> DataFrame:
        """The rows of a commit of a name."""
        return self.read_files(found.hour, schema, found.kinds.get(found.hour, ()))

    def write_named(
        self,
        name: str,
        rows: DataFrame,
        sealed_at: int | None = None,
        tables: Mapping[str, pa.Table] | None = None,
        seen: Mapping[str, int | None] | None = None,
    ) -> None:
        """Commit `rows` under a name, and small `tables` with them, in the place of what was there.

        `seen` are the hours that they were made of: see `Manifest`.
        """
        kinds = {name: self.write_files(name, with_home(name, rows)).get(name, ())}
        kinds |= write_tables(self.root, name, tables or {})
        update(
            self.root,
            name,
            lambda known: replace(known, sealed_at=sealed_at, kinds={**known.kinds, **kinds}, seen=seen or {}),
        )

    def read_days(self, name: str, schema: StructType, days: Iterable[Period]) -> DataFrame:
        """The rows of all these days' snapshots of a name."""
        found = read_manifests(self.root, [snapshot_name(name, day) for day in days])
        return self.read_files(f"{SNAPSHOTS}/{name}", schema, [file for each in found for file in each.files])

    def write_day(
        self, name: str, day: Period, rows: DataFrame, now: int, unread: Mapping[str, int | None] | None = None
    ) -> int:
        """Commit a day's snapshot, in the place of an earlier one, with files in the order of the partitions of `rows`.

        Returns how many rows there are. `unread` is as in `Manifest`.
        """
        home = snapshot_name(name, day)
        write = partial(_write_partition, root=self.root, folder=data_folder(name, home, new_commit()))
        written = rows.toDF(*map(file_name, rows.columns)).mapInArrow(write, in_spark(WRITTEN)).collect()
        files = tuple(DataFile(*row) for row in written)
        update(self.root, home, lambda known: replace(known, sealed_at=now, kinds={home: files}, unread=unread or {}))
        return sum(file.lines for file in files)

    def write_files(self, kind: str, rows: DataFrame) -> Kinds:
        """Write `rows` by their `home`, an hour or a name; nothing counts until it is committed.

        The files have the size that adaptive execution aims at, instead of one for each task and hour. Tasks write
        them, each under its final name: so no output committer of Spark's has anything to rename, and what a task wrote
        that failed is named by no manifest.
        """
        renamed = rows.toDF(*map(file_name, rows.columns))
        together = renamed.hint("rebalance", HOME).sortWithinPartitions(HOME)
        write = partial(_write_batches, root=self.root, kind=kind, commit=new_commit())
        by_home: dict[str, list[DataFile]] = defaultdict(list)
        for home, *file in together.mapInArrow(write, in_spark(_WRITTEN)).collect():
            by_home[home].append(DataFile(*file))
        return {home: tuple(files) for home, files in by_home.items()}

    def read_unreadable(self, files: Sequence[DataFile]) -> DataFrame:
        """`value`, the text of each line, by its `home`."""
        rows = self.read_files(UNREADABLE, StructType([*_UNREADABLE.fields, *_DATED]), files)
        return rows.select(hour_column(), "value")

    def write_again(self, kind: str, files: Sequence[DataFile]) -> Kinds:
        """Write the rows of some files of a kind anew, by their hours: in as few files as `write_files` makes."""
        schema = _UNREADABLE if kind == UNREADABLE else SCHEMAS[EventKind(kind)]
        rows = self.read_files(kind, StructType([*schema.fields, *_DATED]), files)
        return self.write_files(kind, rows.select(hour_column(), *schema.names))

    def read_files(self, folder: str, schema: StructType, files: Sequence[DataFile]) -> DataFrame:
        if not files:
            # Of a table of Arrow's the optimizer knows that it is empty, and leaves out what would be joined with it.
            return self.spark.createDataFrame(to_arrow_schema(schema).empty_table(), schema)
        as_written = StructType([StructField(file_name(each.name), each.dataType) for each in schema])
        reader = self.spark.read.schema(as_written).option("basePath", self.path(folder))
        rows = reader.parquet(*(escape_glob(self.path(each.path)) for each in files))
        return rows.select(*as_written.names).toDF(*schema.names)


def differences_name(period: Period) -> str:
    return f"{DIFFERENCES}/from={period.start}/to={period.end}"


def with_home(name: str, rows: DataFrame) -> DataFrame:
    """`rows` for `write_files`, all under one name."""
    return rows.select(F.lit(name).alias(HOME), *rows.columns)


def hour_column() -> Column:
    """The hour of arrival, of rows with `day` and `hour`."""
    return F.concat_ws("/", *PARTITIONS).alias(HOME)


def escape_glob(path: str) -> str:
    """Escape the characters of a path that Spark takes for a pattern: a lake may lie in `[a]` or `{a}`.

    The option `DataSource.GLOB_PATHS_KEY` is no use: with it, each such path gives the files of all paths.
    """
    return _GLOB_CHARACTERS.sub(r"\\\g<0>", path)


def paths_frame(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """`path` of each file, which Spark packs into tasks by their sizes and does not open."""
    if not paths:
        return spark.createDataFrame(pa.schema([("path", pa.string())]).empty_table())
    return spark.read.format("binaryFile").load(list(map(escape_glob, paths))).select("path")


def _write_batches(batches: Iterable[pa.RecordBatch], root: str, kind: str, commit: str) -> Iterator[pa.RecordBatch]:
    """Each home's rows, which come together, into a file of its own."""
    slices = chain.from_iterable(map(_by_home, batches))
    for home, rows in groupby(slices, itemgetter(0)):
        file = write_parquet(root, data_folder(kind, home, commit), map(itemgetter(1), rows))
        yield pa.RecordBatch.from_pylist([{HOME: home, **asdict(file)}], _WRITTEN)


def _write_partition(batches: Iterable[pa.RecordBatch], root: str, folder: str) -> Iterator[pa.RecordBatch]:
    """The rows of a task into one file; none if it has no rows."""
    rows = (batch for batch in batches if batch.num_rows)
    if first := next(rows, None):
        yield pa.RecordBatch.from_pylist([asdict(write_parquet(root, folder, chain([first], rows)))], WRITTEN)


def _by_home(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    runs = pc.run_end_encode(batch.column(HOME))
    rows = batch.drop_columns([HOME])
    start = 0
    for home, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        yield home, rows.slice(start, end - start)
        start = end
