"""Who there is: subscriptions, the rules they have over the day, and the events of both."""

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from clarion.channels import Channel
from clarion.decisions import SubscriptionStatus
from clarion.networks.statements.rules import NUMBER
from pipeline.generator.plan import Plan
from pipeline.in_force.rules import CONDITION
from pipeline.period import DAY_MS

TOPICS = 3
"""A sender's conversations."""
_FLIP_LEAD = 500


def subscriptions(spark: SparkSession, plan: Plan) -> DataFrame:
    """`sub, client, subscription_id, client_id, channel, dies_at, flips_at`.

    Every other client has an iPhone with two subscriptions. Some tokens die and some rule sets are replaced during
    the day; never those of the clients that are flooded.
    """
    phones = spark.range(2 * plan.clients).select(
        F.col("id").alias("sub"), (F.col("id") / 2).cast("long").alias("client")
    )
    apple = F.col("client") % 2 == 0
    kind = F.when(apple & (F.col("sub") % 2 == 0), Channel.APNS).when(apple, Channel.VOIP).otherwise(Channel.FCM)
    left_alone = F.col("client") < plan.floods
    dies = ~left_alone & (plan.dice("dies", "sub") < 100)
    flips = ~left_alone & ~dies & (plan.dice("flips", "sub") < 200)
    return phones.where(apple | (F.col("sub") % 2 == 0)).select(
        "sub",
        "client",
        plan.uuid("subscription", "sub").alias("subscription_id"),
        plan.key("client", "client").alias("client_id"),
        kind.alias("channel"),
        F.when(dies, plan.moment(0.2 + 0.5 * plan.chance("dies_at", "sub"))).alias("dies_at"),
        F.when(flips, plan.moment(0.3 + 0.3 * plan.chance("flips_at", "sub"))).alias("flips_at"),
    )


def rules(people: DataFrame, plan: Plan) -> DataFrame:
    """`sub, author, topic, since, until, flips_at`: numbers, and when each rule was in force; without end: null.

    Where a rule set is replaced, about half of it stays.
    """
    chosen = _ordinary_rules(people.sparkSession, plan).unionByName(_flooding_rules(people.sparkSession, plan))
    of_people = chosen.join(people.select("sub", "client", "flips_at"), on="sub", how="inner")
    steady = F.col("flips_at").isNotNull() | (F.col("client") < plan.floods)
    identity = ("sub", "author", "topic")
    comes = ~steady & (plan.dice("comes", *identity) < 200)
    goes = ~steady & ~comes & (plan.dice("goes", *identity) < 200)
    dropped = F.col("flips_at").isNotNull() & (plan.dice("kept", *identity) % 2 == 0)
    since = F.when(comes, plan.moment(0.1 + 0.8 * plan.chance("since", *identity))).otherwise(plan.begun)
    until = F.when(goes, plan.moment(0.1 + 0.8 * plan.chance("until", *identity))).when(dropped, F.col("flips_at"))
    return of_people.select(*identity, since.alias("since"), until.alias("until"), "flips_at")


def subscription_changes(people: DataFrame, deaths: DataFrame, plan: Plan) -> DataFrame:
    """The lake's kind `subscription`; `deaths` are `sub, invalid_at`."""
    same = ("subscription_id", "client_id", "channel")
    created = people.select(*_change(F.lit(plan.begun - DAY_MS), SubscriptionStatus.ACTIVE, 1, 0), *same)
    flipped = people.where(F.col("flips_at").isNotNull()).select(
        *_change(F.col("flips_at"), SubscriptionStatus.ACTIVE, 2, 2), *same
    )
    died = people.join(deaths, on="sub", how="inner").select(
        *_change(F.col("invalid_at"), SubscriptionStatus.INVALID, 1, 2, "Unregistered"), *same
    )
    return created.unionByName(flipped).unionByName(died)


def rule_changes(people: DataFrame, chosen: DataFrame, senders: DataFrame, plan: Plan) -> DataFrame:
    """The lake's kind `rules`."""
    named = chosen.join(people.select("sub", "subscription_id"), on="sub", how="inner").join(
        F.broadcast(senders), on="author", how="inner"
    )
    replaced = F.col("flips_at").isNotNull()
    added = named.select("*", *_rule_change("added", F.col("since"), 1, 1))
    removed = named.where(F.col("until").isNotNull() & ~replaced).select(
        "*", *_rule_change("removed", F.col("until"), 1, 2)
    )
    kept = named.where(F.col("until").isNull() & replaced).select(
        "*", *_rule_change("added", F.col("flips_at") - _FLIP_LEAD, 2, 2)
    )
    nothing = [F.lit(None).cast("binary").alias(name) for name in CONDITION]
    rule = F.struct(rule_key(plan).alias("key"), *nothing)
    changes = added.unionByName(removed).unionByName(kept)
    return changes.groupBy("at", "change", "subscription_id", "generation", "revision").agg(
        F.collect_list(rule).alias("rules")
    )


def topic_key(plan: Plan) -> Column:
    """The 32 bytes of `topic`, one of `author`'s."""
    return plan.key("topic", "author", "topic")


def rule_key(plan: Plan) -> Column:
    """The key of `sender` and `topic`."""
    return F.concat(F.lit(NUMBER), "sender", topic_key(plan))


def _ordinary_rules(spark: SparkSession, plan: Plan) -> DataFrame:
    client = F.col("id") % plan.clients
    second = (client % 2 == 0) & (plan.dice("second", "id") % 2 == 0)
    return (
        spark.range(plan.rules)
        .select(
            (2 * client + second.cast("long")).alias("sub"),
            popular(plan.chance("rule_sender", "id"), plan).alias("author"),
            (F.lit(TOPICS) * plan.chance("rule_topic", "id")).cast("long").alias("topic"),
        )
        .dropDuplicates()
    )


def _flooding_rules(spark: SparkSession, plan: Plan) -> DataFrame:
    """Client 0 is flooded by a sender of its own, on its first topic, and so on."""
    flooded = spark.range(plan.floods).select(F.col("id").alias("client"), (F.col("id") + plan.senders).alias("author"))
    subs = F.when(F.col("client") % 2 == 0, F.array(2 * F.col("client"), 2 * F.col("client") + 1))
    both = F.explode(F.coalesce(subs, F.array(2 * F.col("client"))))
    return flooded.select(both.alias("sub"), "author", F.lit(0).cast("long").alias("topic"))


def popular(chance: Column, plan: Plan) -> Column:
    """A sender: the first are the loudest, with a power law's long tail."""
    return F.floor(F.lit(plan.senders) * chance * chance)


def _change(at: Column, status: str, generation: int, revision: int, reason: str | None = None) -> list[Column]:
    return [
        at.cast("long").alias("at"),
        F.lit(status).alias("status"),
        F.lit(reason).cast("string").alias("status_reason"),
        F.lit(generation).cast("long").alias("generation"),
        F.lit(revision).cast("long").alias("revision"),
    ]


def _rule_change(change: str, at: Column, generation: int, revision: int) -> list[Column]:
    return [
        F.lit(change).alias("change"),
        at.cast("long").alias("at"),
        F.lit(generation).cast("long").alias("generation"),
        F.lit(revision).cast("long").alias("revision"),
    ]
