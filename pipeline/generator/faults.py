"""Plant faults into a healthy day, and write down what should be found."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from clarion.decisions import NotificationDecision
from pipeline.columns import NOTIFICATION_KEY
from pipeline.findings import Difference
from pipeline.generator.live import GENUINE
from pipeline.generator.plan import Plan
from pipeline.generator.traffic import EARLIER, FLOOD, OF_FLOODS
from pipeline.terms import Terms

STEADY_MS = 60_000
"""Faults keep this far from every change of rules, where nobody can say what is right."""
LATE_MS = 300_000


def with_faults(notified: DataFrame, plan: Plan) -> DataFrame:
    """The notifications with the `fault` that befalls each, if any; some healthy ones are not what they should be.

    A fault is of a notification that would have been queued, was shown once and belongs to no flood, so that it
    disturbs nothing else; and one of each flood's refused notifications is pushed nevertheless.
    """
    clean = (
        (F.col("decision") == NotificationDecision.QUEUED)
        & ~F.col("flood") & ~F.col("shown_twice") & F.col("dies_at").isNull() & steady()
    )  # fmt: skip
    throw = plan.dice("fault", "m", "sub")
    fault = F.when(clean & (plan.dice("misjudged", "m") < plan.faults.misjudged), F.lit("misjudged"))
    top = 0
    for name in ("lost", "undecided", "limited", "late"):
        share = getattr(plan.faults, name)
        fault = fault.when(clean & throw.between(top, top + share - 1), F.lit(name))
        top += share
    again = (F.col("decision") == NotificationDecision.DUPLICATE) & steady() & F.col("dies_at").isNull()
    fault = fault.when(again & (throw < plan.faults.repeated), F.lit("repeated"))
    ended = (F.col("m") >= EARLIER) & (F.col("copy") > 0) & (F.col("decision") == NotificationDecision.QUEUED)
    fault = fault.when(
        ended & steady() & F.col("dies_at").isNull() & (throw < plan.faults.outstayed), F.lit("outstayed")
    )
    return notified.withColumn("fault", fault.when(_overruns(plan), F.lit("overrun")))


def intruders(wanted: DataFrame, plan: Plan) -> DataFrame:
    """Pushes that nothing bears out: of forged statements, and for rules that were gone."""
    alone = ~F.col("outage") & F.col("dies_at").isNull() & F.col("flips_at").isNull() & (F.col("copy") == 0)
    throw = plan.dice("intruder", "m", "sub")
    forged = (F.col("kind") == "forged") & F.col("until").isNull() & (F.col("since") < F.col("decided_at") - STEADY_MS)
    outlived = F.col("kind").isin(*GENUINE) & ~F.col("flood") & (F.col("until") < F.col("decided_at") - STEADY_MS)
    fault = F.when(forged & (throw < plan.faults.forged), F.lit("forged")).when(
        outlived & (throw < plan.faults.outlived), F.lit("outlived")
    )
    return wanted.where(alone).withColumn("fault", fault).where(F.col("fault").isNotNull())


def answers(with_faults: DataFrame, intruding: DataFrame, missed: DataFrame) -> DataFrame:
    """`receipt, subscription_id, difference`: all that a reconciliation should find."""
    planted = with_faults.unionByName(intruding, allowMissingColumns=True).where(F.col("fault").isNotNull())
    differences = F.create_map(*(F.lit(part) for pair in _DIFFERENCES.items() for part in pair))
    found = planted.select(*NOTIFICATION_KEY, differences[F.col("fault")].alias("difference"))
    return found.unionByName(missed.select(*NOTIFICATION_KEY, F.lit(str(Difference.MISSING)).alias("difference")))


def missed(wanted: DataFrame, answered: DataFrame) -> DataFrame:
    """What the outage swallowed, unless another showing is among the notifications `answered`."""
    certain = steady("observed_at", Terms().grace)
    swallowed = wanted.where(F.col("outage") & F.col("kind").isin(*GENUINE) & certain)
    first = swallowed.groupBy("m", "sub").agg(F.min_by(F.struct(*NOTIFICATION_KEY), "copy").alias("who"))
    return first.join(answered, on=["m", "sub"], how="leftanti").select("who.*")


def of(*names: str) -> Column:
    """Whether one of these faults befalls it."""
    return F.coalesce(F.col("fault").isin(*names), F.lit(False))


def tried(notified: DataFrame) -> DataFrame:
    """What was queued by the recorded `decision`, and tried, with the `delay` of what is late."""
    goes_out = (F.col("decision") == NotificationDecision.QUEUED) & ~of("lost", "undecided", "misjudged")
    return notified.where(goes_out).withColumn("delay", F.when(of("late"), LATE_MS).otherwise(0))


def steady(when: str = "decided_at", distance: int = STEADY_MS) -> Column:
    """Whether the rule was in force so many milliseconds before and after the time in column `when`."""
    at = F.col(when)
    ends = F.coalesce(F.least("until", "invalid_at"), at + 2 * distance)
    far = F.col("flips_at").isNull() | (F.abs(F.col("flips_at") - at) > distance)
    return (F.col("since") <= at - distance) & (ends > at + distance) & far


def _overruns(plan: Plan) -> Column:
    """The last notification of a flood, for the first of its subscriptions, if it was over the limit."""
    refused = F.col("decision") == NotificationDecision.RATE_LIMITED
    last = refused & F.col("flood") & ((F.col("m") + 1 - OF_FLOODS) % FLOOD == 0) & (F.col("sub") % 2 == 0)
    return last & F.lit(plan.faults.overrun)


_DIFFERENCES = {
    "lost": str(Difference.MISSING),
    "undecided": str(Difference.MISSING),
    "limited": str(Difference.WRONGLY_DROPPED),
    "misjudged": str(Difference.WRONGLY_DROPPED),
    "outstayed": str(Difference.WRONGLY_DROPPED),
    "late": str(Difference.LATE),
    "repeated": str(Difference.UNEXPECTED),
    "overrun": str(Difference.UNEXPECTED),
    "forged": str(Difference.UNEXPECTED),
    "outlived": str(Difference.UNEXPECTED),
    "unwanted": str(Difference.UNEXPECTED),
}
