"""How to read and write the lake. docs/lake.md describes it for people, `pipeline.schemas` its rows.

    events/day=2026-11-20/hour=16/…gz    what Firehose wrote, by the hour of its arrival: JSON lines of every kind
    <kind>/day=2026-11-20/hour=16/…      the same hour's lines of one kind as Parquet, made by `compact`
    <kind>/day=2026-11-20/hour=carried/… older lines that are still in force, written again: see `pipeline.carry`
    unreadable/day=…/hour=…/…            lines that are of no kind and version known here
    replays/run=<id>/…                   what `replay` has sent to the live system again

A line may be there twice and may arrive late. So readers ask for the hours from which they want rows up to now,
filter on the row's own time, and keep one row of each key.
"""

from dataclasses import dataclass

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType, TimestampType

from pipeline.period import Period, hour_path
from pipeline.schemas import PLAN, SCHEMAS, EventKind

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
        rows = rows if arrived is None else rows.where(has_hour(arrived))
        return rows.select(*SCHEMAS[kind].names)

    def read_dated(self, kind: EventKind) -> DataFrame:
        """All rows of a kind, with the `day` and `hour` that they lie under."""
        return self._parquet(kind, StructType([*SCHEMAS[kind].fields, *_DATED]))

    def files(self, kind: EventKind, arrived: Period) -> DataFrame:
        """`path` of each file of a kind, by hour of arrival: for tasks that read them themselves."""
        reader = self.spark.read.format("binaryFile").option("pathGlobFilter", "*.parquet")
        found = self._rows(reader, kind, _FILE)
        return found.where(has_hour(arrived)).select("path")

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


def has_hour(arrived: Period) -> Column:
    """For rows of the lake: whether their hour of arrival can hold something of this period."""
    hour = F.concat_ws("/", "day", "hour")
    return hour.between(F.lit(hour_path(arrived.start)), F.lit(hour_path(arrived.end - 1)))


def hour_columns(instant: Column) -> tuple[Column, Column]:
    """`day` and `hour` for UNIX milliseconds."""
    time = F.timestamp_millis(instant)
    return F.date_format(time, "yyyy-MM-dd").alias("day"), F.date_format(time, "HH").alias("hour")
