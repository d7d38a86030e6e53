"""When each rule was in force: while its subscription had its generation, and a status in which rules are in force."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from clarion.decisions import SubscriptionStatus
from clarion.networks import NETWORKS, statuses_in_force
from pipeline.lake.dedup import change_order
from pipeline.period import FOREVER

CONDITION = ("condition", "condition_digest")
_RULE = ("subscription_id", "client_id", "channel", "key", *CONDITION)


def in_force(rules: DataFrame, subscriptions: DataFrame) -> DataFrame:
    """`subscription_id, client_id, channel, key, condition, condition_digest, since, until`.

    A row says that the rule was in force from `since` up to but without `until`, in UNIX milliseconds. `rules` are
    as `rule_changes` gives them, `subscriptions` are of the lake's kind.
    """
    both = rule_spans(rules).join(subscription_spans(subscriptions), on=["subscription_id", "generation"], how="inner")
    spans = both.select(
        *_RULE,
        F.greatest("rule_since", "subscription_since").alias("since"),
        F.least("rule_until", "subscription_until").alias("until"),
    )
    return spans.where(F.col("since") < F.col("until"))


def without_seams(spans: DataFrame) -> DataFrame:
    """What is `in_force`, those of one rule that follow without a gap as one.

    An event of a subscription that changes nothing of its rules, such as a new token, ends none; nor does another
    generation with the same.
    """
    of_rule = Window.partitionBy(*_RULE).orderBy("since", "until")
    before = F.max("until").over(of_rule.rowsBetween(Window.unboundedPreceding, -1))
    begins = F.coalesce(before < F.col("since"), F.lit(True)).cast("int")
    runs = spans.withColumn("begins", begins).withColumn("run", F.sum("begins").over(of_rule))
    joined = runs.groupBy(*_RULE, "run").agg(F.min("since").alias("since"), F.max("until").alias("until"))
    return joined.drop("run")


def rule_changes(changes: DataFrame) -> DataFrame:
    """The lake's kind `rules`, a row for each rule."""
    return changes.select("at", "change", "subscription_id", "generation", "revision", F.inline("rules"))


def rule_spans(changes: DataFrame) -> DataFrame:
    """From each addition of a rule, or of another condition, to the next change of it."""
    same_rule = Window.partitionBy("subscription_id", "generation", "key").orderBy("revision", "at", "change")
    until = F.lead("at", 1, FOREVER).over(same_rule)
    spans = changes.withColumn("rule_until", until).where(F.col("change") == "added")
    return spans.select(
        "subscription_id", "generation", "key", *CONDITION, F.col("at").alias("rule_since"), "rule_until"
    )


def subscription_spans(changes: DataFrame) -> DataFrame:
    """From each change that left a subscription with its rules in force to the next change."""
    until = F.lead("at", 1, FOREVER).over(Window.partitionBy("subscription_id").orderBy(*change_order()))
    spans = changes.withColumn("subscription_until", until).where(_has_rules_in_force())
    return spans.select(
        "subscription_id",
        "generation",
        "client_id",
        "channel",
        F.col("at").alias("subscription_since"),
        "subscription_until",
    )


def _has_rules_in_force() -> Column:
    """Of a subscription: whether its status is enough for its network."""
    of_pending = [name for name in NETWORKS if SubscriptionStatus.PENDING in statuses_in_force(name)]
    pending = (F.col("status") == SubscriptionStatus.PENDING) & F.col("network").isin(of_pending)
    return (F.col("status") == SubscriptionStatus.ACTIVE) | pending
