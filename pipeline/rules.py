"""When each rule was in force, from the changes of rules and of subscriptions.

A rule counts while it is in the generation that its subscription has, and the subscription is active.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from clarion.decisions import SubscriptionStatus

REMOVED = "removed"
FOREVER = (1 << 63) - 1
PAIR = ("sender", "topic")


def in_force(rules: DataFrame, subscriptions: DataFrame) -> DataFrame:
    """`subscription_id, client_id, channel, sender, topic, wanted, since, until`.

    A row says that the rule was in force from `since` up to but without `until`, in UNIX milliseconds. `rules` are
    as `rule_changes` gives them, `subscriptions` are of the lake's kind.
    """
    both = rule_spans(rules).join(subscription_spans(subscriptions), on=["subscription_id", "generation"], how="inner")
    spans = both.select(
        "subscription_id",
        "client_id",
        "channel",
        *PAIR,
        "wanted",
        F.greatest("rule_since", "subscription_since").alias("since"),
        F.least("rule_until", "subscription_until").alias("until"),
    )
    return spans.where(F.col("since") < F.col("until"))


def rule_changes(changes: DataFrame) -> DataFrame:
    """The lake's kind `rules`, a row for each rule."""
    one = F.inline("rules")
    return changes.select("at", "change", "subscription_id", "generation", "revision", one)


def rule_spans(changes: DataFrame) -> DataFrame:
    """From each addition of a rule to the next word about it."""
    same_rule = Window.partitionBy("subscription_id", "generation", *PAIR).orderBy("revision", "at", "change")
    until = F.lead("at", 1, FOREVER).over(same_rule)
    spans = changes.withColumn("rule_until", until).where(F.col("change") == "added")
    return spans.select(
        "subscription_id", "generation", *PAIR, "wanted", F.col("at").alias("rule_since"), "rule_until"
    )


def subscription_spans(changes: DataFrame) -> DataFrame:
    """From each change that left a subscription active to the next change."""
    until = F.lead("at", 1, FOREVER).over(Window.partitionBy("subscription_id").orderBy(*_in_order()))
    spans = changes.withColumn("subscription_until", until).where(F.col("status") == SubscriptionStatus.ACTIVE)
    return spans.select(
        "subscription_id",
        "generation",
        "client_id",
        "channel",
        F.col("at").alias("subscription_since"),
        "subscription_until",
    )


def latest_subscriptions(changes: DataFrame) -> DataFrame:
    """Each subscription as its last change left it, in the lake's kind; removed ones included."""
    whole = F.struct(*(F.col(name) for name in changes.columns))
    last = F.max_by(whole, F.struct(*_in_order())).alias("last")
    return changes.groupBy("subscription_id").agg(last).select("last.*")


def _in_order() -> tuple[Column, ...]:
    """Revisions order what clocks can't; words of one revision go by their time, and a removal is the last one."""
    return F.col("revision"), F.col("at"), F.col("generation"), F.col("status") == REMOVED
