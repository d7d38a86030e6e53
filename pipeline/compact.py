"""`compact`: turn the stream's many small files into Parquet, one folder for each kind and hour.

An hour is always made anew from all its raw lines, so running twice, or again after a late file, changes nothing else.
"""

from dataclasses import dataclass
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, StringType, StructField, StructType
from pyspark.storagelevel import StorageLevel

from pipeline.lake import PARTITIONS, RAW, UNREADABLE, EventLake, has_hour, write_hours
from pipeline.period import Period
from pipeline.schemas import RULE, SCHEMAS, VERSION, EventKind

_RULES = f"array<struct<{', '.join(f'{name}: string' for name in RULE.names)}>>"


@dataclass(frozen=True)
class Compacted:
    """Lines by kind; `unreadable` ones are kept apart, as text."""

    lines: dict[str, int]

    @property
    def unreadable(self) -> int:
        return self.lines.get(UNREADABLE, 0)


def compact(lake: EventLake, arrived: Period) -> Compacted:
    lines = with_kind(raw_lines(lake, arrived)).persist(StorageLevel.DISK_ONLY)
    try:
        counts = {row["kind"]: row["count"] for row in lines.groupBy("kind").count().collect()}
        for kind in EventKind:
            lake.write(kind, parsed(lines, kind))
        if UNREADABLE in counts:
            write_hours(unreadable(lines), lake.path(UNREADABLE))
    finally:
        lines.unpersist()
    return Compacted(counts)


def raw_lines(lake: EventLake, arrived: Period) -> DataFrame:
    """`value`, one line as text, with the hour it arrived in."""
    schema = StructType([StructField(name, StringType()) for name in ("value", *PARTITIONS)])
    lines = lake.spark.read.schema(schema).text(lake.path(RAW))
    return lines.where(has_hour(arrived)).where(F.length(F.trim("value")) > 0)


def with_kind(lines: DataFrame) -> DataFrame:
    """`kind`, an event's word or `unreadable`, with the parsed `line`, or its text (`value`) if it is unreadable."""
    read = lines.select("value", *PARTITIONS, F.try_parse_json("value").alias("line"))
    kind = F.coalesce(*(F.when(_is(kind), F.lit(str(kind))) for kind in EventKind), F.lit(UNREADABLE))
    apart = read.withColumn("kind", kind)
    text = F.when(F.col("kind") == UNREADABLE, F.col("value"))
    return apart.select("kind", "line", text.alias("value"), *PARTITIONS)


def parsed(lines: DataFrame, kind: EventKind) -> DataFrame:
    """The lines of one kind, in its schema."""
    contract = [_value(field).alias(field.name) for field in SCHEMAS[kind].fields]
    return lines.where(F.col("kind") == kind).select(*contract, *PARTITIONS)


def unreadable(lines: DataFrame) -> DataFrame:
    return lines.where(F.col("kind") == UNREADABLE).select("value", *PARTITIONS)


def _is(kind: EventKind) -> Column:
    """Whether a line says so, in the version known here, and has all that the kind's schema needs."""
    says_so = (_get("event", "string") == kind) & (_get("version", "int") == VERSION)
    return reduce(and_, (_value(field).isNotNull() for field in SCHEMAS[kind].fields if not field.nullable), says_so)


def _value(field: StructField) -> Column:
    """A field as the lake keeps it; in JSON, bytes are hex, and an envelope's are base64."""
    match field.dataType:
        case BinaryType() if field.name == "raw":
            return F.unbase64(F.translate(_get(field.name, "string"), "-_", "+/"))
        case BinaryType():
            return F.unhex(_get(field.name, "string"))
        case ArrayType():
            return F.transform(_get(field.name, _RULES), _rule)
        case kind:
            return _get(field.name, kind.simpleString())


def _get(name: str, kind: str) -> Column:
    return F.try_variant_get(F.col("line"), f"$.{name}", kind)


def _rule(rule: Column) -> Column:
    return F.struct(*(F.unhex(rule[name]).alias(name) for name in RULE.names))
