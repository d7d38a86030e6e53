"""What was wanted, decided and pushed, notification by notification.

Of all that a small lake has; of a larger one, of what `pipeline.reconciliation.doubt` leaves to compare.

envelopes, decisions on them ──▶ fates ──▶ possible ──▶ asked ──▶ wanted ─┐
notifications ───────────────────────────────────────────────▶ decisions ─┼─▶ comparisons
pushes ───────────────────────────────────────────────────────▶ outcomes ─┘
"""

from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from clarion.decisions import REACHED, EnvelopeDecision, NotificationDecision, PushDecision
from clarion.limiter import LATENESS
from pipeline.columns import NOTIFICATION_KEY
from pipeline.lake.dedup import decided_once
from pipeline.period import QUEUED_MS, Period
from pipeline.reconciliation.doubt import (
    asked_fingerprints,
    claimed_fingerprints,
    concerned,
    decided_fingerprints,
    in_doubt,
    is_final,
    pushed_fingerprints,
    receipts_of,
    shown_fingerprints,
    within,
)
from pipeline.reconciliation.verify import GONE
from pipeline.reconciliation.wanted import asked, expected, in_force_at, in_force_throughout, is_alive, with_answers
from pipeline.spark.frames import (
    NUMBERS,
    broadcast_if_few,
    checkpoint,
    checkpoint_and_broadcast,
    number_of,
    word_of,
)
from pipeline.terms import Terms


@dataclass(frozen=True)
class Records:
    """All that a period is judged by: what its envelopes say, kinds of the lake, rules in force, and earlier claims.

    `facts` are in `verify.VERIFIED`, `rules` as `rules.in_force` gives them, `earlier` in `claims.CLAIM`; `oversize` as in
    `event_lake.EventLake`.
    """

    facts: DataFrame
    observed: DataFrame
    envelopes: DataFrame
    notified: DataFrame
    pushed: DataFrame
    rules: DataFrame
    earlier: DataFrame
    oversize: str | None


def buckets_in_doubt(records: Records, period: Period, terms: Terms) -> DataFrame:
    """`bucket, envelope`: see `pipeline.reconciliation.doubt`."""
    return in_doubt(
        asked_fingerprints(records.facts, records.envelopes, records.rules, terms.grace),
        shown_fingerprints(records.facts, records.envelopes, period),
        decided_fingerprints(records.notified, period),
        pushed_fingerprints(records.pushed, terms.late),
        claimed_fingerprints(records.earlier),
    )


def compare_envelopes(records: Records, buckets: DataFrame | None, terms: Terms) -> tuple[DataFrame, DataFrame]:
    """What became of the envelopes that have one of the buckets, as `dated` gives it, and their `comparisons`.

    Without `buckets`, of all envelopes.
    """
    latest = latest_decisions(records.notified, buckets)
    if buckets is not None:
        records = narrowed(records, buckets)
    fates = checkpoint(with_latest(join_decisions(records.facts, records.envelopes), latest))
    envelopes = only_verified(fates)
    matched = asked(possible(envelopes, terms), records.rules, grace_ms=terms.grace)
    own = own_decisions(records.notified, envelopes, terms.grace)
    matched = checkpoint(by_own_decision(matched if buckets is None else within(matched, buckets), own, terms.grace))
    wanted = expected(with_answers(matched, records.observed, records.oversize))
    decided, pushes = decisions(records.notified, envelopes), outcomes(records.pushed)
    return fates, checkpoint(comparisons(wanted, decided, pushes, terms))


def narrowed(records: Records, buckets: DataFrame) -> Records:
    """What concerns some buckets; but for `observed`, `rules` and `earlier`."""
    notified = checkpoint(within(records.notified, buckets))
    receipts = checkpoint_and_broadcast(receipts_of(notified))
    return replace(
        records,
        facts=concerned(records.facts, buckets, receipts),
        envelopes=concerned(records.envelopes, buckets, receipts),
        notified=notified,
        pushed=within(records.pushed, buckets),
    )


def join_decisions(facts: DataFrame, decided: DataFrame) -> DataFrame:
    """The verified envelopes with `decision`, the last on it, and between which times it was decided.

    Of what was decided and is not among them, there is the time it was `said` to be observed at, and no `observed_at`.
    Numbers are aggregated: of these Spark keeps a table of hashes, and of anything else it sorts the rows.
    """
    last = F.max(F.col("at") * len(EnvelopeDecision) + number_of(EnvelopeDecision, F.col("decision"))).alias("last")
    said = (F.min("at").alias("first_at"), last, F.max("observed_at").alias("said"))
    once = facts.dropDuplicates(["receipt"])
    both = once.join(decided.groupBy("receipt").agg(*said), on="receipt", how="full")
    return both.select(
        *facts.columns,
        word_of(EnvelopeDecision, (F.col("last") % len(EnvelopeDecision)).cast("int")).alias("decision"),
        F.coalesce("first_at", "observed_at").alias("first_at"),
        F.coalesce(F.floor(F.col("last") / len(EnvelopeDecision)), "observed_at").alias("last_at"),
        "said",
    )


def only_verified(fates: DataFrame) -> DataFrame:
    """Those of envelopes that are among the verified."""
    return fates.where(F.col("observed_at").isNotNull()).drop("said")


def latest_decisions(notified: DataFrame, buckets: DataFrame | None) -> DataFrame:
    """`receipt, latest_at, soon_at`: when something was last decided for anybody, and within an hour of its observation.

    Of the envelopes that have one of the buckets. A page of a crowd, a remainder or a replay is decided by the rules of
    then, and no line of `envelope` is about it. What comes later than that hour is no page of a crowd. Which came sooner
    says `judged_at`, of decisions that have it.
    """
    if buckets is not None:
        some = buckets.select(F.col("envelope").alias("of_bucket")).distinct()
        notified = notified.join(
            broadcast_if_few(some, NUMBERS), on=F.xxhash64("envelope_id") == F.col("of_bucket"), how="leftsemi"
        )
    soon = F.when(F.col("judged_at") > F.col("at") - LATENESS, F.col("at"))
    return notified.groupBy("receipt").agg(F.max("at").alias("latest_at"), F.max(soon).alias("soon_at"))


def with_latest(envelopes: DataFrame, latest: DataFrame) -> DataFrame:
    """The envelopes with `latest_at` and `soon_at`, which are `last_at` at least."""
    all_soon = F.col("latest_at") < F.col("last_at") + LATENESS
    both = envelopes.join(latest, on="receipt", how="left").withColumn(
        "soon_at", F.when(all_soon, F.col("latest_at")).otherwise(F.col("soon_at"))
    )
    return both.withColumns({name: F.greatest("last_at", name) for name in ("latest_at", "soon_at")})


def own_decisions(notified: DataFrame, envelopes: DataFrame, grace_ms: int) -> DataFrame:
    """`receipt, subscription_id, decided_at` of what was decided on envelopes that others were decided on long after."""
    prolonged = envelopes.where(F.col("latest_at") > F.col("last_at") + grace_ms).select("receipt")
    theirs = notified.select(*NOTIFICATION_KEY, "decision", "at").join(
        broadcast_if_few(prolonged), on="receipt", how="leftsemi"
    )
    return broadcast_if_few(decided_once(theirs).select(*NOTIFICATION_KEY, F.col("at").alias("decided_at")))


def by_own_decision(matched: DataFrame, own: DataFrame, grace_ms: int) -> DataFrame:
    """What was `asked` until it was decided itself; if it never was, until the latest decision that came soon.

    So what is decided for one alone long after, as by a replay, leaves what others have lost as it was.
    """
    both = matched.join(own, on=list(NOTIFICATION_KEY), how="left")
    decided_at = F.greatest("about.last_at", "decided_at")
    until = F.when(F.col("decided_at").isNull(), F.col("about.soon_at")).otherwise(decided_at)
    then = both.withColumn("last_at", until).where(in_force_at(grace_ms))
    return then.withColumn("certain", in_force_throughout(grace_ms)).select(*matched.columns)


def possible(envelopes: DataFrame, terms: Terms) -> DataFrame:
    """Those that may rightly have been matched, until the latest decision."""
    alive = envelopes.where(F.col("flaw").isNull() & is_alive(terms.grace)).withColumn("about", _about())
    return alive.withColumn("last_at", F.col("latest_at"))


def decisions(notified: DataFrame, envelopes: DataFrame) -> DataFrame:
    """One decision for each receipt and subscription; `judged` if the envelope is one of `envelopes`, else null."""
    about = envelopes.select("receipt", _about().alias("about"), F.lit(True).alias("judged"))
    return decided_once(notified.join(about, on="receipt", how="left"))


def comparisons(wanted: DataFrame, decided: DataFrame, pushes: DataFrame, terms: Terms) -> DataFrame:
    """What was wanted, what was decided, and what came of it as `pushed`: the columns `verdicts.COMPARISON` besides.

    But for `full` and `overfull`, which `with_caps` adds.
    """
    # In this order no row moves: all three are spread by receipt, of which a full join leaves nothing.
    tried = _nested(decided, "decided").join(_nested(pushes, "pushed"), on=list(NOTIFICATION_KEY), how="left")
    both = _nested(wanted, "wanted").join(tried, on=list(NOTIFICATION_KEY), how="full")
    known = both.withColumn("about", F.coalesce("decided.about", "wanted.about")).select(*both.columns, "about.*")
    unexpired = F.col("expires_at") * 1000 > F.col("last_at") + terms.grace
    either = ("network", "envelope_id", "sender", "client_id", "channel")
    pushed_under = F.when(F.col("decided.decision") == NotificationDecision.QUEUED, F.col("decided.key"))
    return known.select(
        *NOTIFICATION_KEY,
        *(F.coalesce(f"decided.{name}", f"wanted.{name}").alias(name) for name in either),
        F.coalesce(pushed_under, "wanted.key", "decided.key").alias("key"),
        "wanted.wanted",
        F.coalesce("observed_at", "decided.at").alias("observed_at"),
        F.coalesce("decided.at", "last_at").alias("at"),
        "decided.order",
        # Of what a rule refused, match says no `judged_at`; outside the period nothing is known of its envelope.
        F.coalesce("decided.judged_at", F.greatest("observed_at", F.col("last_at") - LATENESS), "decided.at").alias(
            "judged_at"
        ),
        "decided.counted",
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
    return F.struct("observed_at", "flaw", "expires_at", "decision", "first_at", "last_at", "soon_at")


def _nested(rows: DataFrame, name: str) -> DataFrame:
    """All columns but `NOTIFICATION_KEY` as one."""
    return rows.select(
        *NOTIFICATION_KEY, F.struct(*(column for column in rows.columns if column not in NOTIFICATION_KEY)).alias(name)
    )


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
    final = is_final()
    last = F.max_by(F.struct("decision", "reason", "attempt", "at"), F.struct(final, "at"))
    delivered = F.min(F.when(F.col("decision").isin(*map(str, REACHED)), F.col("latency_ms")))
    ended = final | (F.col("decision") == PushDecision.STALE)
    return (
        pushed.repartition("receipt")
        .groupBy(*NOTIFICATION_KEY)
        .agg(last.alias("last"), delivered.alias("latency_ms"), F.max(final).alias("done"), F.max(ended).alias("ended"))
    )


def waits(now: int) -> Column:
    """Whether, by what `outcomes` has as `last`, a queue of dispatch's still has it.

    It is tried again within minutes, or when the provider wants it, or once its channel is no longer muted: as long as
    SQS keeps it. What dispatch gives up is `refused`. What SQS dead-letters because the function stopped each time can't
    be told from what waits.
    """
    retried = F.col("last.decision").isin(str(PushDecision.RETRY), str(PushDecision.MISCONFIGURED))
    return retried & (F.col("last.at") > now - QUEUED_MS)
