"""`watch`: reconcile what has just happened, so that a loss is known within minutes. The daily run decides.

    clock ──▶ batch: since, until ──▶ compact ──▶ reconcile what is overdue ──▶ emit what is not known yet
      │                                                                            │
      checkpoint: `until` is written before the batch,                             losses/day=…, a commit of the lake
                  and that it is done after it

A batch that was not finished is done again with the same `until`, by the same files of the lake or more. What it has
emitted already is known then, so each loss is emitted once, however often the stream is restarted: see decision 16.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import LongType, StructField, StructType

from clarion.clock import now_ms
from clarion.decisions import NotificationDecision
from clarion.metrics import NAMESPACE, Metric, dimensions
from pipeline.columns import NOTIFICATION_KEY, EventKind
from pipeline.compaction.compact import compact
from pipeline.findings import REPAIRABLE, Difference
from pipeline.lake.commits import Manifest, update
from pipeline.lake.event_lake import EventLake, with_home
from pipeline.lake.schemas import DIFFERENCE
from pipeline.lake.snapshots import day_of
from pipeline.period import CLOCK_SKEW_MS, DAY_MS, HOUR_MS, Period, arrivals, hour_path, hour_start, instant_text
from pipeline.reconciliation.reconcile import reconcile, size_of
from pipeline.spark.ending import JobStopped
from pipeline.spark.session import small_lake_settings
from pipeline.terms import Terms

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch import CloudWatchClient
    from mypy_boto3_cloudwatch.type_defs import DimensionTypeDef, MetricDatumTypeDef

LOSSES = "losses"
CHECKPOINT = "checkpoints/watch"
LATE_MS = 15 * 60_000
"""How long what was judged is judged again, as files may come late; the daily run judges what comes later."""
LONGEST_MS = 6 * HOUR_MS
"""What happened in a longer pause is left to the daily run."""
WATCH_CLAIM_LOOKBACK_MS = 2 * DAY_MS
"""Snapshots of claims that are older are not read: a batch of minutes would be busy with those of 45 days."""
STARTS = 5
UNSTARTED = "Python worker failed to connect back"
"""Spark gives the process of a Python source ten seconds to begin, which on a busy machine may be too few."""
OF_BATCH = "FOREACH_BATCH_USER_FUNCTION_ERROR"
"""What `Watch.judge` has raised. Whatever else a query ends with, it has met as it read or wrote its checkpoint."""
_WHY = (
    re.compile(r"^[\w.]*Error: (.+)$", re.MULTILINE),
    re.compile(r"^: [\w.$]+: (.+)$", re.MULTILINE),
    re.compile(r"terminated with exception: (.+?)(?: SQLSTATE.*)?$", re.MULTILINE),
)
"""In the trace of our source, in Java's, or in a query's own words."""
LOSS = StructType([*DIFFERENCE.fields, StructField("found_at", LongType())])
"""A difference that `replay` can repair, and the `until` of the batch that found it."""

type Offset = dict[str, int]


class Clock(DataSource):
    """A stream of one row for each batch. With the option `until` it stands still there, and the stream can end."""

    @classmethod
    def name(cls) -> str:
        return "clock"

    def schema(self) -> str:
        return "since long, until long"

    def simpleStreamReader(self, schema: StructType) -> SimpleDataSourceStreamReader:  # noqa: ARG002, N802 - Spark's
        return _ClockReader(self.options.get("until"))


class _ClockReader(SimpleDataSourceStreamReader):
    """An offset is an instant in UNIX milliseconds, up to which all has been judged.

    One that is ahead of the time was left by a run whose clock was: nothing would be judged until then. So it raises.
    """

    def __init__(self, until: str | None) -> None:
        self._until = until

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's
        return {"until": 0}

    def read(self, start: Offset) -> tuple[Iterator[tuple[int, int]], Offset]:
        now = int(self._until or now_ms())
        if start["until"] > now + CLOCK_SKEW_MS:
            came = instant_text(start["until"])
            raise ValueError(f"it has come to {came}, which is ahead of the time")
        end = {"until": max(start["until"], now)}
        return self.readBetweenOffsets(start, end), end

    def readBetweenOffsets(self, start: Offset, end: Offset) -> Iterator[tuple[int, int]]:  # noqa: N802 - Spark's
        # Spark copies the iterator, which a generator doesn't permit.
        return iter([(start["until"], end["until"])] if start != end else [])


class FoundLosses(NamedTuple):
    """What the batch up to `until` has emitted: how many losses, and when the first of them was decided or observed.

    What was observed before `left_before` and not judged yet is left to the daily run; None if there is no such pause.
    """

    until: int
    losses: int
    oldest: int | None
    left_before: int | None = None

    @property
    def oldest_s(self) -> int | None:
        """How long ago that was, in seconds."""
        return None if self.oldest is None else (self.until - self.oldest) // 1000


@dataclass(frozen=True)
class Watch:
    """Judges envelopes that were observed more than `overdue` milliseconds ago, and calls `on_batch` after each batch.

    By then everything that comes of an envelope should lie in the lake.
    """

    lake: EventLake
    terms: Terms
    overdue: int
    on_batch: Callable[[FoundLosses], None]

    def follow(self, *, every: int) -> None:
        """A batch every so many seconds, until somebody stops the query."""
        pause = f"{every} seconds"
        _run(lambda: self._judging().trigger(processingTime=pause).start(), StreamingQuery.awaitTermination)

    def run(self, until: int) -> None:
        """One batch, up to an instant; before it, one that was begun and not finished."""
        _run(lambda: self._judging(until=until).start(), StreamingQuery.processAllAvailable)

    def _judging(self, **clock: int) -> DataStreamWriter:
        spark = self.lake.spark
        spark.dataSource.register(Clock)
        spans = spark.readStream.format(Clock.name()).options(**clock).load()
        return spans.writeStream.foreachBatch(self._batch).option("checkpointLocation", self.lake.path(CHECKPOINT))

    def _batch(self, spans: DataFrame, _: int) -> None:
        for span in spans.collect():
            self.judge(Period(span["since"], span["until"]))

    def judge(self, span: Period) -> None:
        period = due(span, self.overdue)
        # Each hour is committed by itself, so that a batch that was cut off goes on after those that are.
        for hour in uncompacted(span, period):
            compact(self.lake, hour, span.end)
        with small_lake_settings(self.lake.spark, size_of(self.lake.view, period, span.end, self.terms)):
            emit(self.lake, losses(self.lake, period, span.end, self.terms), span.end)
        left_before = period.start if is_after_pause(span) else None
        self.on_batch(found(self.lake, span.end)._replace(left_before=left_before))


def _run(start: Callable[[], StreamingQuery], wait: Callable[[StreamingQuery], object]) -> None:
    """Start a query anew where its source has not begun in time.

    Raises `JobStopped` if it never does, and where the checkpoint lets it go no further.
    """
    for _ in range(STARTS):
        try:
            query = start()
            try:
                wait(query)
            finally:
                query.stop()
        except (StreamingQueryException, Py4JJavaError) as failed:
            if OF_BATCH in str(failed):
                raise
            if UNSTARTED not in str(failed):
                raise JobStopped(_of_checkpoint(str(failed))) from failed
        else:
            return
    raise JobStopped(f"in {STARTS} attempts Spark's source did not begin within ten seconds: the machine is too busy")


def _of_checkpoint(trace: str) -> str:
    found = filter(None, (each.search(trace) for each in _WHY))
    why = next((each[1] for each in found), trace.partition("\n")[0])
    return f"{CHECKPOINT} can't be read or written: {why}; unless that passes, remove it from the lake"


def is_after_pause(span: Period) -> bool:
    """So it is of the first batch, too."""
    return span.end - span.start > LONGEST_MS


def due(span: Period, overdue: int) -> Period:
    """When envelopes were observed that become overdue in a span of time, or did so shortly before."""
    start = span.end if is_after_pause(span) else span.start
    return Period(start - overdue - LATE_MS, span.end - overdue)


def uncompacted(span: Period, period: Period) -> Iterator[Period]:
    """The hours in which something may have arrived that is not compacted, and has a bearing on what is judged.

    After a pause these are all since yesterday began, which the daily run may have left: rules of then are in force.
    """
    start = day_of(span.end - DAY_MS).start if is_after_pause(span) else arrivals(period, span.end).start
    for hour in Period(start, span.end).hours():
        yield Period(hour_start(hour), hour_start(hour) + HOUR_MS)


def losses(lake: EventLake, period: Period, now: int, terms: Terms) -> DataFrame:
    """Of what differs, what seems to be lost. What has been tried once may be tried again, for hours.

    Whether a duplicate is one, a claim from before `WATCH_CLAIM_LOOKBACK_MS` may say: that is left to the daily run.
    """
    since = arrivals(period, now)
    differences = reconcile(lake, period, now, terms, WATCH_CLAIM_LOOKBACK_MS).differences
    repairable = differences.where(F.col("difference").isin(*map(str, REPAIRABLE)))
    tried = lake.read(EventKind.PUSH, since).select(*NOTIFICATION_KEY)
    dropped = lake.read(EventKind.NOTIFICATION, since).where(F.col("decision") == NotificationDecision.DUPLICATE)
    duplicates = dropped.select(*NOTIFICATION_KEY, F.lit(str(Difference.WRONGLY_DROPPED)).alias("difference"))
    untried = repairable.join(tried, on=list(NOTIFICATION_KEY), how="leftanti")
    return untried.join(duplicates, on=duplicates.columns, how="leftanti")


def emit(lake: EventLake, lost: DataFrame, now: int) -> None:
    """Commit those losses that are not known yet: if another commit comes first, by what is known then."""
    rows = lost.withColumn("found_at", F.lit(now)).persist()
    update(lake.root, losses_name(now), lambda known: _with_new(lake, known, rows, now))
    rows.unpersist()


def found(lake: EventLake, now: int) -> FoundLosses:
    """What the batch up to `now` has emitted."""
    rows = lake.read_named(losses_name(now), LOSS).where(F.col("found_at") == now)
    (row,) = rows.agg(F.count("*").alias("losses"), F.min("at").alias("oldest")).collect()
    return FoundLosses(now, row["losses"], row["oldest"])


def record(client: "CloudWatchClient", stage: str, found: FoundLosses) -> None:
    """A batch that is done again records the same count: the alarm goes by the maximum."""
    selected: list[DimensionTypeDef] = [
        {"Name": name, "Value": value} for name, value in dimensions("watch", stage).items()
    ]
    datum: MetricDatumTypeDef = {
        "MetricName": Metric.LOSSES_FOUND,
        "Dimensions": selected,
        "Value": found.losses,
        "Unit": "Count",
    }
    client.put_metric_data(Namespace=NAMESPACE, MetricData=[datum])


def losses_name(now: int) -> str:
    return f"{LOSSES}/day={hour_path(now)[:10]}"


def _with_new(lake: EventLake, known: Manifest, rows: DataFrame, now: int) -> Manifest:
    name = losses_name(now)
    same = (F.col(column).eqNullSafe(F.col(f"known_{column}")) for column in NOTIFICATION_KEY)
    new = rows.join(_emitted(lake, now), on=list(same), how="leftanti")
    files = lake.write_files(name, with_home(name, new.select(*LOSS.names))).get(name, ())
    return replace(known, sealed_at=now, kinds={name: (*known.kinds.get(name, ()), *files)})


def _emitted(lake: EventLake, now: int) -> DataFrame:
    """Of the day and the day before."""
    before, today = (lake.read_named(losses_name(at), LOSS) for at in (now - DAY_MS, now))
    return before.unionByName(today).select(*(F.col(column).alias(f"known_{column}") for column in NOTIFICATION_KEY))
