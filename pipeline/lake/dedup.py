"""Which line counts of those that the lake has of one thing: it may be decided, and written, more than once."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from clarion.decisions import NotificationDecision
from pipeline.columns import NOTIFICATION_KEY, REMOVED


def decided_once(notified: DataFrame) -> DataFrame:
    """One row for each receipt and subscription: what one line says was queued was queued; else the first line's."""
    queued_first = F.struct(F.col("decision") != NotificationDecision.QUEUED, "at")
    values = F.struct(*(name for name in notified.columns if name not in NOTIFICATION_KEY))
    return (
        notified.groupBy(*NOTIFICATION_KEY)
        .agg(F.min_by(values, queued_first).alias("whole"))
        .select(*NOTIFICATION_KEY, "whole.*")
    )


def last_decisions(envelopes: DataFrame) -> DataFrame:
    """The last of each receipt."""
    whole = F.max_by(F.struct(*envelopes.columns), "at").alias("last")
    return envelopes.groupBy("receipt").agg(whole).select("last.*")


def latest_subscriptions(changes: DataFrame) -> DataFrame:
    """Each subscription as its last change left it, in the lake's kind; removed ones included."""
    whole = F.struct(*(F.col(name) for name in changes.columns))
    last = F.max_by(whole, F.struct(*change_order())).alias("last")
    return changes.groupBy("subscription_id").agg(last).select("last.*")


def judged_at() -> Column:
    """The time that the limits judge a decision by."""
    return F.coalesce("judged_at", "at")


def change_order() -> tuple[Column, ...]:
    """Revisions order what clocks can't; changes of one revision go by their time, and a removal is the last one."""
    return F.col("revision"), F.col("at"), F.col("generation"), F.col("status") == REMOVED
