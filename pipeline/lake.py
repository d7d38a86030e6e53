"""How to read and write the lake. docs/lake.md describes it for people, `pipeline.schemas` its rows.

    events/day=2026-11-20/hour=16/…gz    what Firehose wrote, by the hour of its arrival: JSON lines of every kind
    <kind>/day=2026-11-20/hour=16/…      the same hour's lines of one kind as Parquet, made by `compact`
    <kind>/day=2026-11-20/hour=carried/… older lines that are still in force, written again: see `pipeline.carry`
    unreadable/day=…/hour=…/…            lines that are of no kind and version known here
    replays/run=<id>/…                   what `replay` has sent to the live system again

A line may be there twice and may arrive late. So readers ask for the hours from which they want rows up to now,
filter on the row's own time, and keep one row of each key.
"""

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pyarrow import fs
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType, TimestampType

from pipeline.schemas import PLAN, SCHEMAS, EventKind

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
FOREVER = (1 << 63) - 1
"""The end of what has not ended."""
PARTITIONS = ("day", "hour")
RAW = "events"
UNREADABLE = "unreadable"
REPLAYS = "replays"
DIFFERENCES = "differences"

_DATED = [StructField(name, StringType()) for name in PARTITIONS]
_FILE = StructType([
    StructField("path", StringType()),
    StructField("modificationTime", TimestampType()),
    StructField("length", LongType()),
    StructField("content", BinaryType()),
    *_DATED,
])  # fmt: skip
"""What Spark knows of a file, whose content it only reads if that is asked for."""


@dataclass(frozen=True)
class Period:
    """From `start` up to but without `end`, in UNIX milliseconds."""

    start: int
    end: int

    def has(self, instant: Column) -> Column:
        return (instant >= self.start) & (instant < self.end)

    def has_hour(self) -> Column:
        """For rows of the lake: whether their hour of arrival can hold something of this period."""
        arrived = F.concat_ws("/", "day", "hour")
        return arrived.between(F.lit(hour_path(self.start)), F.lit(hour_path(self.end - 1)))

    def __str__(self) -> str:
        return f"{instant_text(self.start)} to {instant_text(self.end)}"


@dataclass(frozen=True)
class EventLake:
    """A lake at `root`: a path, or a URI that Spark can read.

    `oversize` is where envelopes lie that were too large for a message: what their `location` is below of.
    """

    spark: SparkSession
    root: str
    oversize: str | None = None

    def path(self, name: str) -> str:
        return f"{self.root.rstrip('/')}/{name}"

    def read(self, kind: EventKind, arrived: Period | None = None) -> DataFrame:
        """The rows of a kind by hour of arrival, in its schema; duplicates included."""
        rows = self.read_dated(kind)
        rows = rows if arrived is None else rows.where(arrived.has_hour())
        return rows.select(*SCHEMAS[kind].names)

    def read_dated(self, kind: EventKind) -> DataFrame:
        """All rows of a kind, with the `day` and `hour` that they lie under."""
        return self._parquet(kind, StructType([*SCHEMAS[kind].fields, *_DATED]))

    def files(self, kind: EventKind, arrived: Period) -> DataFrame:
        """`path` of each file of a kind, by hour of arrival: for tasks that read them themselves."""
        reader = self.spark.read.format("binaryFile").option("pathGlobFilter", "*.parquet")
        found = self._rows(reader, kind, _FILE)
        return found.where(arrived.has_hour()).select("path")

    def plans(self) -> DataFrame:
        """All that `replay` has planned to send again, in `PLAN`."""
        return self._parquet(REPLAYS, PLAN)

    def differences_path(self, period: Period) -> str:
        return self.path(f"{DIFFERENCES}/from={period.start}/to={period.end}")

    def differences(self, period: Period) -> DataFrame | None:
        """What `reconcile` has found for exactly this period; None if it has not been asked."""
        try:
            return self.spark.read.parquet(self.differences_path(period))
        except AnalysisException as error:
            if error.getCondition() != "PATH_NOT_FOUND":
                raise
            return None

    def write(self, kind: EventKind, rows: DataFrame) -> None:
        """Replace the hours of arrival that `rows` (the kind's schema, `day` and `hour`) has anything of."""
        contract = [F.col(field.name).cast(field.dataType) for field in SCHEMAS[kind].fields]
        write_hours(rows.select(*contract, *PARTITIONS), self.path(kind))

    def _parquet(self, name: str, schema: StructType) -> DataFrame:
        return self._rows(self.spark.read.format("parquet"), name, schema)

    def _rows(self, reader: DataFrameReader, name: str, schema: StructType) -> DataFrame:
        """A folder's rows; none if nothing has been written there yet."""
        try:
            return reader.schema(schema).load(self.path(name))
        except AnalysisException as error:
            if error.getCondition() != "PATH_NOT_FOUND":
                raise
            return self.spark.createDataFrame([], schema)


def write_hours(rows: DataFrame, path: str, mode: str = "overwrite") -> None:
    """Write by hour, in files of the size that adaptive execution aims at, instead of one for each task and hour."""
    rows.hint("rebalance", *PARTITIONS).write.mode(mode).partitionBy(*PARTITIONS).parquet(path)


def write_text(target: str, text: str) -> None:
    """To a path or URI, as one file."""
    files, path = filesystem(target)
    files.create_dir(path.rpartition("/")[0])
    with files.open_output_stream(path) as stream:
        stream.write(text.encode())


def read_text(source: str) -> str | None:
    """None if there is no such file."""
    files, path = filesystem(source)
    try:
        with files.open_input_stream(path) as stream:
            return str(stream.read(), "utf-8")
    except FileNotFoundError:
        return None


def exists(place: str) -> bool:
    """Whether there is anything at a path or URI; an empty bucket is something."""
    files, path = filesystem(place)
    return bool(files.get_file_info(path).type != fs.FileType.NotFound)


def filesystem(place: str) -> tuple[fs.FileSystem, str]:
    """PyArrow wants absolute paths, and knows as `s3` what Hadoop may call `s3a`; Hadoop's `file:/…` is no URI to it.

    Where it isn't told the bucket's region, it would ask S3 for it each time.
    """
    path = place.removeprefix("file:")
    uri = path.replace("s3a://", "s3://", 1) if "://" in path else str(Path(path).absolute())
    if uri.startswith("s3://") and (region := os.environ.get("AWS_DEFAULT_REGION")):
        uri = f"{uri}?region={region}"
    found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(uri)
    return found


def hour_columns(instant: Column) -> tuple[Column, Column]:
    """`day` and `hour` for UNIX milliseconds."""
    time = F.timestamp_millis(instant)
    return F.date_format(time, "yyyy-MM-dd").alias("day"), F.date_format(time, "HH").alias("hour")


def hour_path(instant: int) -> str:
    """Such as `2026-11-20/16`; sorts like time."""
    return datetime.fromtimestamp(instant / 1000, UTC).strftime("%Y-%m-%d/%H")


def instant_text(instant: int) -> str:
    return datetime.fromtimestamp(instant / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
