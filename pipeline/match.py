"""Join statements with the rules as of their time: who should have been told of each."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from clarion.decisions import Wanted
from pipeline.rules import PAIR

HOT_RULES = 100_000
"""A (sender, topic) that more rules name than this is spread over several tasks."""
SALTS = 16
BROADCAST_KEYS = 200_000
"""Keys of 64 bytes: some 20 MB in each executor."""


def wanted(statements: DataFrame, rules: DataFrame, *, grace_ms: int, hot_rules: int = HOT_RULES) -> DataFrame:
    """One row for each receipt and subscription that some rule may have matched.

    `statements` have `receipt, envelope_id, sender, topics, first_at, last_at`: between these two times the
    live path took its decisions. `rules` are as `in_force` gives them. `certain` says that a rule was in force all
    that time, and `grace_ms` before and after; without it the live path may rightly have seen it or not, since an
    index lags behind its table and clocks differ. `topic` is the first that matched; `wanted` is that of a call if
    any matching rule makes it one.
    """
    exploded = statements.select(
        "receipt",
        "envelope_id",
        "sender",
        "first_at",
        "last_at",
        F.posexplode("topics").alias("place", "topic"),
    )
    left, right = salted(exploded, rules, hot_rules)
    overlap = (F.col("since") < F.col("last_at") + grace_ms) & (F.col("until") > F.col("first_at") - grace_ms)
    throughout = (F.col("since") <= F.col("first_at") - grace_ms) & (F.col("until") > F.col("last_at") + grace_ms)
    matched = left.join(right, on=[*PAIR, "salt"], how="inner").where(overlap)
    first = F.min_by(F.struct("topic", "wanted"), F.struct(~throughout, "place"))
    call = F.max(F.when(F.col("wanted") == Wanted.CALL, F.col("wanted")))
    return (
        matched.groupBy("receipt", "subscription_id")
        .agg(
            first.alias("rule"),
            call.alias("call"),
            F.max(throughout).alias("certain"),
            *(F.any_value(name).alias(name) for name in _SAME),
        )
        .select(
            "receipt",
            "subscription_id",
            *_SAME,
            "rule.topic",
            F.coalesce("call", "rule.wanted").alias("wanted"),
            "certain",
        )
    )


_SAME = ("envelope_id", "sender", "client_id", "channel")


def salted(statements: DataFrame, rules: DataFrame, hot_rules: int) -> tuple[DataFrame, DataFrame]:
    """Both sides with a `salt`, so that the many rules of a hot sender don't all end in one task.

    Its few statements are repeated for each salt; for every other sender the salt is 0 on both sides.
    """
    hot = rules.groupBy(*PAIR).count().where(F.col("count") > hot_rules).select(*PAIR, F.lit(True).alias("hot"))
    salts = F.when(F.col("hot"), F.sequence(F.lit(0), F.lit(SALTS - 1))).otherwise(F.array(F.lit(0)))
    left = statements.join(F.broadcast(hot), on=list(PAIR), how="left").withColumn("salt", F.explode(salts)).drop("hot")
    salt = F.when(F.col("hot"), F.pmod(F.hash("subscription_id"), F.lit(SALTS))).otherwise(F.lit(0))
    right = rules.join(F.broadcast(hot), on=list(PAIR), how="left").withColumn("salt", salt).drop("hot")
    return left, right


def named(rules: DataFrame, statements: DataFrame) -> DataFrame:
    """The rules that name a (sender, topic) of some statement: of all rules there are, usually few."""
    topics = statements.select("sender", F.explode("topics").alias("topic"))
    keys = topics.distinct().persist()
    few = keys.count() <= BROADCAST_KEYS
    return rules.join(F.broadcast(keys) if few else keys, on=list(PAIR), how="leftsemi")
