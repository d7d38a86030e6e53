"""Which notifications have to be compared one by one: of all others, sums show that they went as they should.

    envelopes, rules in force ──▶ asked for ─┐
    decisions ───────────────────────────────┼─▶ a sum for each bucket ──▶ in doubt
    pushes, earlier claims ──────────────────┘
    decisions, by client ───────────────────────────────────────────────▶ near a limit: it may have been reached

A bucket is a part of the subscriptions that an envelope may be for. Each notification has a fingerprint, made of its
receipt, its subscription and its decision. Where rules ask for it, that is added to the sum of its bucket, and where it
was decided it is taken away; likewise with what should have been pushed, and what was. A bucket is in doubt if a sum is
not 0, or several receipts of its envelope were decided. Fingerprints are hashes of 48 bits: that different ones have
the same sum is out of the question.
"""

from functools import partial, reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from clarion.decisions import FINAL, REACHED, NotificationDecision, Wanted
from clarion.limiter import SKEW
from pipeline.in_force.limits import LimitHistory
from pipeline.lake.dedup import judged_at
from pipeline.period import Period
from pipeline.reconciliation.wanted import in_force_at, is_alive, is_decided_soon
from pipeline.spark.frames import NUMBERS, broadcast_if_few

BUCKETS = 64
"""Of each envelope: enough that one doubt among a popular sender's followers leaves most of them out of it."""
_QUEUED = str(NotificationDecision.QUEUED)
_PUSHING = [str(wanted) for wanted in Wanted if wanted.pushes]


def in_doubt(*fingerprints: DataFrame) -> DataFrame:
    """`bucket, envelope` of the buckets whose sums don't come out: only of those that the period has any part in."""
    each = reduce(partial(DataFrame.unionByName, allowMissingColumns=True), fingerprints)
    sums = each.groupBy("bucket").agg(
        F.sum("decided").alias("decided"),
        F.coalesce(F.sum("pushed"), F.lit(0)).alias("pushed"),
        F.min("receipt").alias("first"),
        F.max("receipt").alias("last"),
        F.min("envelope").alias("envelope"),
    )
    apart = F.coalesce(F.col("first") != F.col("last"), F.lit(False))
    unclear = (F.col("decided") != 0) | (F.col("pushed") != 0) | apart
    return sums.where(F.col("decided").isNotNull() & unclear).select("bucket", "envelope")


def shown_fingerprints(facts: DataFrame, of_envelopes: DataFrame, period: Period) -> DataFrame:
    """Of each envelope that was observed, and of each that was decided: the kind `envelope`. They have their own bucket."""
    decided = of_envelopes.where(period.has(F.col("observed_at")))
    rows = (
        some.select(F.xxhash64("envelope_id").alias("envelope"), (sign * _fingerprint("receipt")).alias("decided"))
        for some, sign in ((facts, 1), (decided, -1))
    )
    return reduce(DataFrame.unionByName, rows).select(F.xxhash64("envelope").alias("bucket"), "envelope", "decided")


def asked_fingerprints(facts: DataFrame, of_envelopes: DataFrame, rules: DataFrame, grace_ms: int) -> DataFrame:
    """Of each rule for each of the envelopes that it names. What it wants depends on its condition, if it has one.

    `facts` are `verify.VERIFIED`, `rules` as `rules.in_force` gives them. Whoever has two rules for an envelope is in
    doubt. Receipts and keys are known by their hashes: two of one hash would be a doubt, and no more.
    """
    answer = F.get("plain", "place")
    word = F.when(answer.isin(_PUSHING), _QUEUED).otherwise(answer)
    keys = facts.where(F.col("flaw").isNull()).select(
        "receipt", "envelope_id", "observed_at", "expires_at", "plain", F.posexplode("keys").alias("place", "key")
    )
    shown = keys.select(
        F.xxhash64("receipt").alias("receipt"),
        F.xxhash64("envelope_id").alias("envelope"),
        F.xxhash64("key").alias("key"),
        F.xxhash64(word).alias("word"),
        answer.isin(_PUSHING).alias("pushes"),
        "observed_at",
        "expires_at",
    )
    unconditional = F.col("condition_digest").isNull() & (F.coalesce("condition", F.lit(b"")) == F.lit(b""))
    named = rules.select(
        F.xxhash64("key").alias("key"),
        F.xxhash64("subscription_id").alias("subscription"),
        "since",
        "until",
        unconditional.alias("unconditional"),
    )
    times = of_envelopes.groupBy(F.xxhash64("receipt").alias("receipt")).agg(
        F.min("at").alias("first_at"), F.max("at").alias("last_at")
    )
    decided = shown.join(times, on="receipt", how="left").withColumns(
        {name: F.coalesce(name, "observed_at") for name in ("first_at", "last_at")}
    )
    alive = decided.where(is_alive(grace_ms))
    matched = alive.join(broadcast_if_few(named, NUMBERS), on="key", how="inner").where(in_force_at(grace_ms))
    asked = _fingerprint("receipt", "subscription", F.when(F.col("unconditional"), F.col("word")))
    pushed = F.when(F.col("pushes"), _fingerprint("receipt", "subscription"))
    return matched.select(*_bucket(), asked.alias("decided"), pushed.alias("pushed"))


def decided_fingerprints(notified: DataFrame, period: Period) -> DataFrame:
    """Of the lake's kind. What was observed outside the period has no sum, but is another receipt of its envelope."""
    later = (judged_at() >= period.end) & is_decided_soon()
    within = (judged_at() >= period.start - SKEW) & ~later
    fingerprint = F.when(within, -_fingerprint("receipt", "subscription", F.xxhash64("decision")))
    return _hashed(notified, "decision", "judged_at", "at").select(*_bucket(), "receipt", fingerprint.alias("decided"))


def pushed_fingerprints(pushed: DataFrame, late: int) -> DataFrame:
    """Of the lake's kind: what has come to its end, and in how many milliseconds."""
    ended = _hashed(pushed.where(is_final()), "decision", "latency_ms")
    slow = F.col("decision").isin(*map(str, REACHED)) & (F.col("latency_ms") > late)
    fingerprint = _fingerprint("receipt", "subscription", F.when(slow, F.lit(1)))
    return ended.select(*_bucket(), (-fingerprint).alias("pushed"))


def is_final() -> Column:
    """Whether a push ended with this attempt: its decision is one of `FINAL`, and dispatch did not give it up."""
    return F.col("decision").isin(*map(str, FINAL)) & ~F.coalesce("given_up", F.lit(False))


def claimed_fingerprints(claims: DataFrame) -> DataFrame:
    """Of `claims.CLAIM`: who has claimed an envelope before."""
    return _hashed(claims).select(*_bucket(), "receipt")


def clients_near_limit(decided: DataFrame, undecided: DataFrame, limits: LimitHistory) -> DataFrame:
    """`client` of those with so many notifications that they may have reached the limit of a pair or of a subscription.

    Counted by fixed spans as long as the widest window. Any such window lies in two neighbouring spans, so one of them
    has at least half of its decisions.
    """
    window, least = limits.widest_window, limits.least_count
    times = F.floor(judged_at() / window).alias("time")
    rows = (some.select(F.xxhash64("client_id").alias("client"), times) for some in (decided, undecided))
    counted = reduce(DataFrame.unionByName, rows).groupBy("client", "time").count()
    return counted.where(2 * F.col("count") >= least).select("client").distinct()


def buckets_of(notified: DataFrame, clients: DataFrame) -> DataFrame:
    """`bucket, envelope` of all that was decided for `clients`."""
    rows = _hashed(notified.withColumn("client", F.xxhash64("client_id")), "client")
    return rows.join(clients, on="client", how="leftsemi").select(*_bucket()).distinct()


def within(rows: DataFrame, buckets: DataFrame) -> DataFrame:
    """Those of `rows`, which have `envelope_id` and `subscription_id`, that are in one of the buckets."""
    hashed = rows.withColumns({"envelope": F.xxhash64("envelope_id"), "subscription": F.xxhash64("subscription_id")})
    shared = hashed.select(*rows.columns, _bucket()[0])
    return shared.join(buckets.select("bucket"), on="bucket", how="leftsemi").drop("bucket")


def receipts_of(rows: DataFrame) -> DataFrame:
    """`of_receipt`: the receipts' hashes."""
    return rows.select(F.xxhash64("receipt").alias("of_receipt")).distinct()


def concerned(rows: DataFrame, buckets: DataFrame, receipts: DataFrame) -> DataFrame:
    """Those of `rows`, each of an envelope, that have any of the buckets, or one of the `receipts_of` others."""
    by_bucket = rows.join(
        buckets.select(F.col("envelope").alias("of_bucket")).distinct(),
        on=F.xxhash64("envelope_id") == F.col("of_bucket"),
        how="left",
    )
    both = by_bucket.join(receipts, on=F.xxhash64("receipt") == F.col("of_receipt"), how="left")
    return both.where(F.col("of_bucket").isNotNull() | F.col("of_receipt").isNotNull()).select(*rows.columns)


def _hashed(rows: DataFrame, *others: str) -> DataFrame:
    return rows.select(
        F.xxhash64("receipt").alias("receipt"),
        F.xxhash64("envelope_id").alias("envelope"),
        F.xxhash64("subscription_id").alias("subscription"),
        *others,
    )


def _bucket() -> tuple[Column, Column]:
    part = F.col("subscription").bitwiseAND(BUCKETS - 1)
    return F.xxhash64("envelope", part).alias("bucket"), F.col("envelope")


def _fingerprint(*what: Column | str) -> Column:
    """Short enough that the sums of billions don't overflow. What is null is left out."""
    return F.shiftright(F.xxhash64(*what), 16)
