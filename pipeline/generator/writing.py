"""Write rows into a lake without the stream, and say what of it is complete."""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipeline.columns import EventKind
from pipeline.lake.commits import Manifest, update
from pipeline.lake.event_lake import EventLake, hour_column
from pipeline.lake.parquet import DataFile
from pipeline.lake.schemas import SCHEMAS


def write_kind(lake: EventLake, kind: EventKind, rows: DataFrame) -> None:
    """Replace this kind in the hours of arrival that `rows` (the kind's schema, `day` and `hour`) has anything of."""
    in_schema = [F.col(each.name).cast(each.dataType) for each in SCHEMAS[kind].fields]
    for hour, files in lake.write_files(kind, rows.select(hour_column(), *in_schema)).items():
        update(lake.root, hour, partial(_with_kind, kind=kind, files=files))
    lake.view.refresh()


def _with_kind(manifest: Manifest, kind: str, files: tuple[DataFile, ...]) -> Manifest:
    return replace(manifest, kinds={**manifest.kinds, kind: files})


def hour_columns(instant: Column) -> tuple[Column, Column]:
    """`day` and `hour` for UNIX milliseconds."""
    time = F.timestamp_millis(instant)
    return F.date_format(time, "yyyy-MM-dd").alias("day"), F.date_format(time, "HH").alias("hour")


def declare_complete(root: str, hours: Iterable[str], now: int) -> None:
    """Say that what counts of these hours is all there is."""
    for hour in hours:
        update(root, hour, lambda known: replace(known, sealed_at=now, counted=known.lines))
