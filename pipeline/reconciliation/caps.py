"""What a subscription's cap says of the decisions for it."""

from functools import reduce
from operator import and_, or_

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from clarion.decisions import NotificationDecision
from clarion.limiter import Limit
from pipeline.columns import NOTIFICATION_KEY
from pipeline.in_force.limits import LimitHistory, LimitSpan
from pipeline.period import FOREVER
from pipeline.spark.frames import broadcast_if_few


def with_caps(compared: DataFrame, limits: LimitHistory) -> DataFrame:
    """The comparisons with `full`, whether a capped one may rightly be, and `overfull`, whether a queued one is too many.

    Both are looked for only where a subscription has enough decisions for either. A worker knows of all that was queued
    or less, so a cap that comes too late is right up to twice its count. Next to a change, any of two caps will do.
    """
    caps = sorted(limits.caps, key=lambda cap: (cap.count, cap.window))
    queued = F.count_if(F.col("found") == NotificationDecision.QUEUED)
    decided = compared.where(F.col("found").isNotNull()).select(
        *NOTIFICATION_KEY, "network", "found", "at", "judged_at"
    )
    busy = decided.groupBy("subscription_id").agg(queued.alias("queued")).where(F.col("queued") >= caps[0].count)
    by_time = Window.partitionBy("subscription_id").orderBy("judged_at")
    counted = decided.join(F.broadcast(busy), on="subscription_id", how="leftsemi")
    for number, cap in enumerate(caps):
        counted = counted.withColumn(f"near_{number}", queued.over(by_time.rangeBetween(1 - cap.window, 0)))
    full, overfull = [], []
    for number, cap in enumerate(caps):
        near, applies = F.col(f"near_{number}"), _applies(limits, cap)
        full.append(applies & (F.max(near).over(by_time.rangeBetween(0, cap.window - 1)) >= cap.count))
        overfull.append(~applies | (near > 2 * cap.count))
    looked_at = counted.select(
        *NOTIFICATION_KEY, reduce(or_, full).alias("full"), reduce(and_, overfull).alias("overfull")
    )
    capped = looked_at.where(F.col("full") | F.col("overfull")).persist()
    return compared.join(broadcast_if_few(capped), on=list(NOTIFICATION_KEY), how="left").fillna(
        False, ["full", "overfull"]
    )


def _applies(history: LimitHistory, cap: Limit) -> Column:
    """For rows with `network` and `at`: whether this cap was in force then, or nearly."""
    near = (
        (F.col("network") == name) & F.col("at").between(span.since - history.grace, _last_near(span, history.grace))
        for name, spans in history.spans.items()
        for span in spans
        if span.cap == cap
    )
    return reduce(or_, near, F.lit(False))


def _last_near(span: LimitSpan, grace: int) -> int:
    """The last instant that is near a span, without overflowing."""
    return span.until if span.until == FOREVER else span.until + grace - 1
