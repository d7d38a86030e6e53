"""Daily snapshots of what is in force, so that no job reads from the beginning of time.

    snapshot of a day ──┐
    lines since then ───┴─▶ known ─┬─▶ what a job asks for
                                   └─▶ the last states ──▶ snapshot of a later day

A snapshot has the last state of each subscription, rule or limit, by all lines that had arrived when its day ended. It
is sorted: rules by their keys, subscriptions by their ids. Whoever reads it reads with it the hours that were committed
since: what has arrived, and earlier hours that a late file has changed. A line that is there twice changes nothing.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial, reduce
from itertools import chain

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from pipeline.commits import (
    MANIFESTS,
    DataFile,
    Manifest,
    commit,
    data_folder,
    manifest_path,
    new_commit,
    read_manifest,
    write_parquet,
)
from pipeline.files import filesystem, joined, listed
from pipeline.lake import EventLake
from pipeline.period import DAY_MS, HOUR_MS, Period, hour_path, hour_start
from pipeline.rules import broadcast_if_few
from pipeline.schemas import EventKind
from pipeline.state import LATEST_MS, STATES, as_states, last_limits, last_rules, last_subscriptions

SNAPSHOTS = "snapshots"
GRACE_MS = HOUR_MS
"""What is judged by a snapshot comes so much later than its end: of what ended just before, it knows nothing more."""
SKEW_MS = 5_000
"""Between the clock of a job and that of S3."""
KEPT_DAYS = 35
"""So long each day's snapshot is kept; afterwards, only a month's first."""
_WRITTEN = "path string, lines long, bytes long, digest string"


def known(lake: EventLake, kind: EventKind, since: int, now: int) -> DataFrame:
    """What was in force at `since`, and all changes from then up to `now`, in the schema of `STATES`.

    There may be earlier changes among them, and lines more than once.
    """
    return _states(lake, kind, snapshot_before(lake.root, kind, since - GRACE_MS), now)


def write_snapshots(lake: EventLake, now: int) -> dict[str, int]:
    """Write those of the last day that has ended, unless they are there, and remove old ones; the rows by kind."""
    end = now // DAY_MS * DAY_MS
    day = _day(end - 1)
    missing = {kind: last for kind, last in _LAST.items() if day not in snapshot_days(lake.root, kind)}
    counts = {str(kind): _write(lake, kind, end, last) for kind, last in missing.items()}
    for kind in STATES:
        prune(lake.root, kind, end)
    return counts


def snapshot_before(root: str, kind: str, instant: int) -> Manifest | None:
    """The last one whose day had ended at `instant`."""
    days = [day for day in snapshot_days(root, kind) if _end(day) <= instant]
    return read_manifest(root, name_of(kind, days[-1])) if days else None


def snapshot_days(root: str, kind: str) -> list[str]:
    """Such as `2026-11-20`, in order."""
    paths = listed(root, f"{MANIFESTS}/{SNAPSHOTS}/{kind}")
    return sorted(path.rpartition("=")[2].removesuffix(".json") for path in paths)


def name_of(kind: str, day: str) -> str:
    """Of a manifest."""
    return f"{SNAPSHOTS}/{kind}/day={day}"


def prune(root: str, kind: str, now: int) -> None:
    """Remove the snapshots of more than `KEPT_DAYS` ago, but for the first of each month."""
    files, base = filesystem(root)
    old = (day for day in snapshot_days(root, kind) if _end(day) < now - KEPT_DAYS * DAY_MS)
    for name in (name_of(kind, day) for day in old if not day.endswith("-01")):
        snapshot = read_manifest(root, name)
        named = snapshot.files if snapshot else ()
        for path in (manifest_path(name), *(file.path for file in named)):
            files.delete_file(f"{base.rstrip('/')}/{path}")


def written(lake: EventLake, rows: DataFrame, folder: str) -> tuple[DataFile, ...]:
    """Write `rows` as new files of a folder, one for each partition that has any, in its order."""
    schema = to_arrow_schema(rows.schema)
    made = rows.mapInArrow(partial(_write_batches, root=lake.root, folder=folder, schema=schema), _WRITTEN)
    return tuple(DataFile(*row) for row in made.collect())


def read(lake: EventLake, files: Iterable[DataFile], schema: StructType) -> DataFrame:
    paths = [joined(lake.root, file.path) for file in files]
    return lake.spark.read.schema(schema).parquet(*paths) if paths else lake.spark.createDataFrame([], schema)


def committed_since(root: str, commit: str, hours: Period) -> Iterator[Period]:
    """Of the hours of arrival, those whose manifest was written after this commit had begun."""
    begun = made_at(commit) - SKEW_MS
    for day in range(hours.start // DAY_MS * DAY_MS, hours.end, DAY_MS):
        for path, info in listed(root, f"{MANIFESTS}/day={_day(day)}").items():
            start = hour_start(f"{_day(day)}/{path.rpartition('=')[2].removesuffix('.json')}")
            if hours.start <= start < hours.end and info.mtime_ns // 1_000_000 >= begun:
                yield Period(start, start + HOUR_MS)


def made_at(commit: str) -> int:
    """When a commit began, in UNIX milliseconds."""
    return int(datetime.strptime(commit.partition("-")[0], "%Y%m%dT%H%M%S").replace(tzinfo=UTC).timestamp()) * 1000


def _write(lake: EventLake, kind: EventKind, end: int, last: Callable[[EventLake, Manifest | None, int], DataFrame]) -> int:
    name, begun = name_of(kind, _day(end - 1)), new_commit()
    rows = last(lake, snapshot_before(lake.root, kind, end), end)
    files = written(lake, rows, data_folder(kind, name, begun))
    commit(lake.root, Manifest(name, begun, sealed_at=end, kinds={str(kind): files}), None)
    return sum(file.lines for file in files)


def _subscriptions(lake: EventLake, base: Manifest | None, end: int) -> DataFrame:
    ruled = _changes(lake, EventKind.RULES, base, end).groupBy("subscription_id").agg(F.max("at").alias("touched_at"))
    return last_subscriptions(_states(lake, EventKind.SUBSCRIPTION, base, end), ruled, end)


def _rules(lake: EventLake, base: Manifest | None, end: int) -> DataFrame:
    kinds = (EventKind.SUBSCRIPTION, EventKind.RULES)
    ids = (_changes(lake, kind, base, end).select("subscription_id") for kind in kinds)
    changed = reduce(DataFrame.unionByName, ids).distinct()
    now = snapshot_before(lake.root, EventKind.SUBSCRIPTION, end)
    owners = _rows(lake, EventKind.SUBSCRIPTION, now).join(broadcast_if_few(changed), on="subscription_id", how="leftsemi")
    return last_rules(_states(lake, EventKind.RULES, base, end), owners, end)


def _limits(lake: EventLake, base: Manifest | None, end: int) -> DataFrame:
    return last_limits(_states(lake, EventKind.LIMITS, base, end))


_LAST = {EventKind.SUBSCRIPTION: _subscriptions, EventKind.RULES: _rules, EventKind.LIMITS: _limits}
"""In this order: which rules count is a matter of their subscriptions."""


def _states(lake: EventLake, kind: EventKind, base: Manifest | None, until: int) -> DataFrame:
    return _rows(lake, kind, base).unionByName(_changes(lake, kind, base, until))


def _rows(lake: EventLake, kind: EventKind, snapshot: Manifest | None) -> DataFrame:
    return read(lake, snapshot.files if snapshot else (), STATES[kind])


def _changes(lake: EventLake, kind: EventKind, base: Manifest | None, until: int) -> DataFrame:
    """What has arrived since a snapshot; without one, from the beginning."""
    arrived = [Period(0, until)]
    if base:
        end = _end(base.hour.rpartition("=")[2])
        late = committed_since(lake.root, base.commit, Period(end - LATEST_MS, end))
        arrived = [Period(end, until), *late]
    lines = (as_states(lake.read(kind, period), kind) for period in arrived)
    return reduce(DataFrame.unionByName, lines)


def _write_batches(
    batches: Iterable[pa.RecordBatch], root: str, folder: str, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    rows = (batch.cast(schema) for batch in batches if batch.num_rows)
    first = next(rows, None)
    if first:
        file = write_parquet(root, folder, schema, chain([first], rows))
        yield pa.RecordBatch.from_pylist([asdict(file)])


def _day(instant: int) -> str:
    return hour_path(instant).partition("/")[0]


def _end(day: str) -> int:
    return hour_start(f"{day}/00") + DAY_MS
