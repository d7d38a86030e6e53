"""Claims: which receipt had the right to push an envelope to a subscription, and until when.

    a day's decisions ──▶ claims_of ──▶ the day's snapshot, sorted by envelope
    snapshots of the days around ──┐
    decisions that are in none ────┴─▶ claims_on a period's envelopes ──▶ add_claims to its comparisons

The live system knows a claim for up to 30 days, and whatever shows the envelope again meanwhile is a duplicate. So for
each day a snapshot has its claims alone, which are read instead of all that the day decided.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from clarion.claims import LONGEST, SLACK
from clarion.decisions import NotificationDecision
from clarion.limiter import SKEW
from pipeline.columns import NOTIFICATION_KEY
from pipeline.lake.event_lake import EventLake
from pipeline.lake.snapshots import CLAIMS, day_of, prune, snapshot_days
from pipeline.period import Period
from pipeline.spark.frames import NUMBERS, broadcast_if_few
from pipeline.spark.session import is_small

CLAIMING = (str(NotificationDecision.QUEUED), str(NotificationDecision.RATE_LIMITED))
"""The decisions that may hold a claim: what is one too many was claimed before it was counted."""
CLAIM = StructType([
    StructField("envelope_id", BinaryType()),
    StructField("subscription_id", StringType()),
    StructField("receipt", StringType()),
    StructField("decision", StringType()),
    StructField("at", LongType()),
    StructField("until", LongType()),
])  # fmt: skip
CLAIM_KEY = ("envelope_id", "subscription_id")


def write_claims(lake: EventLake, period: Period, claims: DataFrame, now: int) -> None:
    """As the snapshot of a day, in the place of an earlier one; those of any other period are not kept."""
    if period == day_of(period.start):
        lake.write_day(CLAIMS, period, claims.repartitionByRange(*CLAIM_KEY).sortWithinPartitions(*CLAIM_KEY), now)
        prune(lake.root, CLAIMS, now, monthly=False)


def earlier_claims(lake: EventLake, period: Period, now: int, claim_lookback: int) -> DataFrame:
    """What the snapshots have that may have been held in a period, but for its own; in `CLAIM`.

    Those that end more than `claim_lookback` milliseconds before the period are not read.
    """
    around = Period(period.start - claim_lookback, now)
    days = [day for day in snapshot_days(lake.root, CLAIMS) if day != period and around.start < day.end <= around.end]
    return lake.read_days(CLAIMS, CLAIM, days).where(F.col("until") > period.start)


def claims_on_ids(claims: DataFrame, envelopes: DataFrame) -> DataFrame:
    """Those of the claims that any of the envelopes meets, by 64 bits of hash."""
    if claims.isEmpty():
        return claims
    ids = envelopes.select(F.xxhash64("envelope_id").alias("id")).distinct().persist()
    return claims.join(
        broadcast_if_few(ids, NUMBERS), on=F.xxhash64("envelope_id") == F.col("id"), how="leftsemi"
    ).persist()


def decision_lookback(root: str, period: Period, reach: int, otherwise: int) -> int:
    """How long before a period the decisions are needed themselves: for the `reach` of its limits.

    If no snapshot has the claims of the day before, it is `otherwise`. In milliseconds.
    """
    return SKEW + reach if day_of(period.start - 1) in snapshot_days(root, CLAIMS) else otherwise


def claims_of(compared: DataFrame, envelopes: DataFrame) -> DataFrame:
    """The claims that the judged among the comparisons may hold on `envelopes`, in `CLAIM`."""
    dated = _claiming(compared.where("judged")).join(
        envelopes.select("receipt", "expires_at"), on="receipt", how="inner"
    )
    return dated.withColumn("until", lasts_until("expires_at", "at")).select(*CLAIM.names)


def lasts_until(expires_at: str, at: str) -> Column:
    """`clarion.claims.lasts_until` in milliseconds, by the expiry in seconds and the time of the claim in milliseconds.

    If the expiry is not known, since the envelope is gone, it is the longest time.
    """
    return 1000 * F.least(F.col(expires_at) + SLACK, F.floor(F.col(at) / 1000) + LONGEST)


def claims_on(envelopes: DataFrame, earlier: DataFrame, compared: DataFrame) -> DataFrame:
    """The claims on `envelopes` under other receipts than theirs, in `CLAIM`.

    `earlier` are in `CLAIM`, too; `compared` are comparisons, of which those hold them that are not judged.
    """
    ids = envelopes.where(F.col("envelope_id").isNotNull()).groupBy("envelope_id")
    # Two receipts may say differently, as envelopes of some networks expire by the clock of the node that showed it.
    few = broadcast_if_few(ids.agg(F.max("expires_at").alias("expires_at")))
    recent = _claiming(compared.where(~F.col("judged"))).join(few, on="envelope_id", how="inner")
    dated = recent.withColumn("until", lasts_until("expires_at", "at")).select(*CLAIM.names)
    both = dated.unionByName(earlier.join(few, on="envelope_id", how="leftsemi"))
    others = both.join(envelopes.select("receipt"), on="receipt", how="leftanti")
    longest = F.max_by(F.struct(*CLAIM.names), "until").alias("claim")
    return others.groupBy(*NOTIFICATION_KEY).agg(longest).select("claim.*")


def _claiming(compared: DataFrame) -> DataFrame:
    """The decisions among the comparisons that may hold a claim."""
    return compared.where(F.col("found").isin(*CLAIMING)).withColumnRenamed("found", "decision")


def add_claims(compared: DataFrame, claims: DataFrame, grace: int) -> DataFrame:
    """The comparisons, and an unjudged one for each of the `claims` (persisted) that one of them conflicts with.

    If the claim ends within `grace` milliseconds of that, both a duplicate and a push are right: then it is added as
    `rate_limited`, which allows both.
    """
    held = claims.select(*CLAIM_KEY, F.struct("receipt", "decision", "at", "until").alias("claim"))
    # A small period may have many claims, of 45 days: so they are not broadcast uncounted, as others of a small lake.
    few = held if is_small(held.sparkSession) else broadcast_if_few(held)
    meeting = compared.where("judged").join(few, on=list(CLAIM_KEY), how="inner")
    one = F.struct(*(name for name in compared.columns if name not in NOTIFICATION_KEY)).alias("one")
    left = F.col("claim.until") - F.col("at")
    traces = meeting.groupBy("claim", "subscription_id").agg(
        F.any_value(one).alias("one"), (F.min(left) > grace).alias("lasts"), (F.max(left) > -grace).alias("counts")
    )
    return compared.unionByName(traces.where("counts").select(*_trace(compared)))


def _trace(compared: DataFrame) -> list[Column]:
    """The columns of a comparison, of a `claim` and of `one` of those that meet it."""
    said = {
        "receipt": F.col("claim.receipt"),
        "subscription_id": F.col("subscription_id"),
        "found": F.when(F.col("lasts"), F.col("claim.decision")).otherwise(NotificationDecision.RATE_LIMITED),
        **dict.fromkeys(("at", "judged_at", "observed_at"), F.col("claim.at")),
        **dict.fromkeys(("order", "counted", "wanted", "against", "of_envelope"), F.lit(None)),
        **dict.fromkeys(("judged", "sure", "full", "overfull"), F.lit(False)),
        "refusals": F.array(),
    }
    return [
        said.get(field.name, F.col(f"one.{field.name}")).cast(field.dataType).alias(field.name)
        for field in compared.schema
    ]
