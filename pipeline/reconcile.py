"""`reconcile`: recompute from statements and rules what should have happened, and compare it with what did.

    observed ──▶ verified ──▶ wanted ─┐
    rules, subscriptions ──▶ in force ┘├──▶ attempts ──▶ replayed admission ──▶ missing, wrongly dropped, unexpected
    statement and notification events ─┘
    push events of what was queued ───────────────────────────────────────────▶ missing, late

Only statements observed in the period are judged, by all events up to now. On a healthy period nothing differs.
"""

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from clarion.decisions import NotificationDecision, PushDecision
from clarion.limiter import LATENESS, PAIR_LIMIT, SKEW, SUBSCRIPTION_CAP, Limit
from pipeline.admit import contradictions
from pipeline.differences import Difference
from pipeline.lake import HOUR_MS, Kind, Lake, Period
from pipeline.match import named, wanted
from pipeline.rules import in_force, rule_changes
from pipeline.verify import GONE, verified

DIFFERENCES = (
    "difference", "evidence", "receipt", "subscription_id", "envelope_id", "sender", "client_id", "topic",
    "channel", "wanted", "at",
)  # fmt: skip
_FINAL = (PushDecision.DELIVERED, PushDecision.TOKEN_GONE, PushDecision.SUBSCRIPTION_GONE, PushDecision.REFUSED)
_WHO = ("receipt", "subscription_id")


@dataclass(frozen=True)
class Terms:
    """What to judge by; spans are milliseconds.

    `cap` is a subscription's; up to twice as much is accepted. `grace`: so close to a change of rules, or to a
    statement's expiry, either decision is right, since clocks differ and changes reach ingest late. `lookback` is how
    far back claims are looked for.
    """

    grace: int = 15_000
    late: int = 60_000
    lookback: int = 24 * HOUR_MS
    limit: Limit = PAIR_LIMIT
    cap: Limit = SUBSCRIPTION_CAP


def reconcile(lake: Lake, period: Period, now: int, terms: Terms) -> DataFrame:
    """The differences, in the columns `DIFFERENCES`; those that `replay` has repaired are no longer any."""
    since = Period(period.start, now)
    facts = verified(lake.files(Kind.OBSERVED, since), period, lake.oversize).dropDuplicates(["receipt"])
    statements = dated(facts, lake.read(Kind.STATEMENT, since)).persist(StorageLevel.DISK_ONLY)
    asked = wanted(possible(statements, terms), rules_as_told(lake, statements, now), grace_ms=terms.grace)
    before = Period(period.start - terms.lookback, now)
    found = with_caps(decisions(lake.read(Kind.NOTIFICATION, before), statements, period.start, terms), terms.cap)
    tries = attempts(asked, found, statements, terms).persist(StorageLevel.DISK_ONLY)
    pushes = outcomes(lake.read(Kind.PUSH, since))
    astray = contradictions(tries, terms.limit).select(*DIFFERENCES)
    lost = undelivered(tries, pushes, terms).unionByName(unknowable(statements))
    return without_repaired(astray.unionByName(lost), pushes, replays(lake))


def dated(facts: DataFrame, decided: DataFrame) -> DataFrame:
    """The verified statements with `told`, the last decision on each, and between which times it was decided."""
    told = decided.groupBy("receipt").agg(
        F.max_by("decision", "at").alias("told"), F.min("at").alias("first_at"), F.max("at").alias("last_at")
    )
    both = facts.join(told, on="receipt", how="left")
    return both.select(
        *facts.columns,
        "told",
        F.coalesce("first_at", "observed_at").alias("first_at"),
        F.coalesce("last_at", "observed_at").alias("last_at"),
    )


def possible(statements: DataFrame, terms: Terms) -> DataFrame:
    """Those that may rightly have been matched."""
    alive = F.col("expires_at") * 1000 > F.col("first_at") - terms.grace
    return statements.where(F.col("flaw").isNull() & alive)


def rules_as_told(lake: Lake, statements: DataFrame, now: int) -> DataFrame:
    """When the rules that name these statements were in force. The changes are read from the beginning of the lake."""
    everything = Period(0, now)
    genuine = statements.where(F.col("flaw").isNull())
    changes = named(rule_changes(lake.read(Kind.RULES, everything)), genuine)
    return in_force(changes, lake.read(Kind.SUBSCRIPTION, everything)).persist(StorageLevel.DISK_ONLY)


def decisions(notified: DataFrame, statements: DataFrame, start: int, terms: Terms) -> DataFrame:
    """One decision for each receipt and subscription; `judged` if the statement is one of `statements`.

    The others set the scene: they filled a window shortly before, or hold a claim to one of the statements.
    """
    receipts = statements.select("receipt", F.lit(True).alias("judged"))
    marked = notified.join(receipts, on="receipt", how="left")
    recent = F.col("at") >= start - SKEW - terms.limit.window - max(terms.limit.cooldown, terms.cap.window)
    hashes = statements.select("envelope_id").distinct().withColumn("known", F.lit(True))
    near = marked.join(hashes, on="envelope_id", how="left").where(F.col("judged") | recent | F.col("known"))
    queued_first = F.struct(F.col("decision") != NotificationDecision.QUEUED, "at")
    values = [name for name in notified.columns if name not in _WHO]
    whole = F.min_by(F.struct(*values, "judged"), queued_first).alias("whole")
    return near.groupBy(*_WHO).agg(whole).select(*_WHO, "whole.*")


def with_caps(found: DataFrame, cap: Limit) -> DataFrame:
    """The decisions with `full`, whether a capped one may rightly be, and `overfull`, whether a queued one is too many.

    Both are looked for only where a subscription has enough decisions for either; a live sandbox knows of all that was
    queued or less, so a cap that comes too late is right up to twice its count.
    """
    judged_at = F.coalesce("judged_at", "at")
    queued = F.count_if(F.col("decision") == NotificationDecision.QUEUED)
    busy = found.groupBy("subscription_id").agg(queued.alias("queued")).where(F.col("queued") >= cap.count)
    marked = found.withColumn("judged_at", judged_at).join(
        F.broadcast(busy.withColumn("busy", F.lit(True)).drop("queued")), on="subscription_id", how="left"
    )
    rest = marked.where(F.col("busy").isNull()).select("*", F.lit(False).alias("full"), F.lit(False).alias("overfull"))
    by_time = Window.partitionBy("subscription_id").orderBy("judged_at")
    counted = marked.where("busy").withColumn("near", queued.over(by_time.rangeBetween(1 - cap.window, 0)))
    fullest = F.max("near").over(by_time.rangeBetween(0, cap.window - 1))
    looked_at = counted.withColumn("full", fullest >= cap.count).withColumn("overfull", F.col("near") > 2 * cap.count)
    return rest.unionByName(looked_at.drop("near")).drop("busy")


def attempts(asked: DataFrame, found: DataFrame, statements: DataFrame, terms: Terms) -> DataFrame:
    """What was wanted and what was decided, side by side: the columns of `admit.Attempt`, and `latest_at`."""
    wish = asked.select(*_WHO, F.struct(*(name for name in asked.columns if name not in _WHO)).alias("wish"))
    fact = found.select(*_WHO, F.struct(*(name for name in found.columns if name not in _WHO)).alias("fact"))
    both = wish.join(fact, on=list(_WHO), how="full")
    seen = statements.select("receipt", "observed_at", "flaw", "expires_at", "told", "first_at", "last_at")
    known = both.join(seen, on="receipt", how="left")
    unexpired = F.col("expires_at") * 1000 > F.col("last_at") + terms.grace
    either = ("envelope_id", "sender", "client_id", "topic", "channel")
    return known.select(
        *_WHO,
        *(F.coalesce(f"fact.{name}", f"wish.{name}").alias(name) for name in either),
        "wish.wanted",
        F.coalesce("observed_at", "fact.at").alias("observed_at"),
        F.coalesce("fact.at", "last_at").alias("at"),
        "fact.order",
        F.coalesce("fact.judged_at", F.greatest("observed_at", F.col("last_at") - LATENESS)).alias("judged_at"),
        "fact.counted",
        _flag("fact.full").alias("full"),
        _flag("fact.overfull").alias("overfull"),
        F.col("fact.decision").alias("found"),
        _against().alias("against"),
        _flag(F.col("wish.certain") & unexpired).alias("sure"),
        "told",
        F.coalesce(F.col("fact.judged"), F.col("wish").isNotNull()).alias("judged"),
    )


def _flag(value: Column | str) -> Column:
    return F.coalesce(value, F.lit(False))


def _against() -> Column:
    """Why a subscription has no claim to a statement; null if it has, and if nobody can say any more."""
    return (
        F.when(F.col("wish").isNotNull() | (F.col("flaw") == GONE), None)
        .when(F.col("flaw").isNotNull(), F.col("flaw"))
        .when(F.col("expires_at") * 1000 <= F.col("first_at"), F.lit("expired"))
        .otherwise(F.lit("no rule in force"))
    )


def outcomes(pushed: DataFrame) -> DataFrame:
    """What came of each notification that was tried: the best of its outcomes, and its first delivery's latency.

    It is `done` once a provider has taken or refused it, and `ended` as well once it was too old to be tried.
    """
    final = F.col("decision").isin(*(str(decision) for decision in _FINAL))
    last = F.max_by(F.struct("decision", "reason", "attempt"), F.struct(final, "at"))
    delivered = F.min(F.when(F.col("decision") == PushDecision.DELIVERED, F.col("latency_ms")))
    ended = final | (F.col("decision") == PushDecision.STALE)
    return pushed.groupBy(*_WHO).agg(
        last.alias("last"), delivered.alias("latency_ms"), F.max(final).alias("done"), F.max(ended).alias("ended")
    )


def undelivered(tries: DataFrame, pushes: DataFrame, terms: Terms) -> DataFrame:
    """What was queued and then lost on its way to the provider, or came late."""
    queued = tries.where((F.col("found") == NotificationDecision.QUEUED) & F.col("judged"))
    after = queued.join(pushes, on=list(_WHO), how="left")
    stale = F.col("last.decision") == PushDecision.STALE
    given_up = F.concat(
        F.lit("given up after attempt "), "last.attempt", F.lit(": "), F.coalesce("last.reason", "last.decision")
    )
    late = F.concat(F.lit("delivered after "), F.col("latency_ms"), F.lit(" ms"))
    told = (
        F.when(F.col("last").isNull(), _told(Difference.MISSING, F.lit("queued, but never tried")))
        .when(stale, _told(Difference.LATE, F.lit("too late to be of use")))
        .when(~F.col("done"), _told(Difference.MISSING, given_up))
        .when(F.col("latency_ms") > terms.late, _told(Difference.LATE, late))
    )
    return after.withColumn("it", told).where(F.col("it").isNotNull()).select("*", "it.*").select(*DIFFERENCES)


def unknowable(statements: DataFrame) -> DataFrame:
    """What was never decided and can't be any more: for whom, and whether for anybody, went with its bytes."""
    gone = statements.where((F.col("flaw") == GONE) & F.col("told").isNull())
    evidence = F.concat(F.lit("never decided, and nothing is left at "), "location")
    nobody = [F.lit(None).cast("string").alias(name) for name in ("subscription_id", "channel", "wanted")]
    nothing = [F.lit(None).cast("binary").alias(name) for name in ("client_id", "topic")]
    known = gone.select(
        "receipt",
        "envelope_id",
        "sender",
        F.col("last_at").alias("at"),
        *nobody,
        *nothing,
        _told(Difference.MISSING, evidence).alias("it"),
    )
    return known.select("*", "it.*").select(*DIFFERENCES)


def _told(difference: Difference, evidence: Column) -> Column:
    return F.struct(F.lit(str(difference)).alias("difference"), evidence.alias("evidence"))


def replays(lake: Lake) -> DataFrame:
    """`receipt, subscription_id` of all that was handed back to the live system."""
    return lake.plans().select(*_WHO).distinct()


def without_repaired(differences: DataFrame, pushes: DataFrame, replayed: DataFrame) -> DataFrame:
    """A replay has repaired what was lost, once its push has come to an end; that it came late was known."""
    ended = pushes.where(F.col("ended")).select(*_WHO)
    repaired = replayed.join(ended, on=list(_WHO), how="leftsemi")
    theirs = differences.where(F.col("difference") != Difference.UNEXPECTED)
    rest = differences.where(F.col("difference") == Difference.UNEXPECTED)
    return theirs.join(repaired, on=list(_WHO), how="leftanti").unionByName(rest)
