"""How far each notification got, from a rule that asks for it to the provider that takes it. All is counted in one unit.

asked ──▶ wanted ──▶ queued ──▶ tried ──▶ delivered
"""

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from clarion.decisions import REACHED, NotificationDecision, Purpose
from pipeline.columns import NOTIFICATION_KEY
from pipeline.findings import REPAIRABLE, Difference
from pipeline.lake.dedup import judged_at
from pipeline.period import HOUR_MS, Period
from pipeline.reconciliation.wanted import REFUSALS

_OF_EACH = (*NOTIFICATION_KEY, "network", "channel")
_FLAGS = ("asked", "queued", "tried", "delivered", "lost", "unwanted")


def notifications(decided: DataFrame, tried: DataFrame, found: DataFrame | None, period: Period) -> DataFrame:
    """`hour, network, channel` and how many notifications got how far: `asked, wanted, queued, tried, delivered`.

    Each of these is a part of the one before. `asked`: a rule names the envelope and wants it; `wanted`: limits, caps and
    claims let it pass, or should have. `unwanted` were pushed, or queued for it, though they should not have been. The
    hour is that of the observation.
    """
    parts = [_decided(decided), _tried(tried), *([_wrong(found, period)] if found is not None else [])]
    each = (
        reduce(DataFrame.unionByName, parts)
        .groupBy(*NOTIFICATION_KEY)
        .agg(
            F.coalesce(F.min(F.when(F.col("lost") | F.col("unwanted"), F.col("at"))), F.min("at")).alias("at"),
            *(F.first(name, ignorenulls=True).alias(name) for name in ("network", "channel")),
            *(F.max(flag).alias(flag) for flag in _FLAGS),
        )
    )
    wanted = ~F.col("unwanted") & (F.col("queued") | F.col("tried") | F.col("lost"))
    reached = {
        "asked": F.col("asked") | F.col("unwanted") | wanted,
        "wanted": wanted,
        "queued": wanted & (F.col("queued") | F.col("tried")),
        "tried": wanted & F.col("tried"),
        "delivered": wanted & F.col("delivered"),
        "unwanted": F.col("unwanted"),
    }
    counts = [F.count_if(reaches).alias(name) for name, reaches in reached.items()]
    dated = each.where(period.has(F.col("at"))).withColumn("hour", full_hour())
    return dated.groupBy("hour", "network", "channel").agg(*counts).orderBy("hour", "network", "channel")


def _decided(decided: DataFrame) -> DataFrame:
    asked, queued = ~F.col("decision").isin(*REFUSALS), F.col("decision") == NotificationDecision.QUEUED
    return _flagged(decided, judged_at(), asked=asked, queued=queued)


def _tried(tried: DataFrame) -> DataFrame:
    """The pushes that are notifications. One that was sent again may have no decision beside it."""
    ours = tried.where(F.coalesce("purpose", F.lit(str(Purpose.NOTIFICATION))) == Purpose.NOTIFICATION)
    delivered = F.col("decision").isin(*map(str, REACHED))
    return _flagged(ours, F.col("at") - F.col("latency_ms"), tried=F.lit(True), delivered=delivered)


def _wrong(found: DataFrame, period: Period) -> DataFrame:
    """The differences that name a subscription. They are of this period, whenever they were decided."""
    lost = F.col("difference").isin(*map(str, REPAIRABLE))
    unwanted = F.col("difference") == Difference.UNEXPECTED
    return _flagged(found.where(F.col("subscription_id").isNotNull()), clamped_to(period), lost=lost, unwanted=unwanted)


def _flagged(rows: DataFrame, at: Column, **flags: Column) -> DataFrame:
    every = (flags.get(name, F.lit(False)).alias(name) for name in _FLAGS)
    return rows.select(*_OF_EACH, at.alias("at"), *every)


def clamped_to(period: Period) -> Column:
    """When a decision counts. One about what was observed in the period may be later than its end: its last instant."""
    return F.greatest(F.lit(period.start), F.least(F.col("at"), F.lit(period.end - 1)))


def full_hour() -> Column:
    """The full hour, in UNIX milliseconds."""
    return (F.floor(F.col("at") / HOUR_MS) * HOUR_MS).alias("hour")
