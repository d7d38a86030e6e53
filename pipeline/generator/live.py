"""The live system's part, played naively: what was decided for whom, and how the pushes went."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pandas as pd
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from clarion.decisions import EnvelopeDecision, NotificationDecision, Purpose, PushDecision
from clarion.limiter import Limit
from pipeline.generator.plan import Plan
from pipeline.in_force.limits import LimitSpan
from pipeline.period import DAY_MS

if TYPE_CHECKING:
    from collections.abc import Hashable

GENUINE = ("ordinary", "lasting")
_GONE_AFTER_MS = 400
_CLAIMED_MS = 30 * DAY_MS
"""How long the claim on a statement that never expires is held."""
_DECIDED = "author long, client long, m long, copy int, sub long, decision string, order long, counted boolean"
_FATES = {
    "malformed": EnvelopeDecision.MALFORMED,
    "foreign": EnvelopeDecision.UNSUPPORTED_PROOF,
    "expired": EnvelopeDecision.EXPIRED,
    "forged": EnvelopeDecision.BAD_SIGNATURE,
}


def decided(shown: DataFrame, plan: Plan) -> DataFrame:
    """The observations with `decided_at`, and whether they fell into the `outage` and so were not decided at all."""
    begin, end = plan.faults.outage
    outage = (F.col("observed_at") >= plan.moment(begin)) & (F.col("observed_at") < plan.moment(end))
    delay = F.lit(20) + (F.lit(200) * plan.chance("delay", "receipt")).cast("long")
    return shown.select("*", (F.col("observed_at") + delay).alias("decided_at"), outage.alias("outage"))


def observed(shown: DataFrame) -> DataFrame:
    """The lake's kind `observed`."""
    at = F.col("observed_at").alias("at")
    return shown.select(at, "receipt", "observed_at", "raw", F.lit(None).cast("string").alias("location"))


def limits(spark: SparkSession, span: LimitSpan, at: int) -> DataFrame:
    """The lake's kind `limits`, loaded once and for all."""
    pair = (span.limit.count, span.limit.window, span.limit.cooldown) if span.limit else (None, None, None)
    return spark.createDataFrame(
        [(at, *pair, span.cap.count, span.cap.window)],
        "at long, count long, window long, cooldown long, cap long, cap_window long",
    )


def wants(shown: DataFrame, rules: DataFrame, people: DataFrame) -> DataFrame:
    """Each observation with each subscription that has or had or will have a rule for it."""
    of_rules = shown.join(rules, on=["author", "topic"], how="inner")
    return of_rules.join(people.drop("flips_at"), on="sub", how="inner").select(
        "m", "copy", "receipt", "author", "topic", "kind", "flood", "shown_twice", "outage", "observed_at", "decided_at",
        "envelope_id", "sender", "sub", "client", "subscription_id", "client_id", "channel", "dies_at",
        "since", "until", "flips_at",
    )  # fmt: skip


def in_force() -> Column:
    return (F.col("since") <= F.col("decided_at")) & (F.col("until").isNull() | (F.col("until") > F.col("decided_at")))


def deaths(wanted: DataFrame) -> DataFrame:
    """`sub, invalid_at`: a dead token shows with the first push after its death."""
    seen = wanted.where(in_force() & F.col("kind").isin(*GENUINE) & ~F.col("outage"))
    tried = seen.where(F.col("decided_at") >= F.col("dies_at"))
    return tried.groupBy("sub").agg((F.min("decided_at") + _GONE_AFTER_MS).alias("invalid_at"))


def notifications(wanted: DataFrame, limit: Limit) -> DataFrame:
    """The wants that were decided on, with `decision` and `order`."""

    # Spark reads the hints of what it calls, which a `partial` has none of.
    def limited(asked: pd.DataFrame) -> pd.DataFrame:
        return _limited(asked, limit)

    rows = wanted.join(F.broadcast(_close_pairs(wanted, limit)), on=["author", "client"], how="left")
    loud, quiet = rows.where("close").drop("close"), rows.where("close is null").drop("close")
    asked = loud.select("author", "client", "m", "copy", "sub", "observed_at", "decided_at")
    decided = asked.groupBy("author", "client").applyInPandas(limited, _DECIDED)
    rest = loud.join(decided, on=["author", "client", "m", "copy", "sub"], how="inner")
    columns = [*wanted.columns, "decision", "order", "counted"]
    return _unlimited(quiet).select(columns).unionByName(rest.select(columns))


def _close_pairs(wanted: DataFrame, limit: Limit) -> DataFrame:
    """`author, client, close` (true) of the pairs that ever had more than their limit's count within its window."""
    by_time = Window.partitionBy("author", "client").orderBy("observed_at")
    since = F.col("observed_at") - F.lag("observed_at", limit.count).over(by_time)
    narrow = wanted.select("author", "client", "observed_at").withColumn("since", since)
    return narrow.where(F.col("since") < limit.window).select("author", "client", F.lit(True).alias("close")).distinct()


def _unlimited(quiet: DataFrame) -> DataFrame:
    """Where no limit is reached: what was shown once is queued, and of what was shown twice the second is held."""
    same = Window.partitionBy("m", "sub").orderBy("decided_at", "copy")
    held = F.col("decided_at") - F.lag("decided_at").over(same) < _CLAIMED_MS
    again = F.when(held, NotificationDecision.DUPLICATE).otherwise(NotificationDecision.QUEUED)
    twice = quiet.where("shown_twice").withColumn("decision", again)
    once = quiet.where(~F.col("shown_twice")).withColumn("decision", F.lit(str(NotificationDecision.QUEUED)))
    unknown = {"order": F.lit(None).cast("long"), "counted": F.lit(None).cast("boolean")}
    return once.unionByName(twice).withColumns(unknown)


def _limited(asked: pd.DataFrame, limit: Limit) -> pd.DataFrame:
    ordered = asked.sort_values(["decided_at", "m", "sub"])
    decisions, orders, counted = zip(*_decide(ordered, limit), strict=True)
    decided = ordered.assign(decision=[str(decision) for decision in decisions], order=orders, counted=counted)
    return decided.drop(columns=["observed_at", "decided_at"])


def _decide(asked: pd.DataFrame, limit: Limit) -> Iterator[tuple[NotificationDecision, int, bool]]:
    """Each decision, the version of the pair's window after it, and whether it changed the window."""
    counted: dict[Hashable, int] = {}
    claims: dict[tuple[Hashable, Hashable], int] = {}
    cooldowns: list[int] = []
    version = 0
    for at, m, sub in zip(*(asked[name] for name in ("observed_at", "m", "sub")), strict=True):
        known = at - counted.get(m, at - DAY_MS) < DAY_MS
        if not known and any(begin <= at < begin + limit.cooldown for begin in cooldowns):
            yield NotificationDecision.RATE_LIMITED, version, False
        elif at - claims.get((m, sub), at - _CLAIMED_MS) < _CLAIMED_MS:
            yield NotificationDecision.DUPLICATE, version, False
        else:
            claims[m, sub] = at
            version += not known
            if known or not _crowded([*counted.values(), at], at, limit):
                counted[m] = counted[m] if known else at
                yield NotificationDecision.QUEUED, version, not known
            else:
                cooldowns.append(at)
                yield NotificationDecision.RATE_LIMITED, version, True


def _crowded(times: list[int], at: int, limit: Limit) -> bool:
    """Whether some window that `at` lies in holds too many."""
    begins = (begin for begin in times if begin <= at < begin + limit.window)
    return any(sum(begin <= one < begin + limit.window for one in times) > limit.count for begin in begins)


def envelopes(shown: DataFrame, notified: DataFrame) -> DataFrame:
    """The lake's kind `envelope`; `notified` are receipts with a `decision` that prevails over what the statement is."""
    fate = F.lit(str(EnvelopeDecision.UNMATCHED))
    for kind, decision in _FATES.items():
        fate = F.when(F.col("kind") == kind, decision).otherwise(fate)
    fate = F.coalesce("decision", fate)
    known = F.col("kind") != "malformed"
    return (
        shown.where(~F.col("outage"))
        .join(notified, on="receipt", how="left")
        .select(
            F.col("decided_at").alias("at"),
            "receipt",
            F.when(known, F.col("envelope_id")).alias("envelope_id"),
            fate.alias("decision"),
            "observed_at",
            F.when(known, F.col("sender")).alias("sender"),
            F.lit(None).cast("string").alias("reason"),
        )
    )


def notification_rows(notified: DataFrame, key: Column) -> DataFrame:
    """The lake's kind `notification`; `key` is what its rule names."""
    return notified.select(
        F.col("decided_at").alias("at"),
        "receipt",
        "envelope_id",
        "decision",
        "subscription_id",
        "client_id",
        "channel",
        "sender",
        key.alias("key"),
        "order",
        F.col("observed_at").alias("judged_at"),
        "counted",
        F.lit(None).cast("boolean").alias("own"),
    )


def pushes(queued: DataFrame, plan: Plan) -> DataFrame:
    """The lake's kind `push` for what was queued, one or two attempts each. `delay` comes on top, in milliseconds.

    What is to be late is never refused: it would not be late then.
    """
    who = ("receipt", "sub")
    latency = 60 - 250 * F.log(1 - plan.chance("latency", *who)) + F.col("delay")
    again = plan.dice("again", *who) < 300
    steps = F.when(again, F.array(F.lit(1), F.lit(2))).otherwise(F.array(F.lit(1)))
    took = (latency + F.when(F.col("attempt") == 2, 5_000).otherwise(0)).cast("long")
    retry = again & (F.col("attempt") == 1)
    gone = F.col("dies_at") <= F.col("decided_at")
    decision = (
        F.when(gone, PushDecision.TOKEN_GONE)
        .when(retry, PushDecision.RETRY)
        .when((F.col("delay") == 0) & (plan.dice("refused", *who) < 5), PushDecision.REFUSED)
        .otherwise(PushDecision.DELIVERED)
    )
    tried = queued.withColumn("attempt", F.explode(F.when(gone, F.array(F.lit(1))).otherwise(steps)))
    outcomes = tried.select(
        (F.col("decided_at") + took).alias("at"), "receipt", "envelope_id", decision.alias("decision"),
        F.lit(str(Purpose.NOTIFICATION)).alias("purpose"), "subscription_id", "channel", "attempt",
        (F.col("decided_at") - F.col("observed_at") + took).alias("latency_ms"),
        plan.uuid("push", *who).alias("name"),
    )  # fmt: skip
    answer = F.create_map(*(F.lit(part) for answer in _ANSWERS.items() for part in answer))
    return outcomes.select(
        *(name for name in outcomes.columns if name != "name"),
        F.split_part(answer[F.col("decision")], F.lit(" "), F.lit(1)).cast("int").alias("status"),
        F.nullif(F.split_part(answer[F.col("decision")], F.lit(" "), F.lit(2)), F.lit("")).alias("reason"),
        F.when(F.col("decision") == PushDecision.DELIVERED, F.col("name")).alias("provider_id"),
        F.when(F.col("decision") == PushDecision.REFUSED, F.lit(False)).alias("given_up"),
    )


_ANSWERS = {
    str(PushDecision.DELIVERED): "200",
    str(PushDecision.TOKEN_GONE): "410 Unregistered",
    str(PushDecision.RETRY): "503 ServiceUnavailable",
    str(PushDecision.REFUSED): "413 PayloadTooLarge",
}
