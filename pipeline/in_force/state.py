"""The last state of every subscription, rule and limit, from lines in any order.

Rows are spread by ranges of their key and sorted within, so that the files of them are sorted too. What was removed is
remembered for a while: a line from before may still arrive.
"""

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from pipeline.columns import REMOVED
from pipeline.in_force.rules import rule_changes
from pipeline.lake.schemas import RULE, SCHEMAS, EventKind
from pipeline.period import LATEST_MS
from pipeline.spark.frames import broadcast_if_few

STATES: dict[EventKind, StructType] = {
    EventKind.SUBSCRIPTION: StructType([*SCHEMAS[EventKind.SUBSCRIPTION].fields, StructField("ruled_at", LongType())]),
    EventKind.RULES: StructType([
        StructField("at", LongType()),
        StructField("change", StringType()),
        StructField("subscription_id", StringType()),
        StructField("generation", LongType()),
        StructField("revision", LongType()),
        *RULE.fields,
    ]),
    EventKind.LIMITS: SCHEMAS[EventKind.LIMITS],
}  # fmt: skip
"""A row for each subscription, with the time of its last change of rules; for each rule; for each network's limits."""


def as_states(lines: DataFrame, kind: EventKind) -> DataFrame:
    """Lines of the lake's kind, in the schema of `STATES`."""
    match kind:
        case EventKind.RULES:
            return rule_changes(lines)
        case EventKind.SUBSCRIPTION:
            return lines.withColumn("ruled_at", F.lit(None).cast("long"))
        case _:
            return lines


def last_subscriptions(states: DataFrame, ruled: DataFrame, end: int) -> DataFrame:
    """The last state of each subscription as of `end`, sorted by its id.

    `ruled` are `subscription_id, touched_at`, persisted, of those whose rules have changed since `states` were known.
    """
    both = states.join(broadcast_if_few(ruled), on="subscription_id", how="left")
    same = Window.partitionBy("subscription_id")
    gone = F.col("status") == REMOVED
    newest = same.orderBy(F.desc("revision"), F.desc("at"), F.desc("generation"), F.desc(gone))
    ranged = both.repartitionByRange("subscription_id")
    dated = ranged.withColumn("ruled_at", F.max(F.greatest("ruled_at", "touched_at")).over(same))
    return _remembered(_first(dated, newest), gone, end).select(*STATES[EventKind.SUBSCRIPTION].names)


def last_rules(states: DataFrame, owners: DataFrame, end: int) -> DataFrame:
    """The last state of each rule as of `end`, sorted by key.

    `owners` are `subscription_id, status, generation`, persisted, of the subscriptions that have changed since `states`
    were known, or whose rules have. Rules of an earlier generation than theirs, or of a removed one, are left out.
    """
    now = owners.select("subscription_id", F.struct("status", "generation").alias("now"))
    known = states.join(broadcast_if_few(now), on="subscription_id", how="left")
    may_count = (F.col("now.status") != REMOVED) & (F.col("generation") >= F.col("now.generation"))
    same = Window.partitionBy("key", "subscription_id", "generation")
    newest = same.orderBy(F.desc("revision"), F.desc("at"), F.desc("change"))
    ranged = known.where(F.col("now").isNull() | may_count).repartitionByRange("key", "subscription_id")
    return _remembered(_first(ranged, newest), F.col("change") == REMOVED, end).select(*STATES[EventKind.RULES].names)


def last_limits(states: DataFrame) -> DataFrame:
    """Those of each network."""
    last = F.max_by(F.struct(*(F.col(name) for name in states.columns)), "at").alias("last")
    return states.groupBy("network").agg(last).select("last.*").coalesce(1)


def _first(rows: DataFrame, order: WindowSpec) -> DataFrame:
    return rows.withColumn("place", F.row_number().over(order)).where(F.col("place") == 1)


def _remembered(last: DataFrame, removed: Column, end: int) -> DataFrame:
    """Without what was removed so long ago that no line from before can arrive any more."""
    return last.where(~removed | (F.col("at") >= end - LATEST_MS))
