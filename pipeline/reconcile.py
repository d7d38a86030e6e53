"""`reconcile`: recompute from envelopes, rules and limits what should have happened, and compare it with what did.

    observed ──▶ verified ──▶ expected ─┐
    rules, subscriptions ──▶ in force ──┤
    envelope and notification events ───┴─▶ comparisons ─┬─▶ missing, wrongly dropped, unexpected
    limits ─────────────────────────────▶ admission ─────┘
    push events of what was queued ──────────────────────▶ missing, late

Only envelopes observed in the period are judged, by all events up to now. On a healthy period nothing differs.
"""

from dataclasses import dataclass
from functools import reduce
from operator import and_, or_

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from clarion.decisions import NotificationDecision, PushDecision
from clarion.limiter import LATENESS, SKEW
from pipeline.claims import LOOKED_BACK_MS, claims_of, claims_on, earlier_claims, lookback, with_traces
from pipeline.findings import Difference
from pipeline.known import known
from pipeline.lake import EventLake
from pipeline.limits import LimitHistory, limit_history
from pipeline.period import Period
from pipeline.rules import asked, broadcast_if_few, expected, in_force, named, with_answers
from pipeline.schemas import EventKind
from pipeline.terms import Terms
from pipeline.verdicts import as_difference, contradictions
from pipeline.verify import GONE, verified

DIFFERENCES = (
    "difference", "evidence", "receipt", "subscription_id", "network", "envelope_id", "sender", "client_id", "key",
    "channel", "wanted", "at",
)  # fmt: skip
_FINAL = (PushDecision.DELIVERED, PushDecision.TOKEN_GONE, PushDecision.SUBSCRIPTION_GONE, PushDecision.REFUSED)
_WHO = ("receipt", "subscription_id")


@dataclass(frozen=True)
class Findings:
    """`differences` are in the columns `DIFFERENCES`; `unjudged` are `receipt, subscription_id, network`; `claims` in `CLAIM`.

    Of what is unjudged, a secret says whether it was wanted: see `rules.expected`.
    """

    differences: DataFrame
    unjudged: DataFrame
    claims: DataFrame


def reconcile(lake: EventLake, period: Period, now: int, terms: Terms, claims_back: int = LOOKED_BACK_MS) -> Findings:
    """Differences that `replay` has repaired are no longer any.

    Claims are known that were made up to `claims_back` milliseconds before the period: without older ones, whatever was
    dropped as a duplicate of theirs seems to be `wrongly_dropped`, and what was lost beside them `missing`.
    """
    since = Period(period.start, now)
    limits = limit_history(lake, period.start, now, terms.grace)
    facts = verified(lake.files(EventKind.OBSERVED, since), period, lake.oversize).dropDuplicates(["receipt"])
    envelopes = kept(dated(facts, lake.read(EventKind.ENVELOPE, since)))
    rules = rules_then(lake, envelopes, period.start, now)
    matched = kept(asked(possible(envelopes, terms), rules, grace_ms=terms.grace))
    wanted = expected(with_answers(matched, lake.read(EventKind.OBSERVED, since), lake.oversize))
    begin = period.start - lookback(lake, period, limits, terms.lookback)
    notified = lake.read(EventKind.NOTIFICATION, Period(begin, now))
    decided = kept(decisions(notified, envelopes, period.start, limits))
    claims = kept(claims_on(envelopes, earlier_claims(lake, period, now, claims_back), notified))
    pushes = outcomes(lake.read(EventKind.PUSH, since))
    compared = kept(comparisons(wanted, with_caps(decided, limits), pushes, terms))
    astray = contradictions(with_traces(compared, claims, terms.grace), limits).select(*DIFFERENCES)
    lost = undelivered(compared, terms).unionByName(unknowable(envelopes))
    secret = compared.where(F.col("judged") & F.col("found").isNotNull() & (F.size("refusals") > 0))
    differences = without_repaired(astray.unionByName(lost), pushes, replays(lake, period.start))
    return Findings(differences, secret.select(*_WHO, "network"), claims_of(decided, envelopes))


def kept(rows: DataFrame) -> DataFrame:
    """`rows`, to be computed once and left on the disks.

    What is persisted stays in the plan of all that is made of it, which Spark analyses anew at each step: of a small
    day that is half of all its work. The price is that a job fails whose executor is lost.
    """
    return rows.localCheckpoint(eager=False, storageLevel=StorageLevel.DISK_ONLY)


def dated(facts: DataFrame, decided: DataFrame) -> DataFrame:
    """The verified envelopes with `decision`, the last on each, and between which times it was decided."""
    last = decided.groupBy("receipt").agg(
        F.max_by("decision", "at").alias("decision"), F.min("at").alias("first_at"), F.max("at").alias("last_at")
    )
    both = facts.join(last, on="receipt", how="left")
    return both.select(
        *facts.columns,
        "decision",
        F.coalesce("first_at", "observed_at").alias("first_at"),
        F.coalesce("last_at", "observed_at").alias("last_at"),
    )


def possible(envelopes: DataFrame, terms: Terms) -> DataFrame:
    """Those that may rightly have been matched."""
    alive = F.col("expires_at") * 1000 > F.col("first_at") - terms.grace
    return envelopes.where(F.col("flaw").isNull() & alive).withColumn("about", _about())


def rules_then(lake: EventLake, envelopes: DataFrame, since: int, now: int) -> DataFrame:
    """When the rules that name these envelopes were in force, from `since` on."""
    genuine = envelopes.where(F.col("flaw").isNull())
    rules = kept(named(known(lake, EventKind.RULES, since, now), genuine))
    owners = rules.select("subscription_id").distinct()
    subscriptions = known(lake, EventKind.SUBSCRIPTION, since, now)
    theirs = subscriptions.join(broadcast_if_few(owners), on="subscription_id", how="leftsemi")
    return kept(in_force(rules, theirs))


def decisions(notified: DataFrame, envelopes: DataFrame, start: int, limits: LimitHistory) -> DataFrame:
    """One decision for each receipt and subscription; `judged` if the envelope is one of `envelopes`.

    The others left traces: they filled a window shortly before.
    """
    about = envelopes.select("receipt", _about().alias("about"), F.lit(True).alias("judged"))
    marked = notified.join(about, on="receipt", how="left")
    recent = F.col("at") >= start - SKEW - limits.reach
    near = marked.where(F.col("judged") | recent)
    queued_first = F.struct(F.col("decision") != NotificationDecision.QUEUED, "at")
    values = [name for name in notified.columns if name not in _WHO]
    whole = F.min_by(F.struct(*values, "about", "judged"), queued_first).alias("whole")
    return near.groupBy(*_WHO).agg(whole).select(*_WHO, "whole.*")


def with_caps(decided: DataFrame, limits: LimitHistory) -> DataFrame:
    """The decisions with `full`, whether a capped one may rightly be, and `overfull`, whether a queued one is too many.

    Both are looked for only where a subscription has enough decisions for either. A worker knows of all that was queued
    or less, so a cap that comes too late is right up to twice its count. Next to a change, any of two caps will do.
    """
    caps = sorted(limits.caps, key=lambda cap: (cap.count, cap.window))
    queued = F.count_if(F.col("decision") == NotificationDecision.QUEUED)
    busy = decided.groupBy("subscription_id").agg(queued.alias("queued")).where(F.col("queued") >= caps[0].count)
    marked = decided.withColumn("judged_at", F.coalesce("judged_at", "at")).join(
        F.broadcast(busy.select("subscription_id", F.lit(True).alias("busy"))), on="subscription_id", how="left"
    )
    rest = marked.where(F.col("busy").isNull()).select("*", F.lit(False).alias("full"), F.lit(False).alias("overfull"))
    by_time = Window.partitionBy("subscription_id").orderBy("judged_at")
    counted = marked.where("busy")
    for number, cap in enumerate(caps):
        counted = counted.withColumn(f"near_{number}", queued.over(by_time.rangeBetween(1 - cap.window, 0)))
    full, overfull = [], []
    for number, cap in enumerate(caps):
        near, applies = F.col(f"near_{number}"), limits.has_cap(cap)
        full.append(applies & (F.max(near).over(by_time.rangeBetween(0, cap.window - 1)) >= cap.count))
        overfull.append(~applies | (near > 2 * cap.count))
    looked_at = counted.withColumn("full", reduce(or_, full)).withColumn("overfull", reduce(and_, overfull))
    return rest.unionByName(looked_at.select(rest.columns)).drop("busy")


def comparisons(wanted: DataFrame, decided: DataFrame, pushes: DataFrame, terms: Terms) -> DataFrame:
    """What was wanted, what was decided, and what came of it as `pushed`: the columns `verdicts.COMPARISON` besides."""
    both = _nested(wanted, "wanted").join(_nested(decided, "decided"), on=list(_WHO), how="full")
    pushed = both.join(_nested(pushes, "pushed"), on=list(_WHO), how="left")
    known = pushed.withColumn("about", F.coalesce("decided.about", "wanted.about")).select(*pushed.columns, "about.*")
    unexpired = F.col("expires_at") * 1000 > F.col("last_at") + terms.grace
    either = ("network", "envelope_id", "sender", "client_id", "channel")
    pushed_under = F.when(F.col("decided.decision") == NotificationDecision.QUEUED, F.col("decided.key"))
    return known.select(
        *_WHO,
        *(F.coalesce(f"decided.{name}", f"wanted.{name}").alias(name) for name in either),
        F.coalesce(pushed_under, "wanted.key", "decided.key").alias("key"),
        "wanted.wanted",
        F.coalesce("observed_at", "decided.at").alias("observed_at"),
        F.coalesce("decided.at", "last_at").alias("at"),
        "decided.order",
        F.coalesce("decided.judged_at", F.greatest("observed_at", F.col("last_at") - LATENESS)).alias("judged_at"),
        "decided.counted",
        _flag("decided.full").alias("full"),
        _flag("decided.overfull").alias("overfull"),
        F.col("decided.decision").alias("found"),
        _against().alias("against"),
        F.coalesce("wanted.refusals", F.array().cast("array<string>")).alias("refusals"),
        _flag(F.col("wanted.certain") & unexpired).alias("sure"),
        F.col("decision").alias("of_envelope"),
        F.coalesce(F.col("decided.judged"), F.col("wanted").isNotNull()).alias("judged"),
        "pushed",
    )


def _about() -> Column:
    """What comparisons need to know of an envelope."""
    return F.struct("observed_at", "flaw", "expires_at", "decision", "first_at", "last_at")


def _nested(rows: DataFrame, name: str) -> DataFrame:
    """All columns but `_WHO` as one."""
    return rows.select(*_WHO, F.struct(*(column for column in rows.columns if column not in _WHO)).alias(name))


def _flag(value: Column | str) -> Column:
    return F.coalesce(value, F.lit(False))


def _against() -> Column:
    """Why a subscription has no claim to an envelope; null if it has, and if nobody can say any more."""
    return (
        F.when(F.col("wanted").isNotNull(), F.col("wanted.refusal"))
        .when(F.col("flaw") == GONE, None)
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


def undelivered(compared: DataFrame, terms: Terms) -> DataFrame:
    """What was queued and then lost on its way to the provider, or came late."""
    queued = compared.where((F.col("found") == NotificationDecision.QUEUED) & F.col("judged"))
    after = queued.select(*compared.columns, "pushed.*")
    stale = F.col("last.decision") == PushDecision.STALE
    given_up = F.concat(
        F.lit("given up after attempt "), "last.attempt", F.lit(": "), F.coalesce("last.reason", "last.decision")
    )
    late = F.concat(F.lit("delivered after "), F.col("latency_ms"), F.lit(" ms"))
    difference = (
        F.when(F.col("last").isNull(), as_difference(Difference.MISSING, F.lit("queued, but never tried")))
        .when(stale, as_difference(Difference.LATE, F.lit("too late to be of use")))
        .when(~F.col("done"), as_difference(Difference.MISSING, given_up))
        .when(F.col("latency_ms") > terms.late, as_difference(Difference.LATE, late))
    )
    return after.withColumn("it", difference).where(F.col("it").isNotNull()).select("*", "it.*").select(*DIFFERENCES)


def unknowable(envelopes: DataFrame) -> DataFrame:
    """What was never decided and can't be any more: for whom, and whether for anybody, went with its bytes."""
    gone = envelopes.where((F.col("flaw") == GONE) & F.col("decision").isNull())
    evidence = F.concat(F.lit("never decided, and nothing is left at "), "location")
    nobody = [F.lit(None).cast("string").alias(name) for name in ("subscription_id", "channel", "wanted")]
    nothing = [F.lit(None).cast("binary").alias(name) for name in ("client_id", "key")]
    known = gone.select(
        "receipt",
        "network",
        "envelope_id",
        "sender",
        F.col("last_at").alias("at"),
        *nobody,
        *nothing,
        as_difference(Difference.MISSING, evidence).alias("it"),
    )
    return known.select("*", "it.*").select(*DIFFERENCES)


def replays(lake: EventLake, since: int) -> DataFrame:
    """`receipt, subscription_id` of what was sent to the live system again since then."""
    return lake.plans(since).select(*_WHO).distinct()


def without_repaired(differences: DataFrame, pushes: DataFrame, replayed: DataFrame) -> DataFrame:
    """A replay has repaired what was lost, once its push has come to an end; that it came late was known."""
    ended = pushes.where(F.col("ended")).select(*_WHO)
    repaired = replayed.join(ended, on=list(_WHO), how="leftsemi")
    both = [F.col(f"differs.{name}") == F.col(f"repaired.{name}") for name in _WHO]
    known = F.col("difference") != Difference.UNEXPECTED
    return differences.alias("differs").join(repaired.alias("repaired"), on=[*both, known], how="leftanti")
