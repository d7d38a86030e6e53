"""`reconcile`: recompute from envelopes, rules and limits what should have happened, and compare it with what did.

    observed ──▶ verified ─────────────┐
    rules, subscriptions ──▶ in force ─┤
    envelopes, notifications, pushes ──┴─▶ in doubt ──▶ comparisons ─┬─▶ missing, wrongly dropped, unexpected
    limits ──────────────────────────────▶ near a limit ──▶ admission┘
    push events of what was queued ──────────────────────────────────▶ missing, late
    envelope events that no observation belongs to ──────────────────▶ missing

Only envelopes observed in the period are judged, by all events up to now. On a healthy period nothing differs. Of a
small lake all is compared, without asking first what is in doubt.
"""

from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from clarion.decisions import NotificationDecision, PushDecision
from clarion.limiter import SKEW
from pipeline.columns import NOTIFICATION_KEY, EventKind
from pipeline.findings import Difference
from pipeline.in_force.limits import LimitHistory
from pipeline.in_force.rules import in_force, without_seams
from pipeline.in_force.states import known_files, limit_history, states_since
from pipeline.lake.commits import LAKE_ERRORS, LakeView
from pipeline.lake.dedup import decided_once
from pipeline.lake.event_lake import DIFFERENCES, EventLake
from pipeline.lake.schemas import DIFFERENCE
from pipeline.lake.snapshots import CLAIM_LOOKBACK_MS, CLAIMS, IN_FORCE
from pipeline.period import HOUR_MS, Period, arrivals
from pipeline.reconciliation.caps import with_caps
from pipeline.reconciliation.claims import (
    CLAIM,
    CLAIM_KEY,
    add_claims,
    claims_of,
    claims_on,
    claims_on_ids,
    decision_lookback,
    earlier_claims,
)
from pipeline.reconciliation.compare import Records, buckets_in_doubt, compare_envelopes, only_verified, outcomes, waits
from pipeline.reconciliation.doubt import buckets_of, clients_near_limit, within
from pipeline.reconciliation.verdicts import as_difference, contradictions
from pipeline.reconciliation.verify import GONE, verified
from pipeline.reconciliation.wanted import is_decided_soon, rules_naming
from pipeline.spark.frames import broadcast_if_few, checkpoint, checkpoint_and_broadcast
from pipeline.spark.session import is_small
from pipeline.terms import Terms

_OTHERS = (EventKind.OBSERVED, EventKind.ENVELOPE, EventKind.PUSH)
_FINDING_KINDS = (EventKind.OBSERVED, EventKind.ENVELOPE, EventKind.NOTIFICATION)
"""Without lines of any of these kinds from the period up to now, there is nothing to find."""
MIN_ROW_BYTES = 160
"""Of Parquet, a line of a usual day."""


@dataclass(frozen=True)
class Findings:
    """`differences` are in `DIFFERENCE`; `unjudged` are `receipt, subscription_id, network`; `claims` in `CLAIM`.

    Of what is unjudged, a secret says whether it was wanted: see `wanted.expected`. `unread` are `receipt, network` of
    large envelopes that were decided, and whose objects are not there.
    """

    differences: DataFrame
    unjudged: DataFrame
    claims: DataFrame
    unread: DataFrame


def reconcile(
    lake: EventLake, period: Period, now: int, terms: Terms, claim_lookback: int = CLAIM_LOOKBACK_MS
) -> Findings:
    """Differences that `replay` has repaired are no longer any.

    Claims are known that were made up to `claim_lookback` milliseconds before the period: without older ones, what was
    dropped as a duplicate of theirs seems to be `wrongly_dropped`, and what was lost beside them `missing`.
    """
    limits = limit_history(lake.view, period.start, now, terms.grace_of_limits)
    if not any(lake.view.files(kind, arrivals(period, now)) for kind in _FINDING_KINDS):
        return _no_findings(lake)
    records = recorded(
        lake, period, now, claim_lookback, decision_lookback(lake.root, period, limits.reach, terms.lookback)
    )
    if is_small(lake.spark):
        # To compare all of it takes less than to find out what has to be.
        fates, compared = compare_envelopes(records, None, terms)
        pushed = records.pushed
    else:
        doubtful = checkpoint_and_broadcast(buckets_in_doubt(records, period, terms))
        fates, compared = compare_envelopes(records, doubtful, terms)
        compared = with_clients_near_limit(records, compared, doubtful, limits, terms)
        pushed = within(records.pushed, doubtful)
    claims = checkpoint(claims_on(only_verified(fates), records.earlier, compared))
    bearing = with_caps(compared.where(_bears_on(period.start, limits)), limits)
    astray = checkpoint(contradictions(add_claims(bearing, claims, terms.grace), limits))
    gone = gone_before_decision(fates, compared)
    lost = (
        lost_or_late(compared, astray, terms, now),
        gone,
        decided_without_observation(fates, records, period),
        decided_without_envelope(compared, records, period),
    )
    secret = compared.where(F.col("judged") & F.col("found").isNotNull() & (F.size("refusals") > 0))
    differences = without_repaired(
        reduce(DataFrame.unionByName, (astray, *lost)), outcomes(pushed), replays(lake, period.start)
    )
    nowhere = records.facts.where(F.col("flaw") == GONE).select("receipt", "network").distinct()
    unread = nowhere.join(gone.select("receipt"), on="receipt", how="leftanti")
    return Findings(differences, secret.select(*NOTIFICATION_KEY, "network"), all_claims(records), unread)


def _no_findings(lake: EventLake) -> Findings:
    nothing = lake.read_files(DIFFERENCES, DIFFERENCE, ())
    unjudged = nothing.select(*NOTIFICATION_KEY, "network")
    return Findings(nothing, unjudged, lake.read_days(CLAIMS, CLAIM, ()), unjudged.select("receipt", "network"))


def with_clients_near_limit(
    records: Records, compared: DataFrame, doubtful: DataFrame, limits: LimitHistory, terms: Terms
) -> DataFrame:
    """The comparisons with all those of clients who may have reached a limit."""
    clients = checkpoint_and_broadcast(
        clients_near_limit(records.notified, compared.where(F.col("found").isNull()), limits)
    )
    if clients.isEmpty():
        return compared
    others = checkpoint_and_broadcast(buckets_of(records.notified, clients).join(doubtful, on="bucket", how="leftanti"))
    return checkpoint(compared.unionByName(compare_envelopes(records, others, terms)[1]))


def size_of(view: LakeView, period: Period, now: int, terms: Terms) -> int:
    """About how many bytes of Parquet a reconciliation reads, by the manifests.

    A line of what happened counts for `MIN_ROW_BYTES` at least: however well packed, it is compared like any other.
    """
    try:
        reach = limit_history(view, period.start, now).reach
    except LAKE_ERRORS:
        # Whoever looks at the hours names what is gone.
        reach = HOUR_MS
    decided = arrivals(
        Period(period.start - decision_lookback(view.root, period, reach, terms.lookback), period.end), now
    )
    files = [*view.files(EventKind.NOTIFICATION, decided)]
    files += (file for kind in _OTHERS for file in view.files(kind, arrivals(period, now)))
    events = sum(max(file.bytes, MIN_ROW_BYTES * file.lines) for file in files)
    return events + sum(file.bytes for kind in IN_FORCE for file in known_files(view, kind, period.start, now))


def recorded(lake: EventLake, period: Period, now: int, claim_lookback: int, decision_lookback: int) -> Records:
    """Decisions from `decision_lookback` milliseconds before the period on, and claims from `claim_lookback` on."""
    since = arrivals(period, now)
    facts = checkpoint(verified(lake.file_paths(EventKind.OBSERVED, since), period, lake.oversize))
    return Records(
        facts,
        observed=lake.read(EventKind.OBSERVED, since),
        envelopes=lake.read(EventKind.ENVELOPE, since),
        notified=lake.read(EventKind.NOTIFICATION, arrivals(Period(period.start - decision_lookback, period.end), now)),
        pushed=lake.read(EventKind.PUSH, since),
        rules=rules_then(lake, facts, period.start, now),
        earlier=claims_on_ids(earlier_claims(lake, period, now, claim_lookback), facts),
        oversize=lake.oversize,
    )


def rules_then(lake: EventLake, facts: DataFrame, since: int, now: int) -> DataFrame:
    """When the rules that name these envelopes were in force, from `since` on."""
    genuine = facts.where(F.col("flaw").isNull())
    rules = checkpoint(rules_naming(states_since(lake, EventKind.RULES, since, now), genuine))
    owners = rules.select("subscription_id").distinct()
    subscriptions = states_since(lake, EventKind.SUBSCRIPTION, since, now)
    theirs = subscriptions.join(broadcast_if_few(owners), on="subscription_id", how="leftsemi")
    return checkpoint(without_seams(in_force(rules, theirs)))


def _bears_on(start: int, limits: LimitHistory) -> Column:
    """Whether a comparison is judged, or left traces: it filled a window shortly before `start`."""
    return F.col("judged") | (F.col("at") >= start - SKEW - limits.reach)


def all_claims(records: Records) -> DataFrame:
    """Those that were made on the verified envelopes, in `CLAIM`."""
    notified = records.notified.select(*NOTIFICATION_KEY, "envelope_id", "decision", "at").repartition("receipt")
    found = decided_once(notified).withColumnRenamed("decision", "found").withColumn("judged", F.lit(True))
    return claims_of(found, records.facts.groupBy("receipt").agg(F.max("expires_at").alias("expires_at")))


def lost_or_late(compared: DataFrame, astray: DataFrame, terms: Terms, now: int) -> DataFrame:
    """What was queued and has not reached its provider yet, or came late; not what is `astray` anyway."""
    judged = compared.where((F.col("found") == NotificationDecision.QUEUED) & F.col("judged"))
    queued = _once(judged, compared).join(astray.select(*NOTIFICATION_KEY), on=list(NOTIFICATION_KEY), how="leftanti")
    after = queued.select(*compared.columns, "pushed.*")
    stale = F.col("last.decision") == PushDecision.STALE
    why = F.coalesce("last.reason", "last.decision")
    waiting = F.concat(F.lit("waits, tried "), "last.attempt", F.lit(" times: "), why)
    given_up = F.concat(F.lit("given up after attempt "), "last.attempt", F.lit(": "), why)
    undone = F.when(waits(now), waiting).otherwise(given_up)
    late = F.format_string("delivered after %.1f s", F.col("latency_ms") / 1_000)
    difference = (
        F.when(F.col("last").isNull(), as_difference(Difference.MISSING, F.lit("queued, but never tried")))
        .when(stale, as_difference(Difference.LATE, F.lit("too late to be of use")))
        .when(~F.col("done"), as_difference(Difference.MISSING, undone))
        .when(F.col("latency_ms") > terms.late, as_difference(Difference.LATE, late))
    )
    differing = after.withColumn("it", difference).where(F.col("it").isNotNull())
    return differing.select("*", "it.*").select(*DIFFERENCE.names)


def _once(judged: DataFrame, compared: DataFrame) -> DataFrame:
    """Without a receipt that has no final push, if another receipt of the same claim has one: one push was enough."""
    untried = judged.where(~F.coalesce(F.col("pushed.done"), F.lit(False)))
    ended = compared.where((F.col("found") == NotificationDecision.QUEUED) & F.col("pushed.done"))
    needless = checkpoint_and_broadcast(
        untried.join(ended.select(*CLAIM_KEY).distinct(), on=list(CLAIM_KEY), how="leftsemi").select(*NOTIFICATION_KEY)
    )
    return judged if needless.isEmpty() else judged.join(needless, on=list(NOTIFICATION_KEY), how="leftanti")


def decided_without_envelope(compared: DataFrame, records: Records, period: Period) -> DataFrame:
    """What was decided for subscriptions of the period's envelopes of which nothing else is left.

    Of what was decided soon, `judged_at` is when the envelope was observed.
    """
    alone = compared.where(
        F.col("found").isNotNull() & ~F.col("judged") & period.has(F.col("judged_at")) & is_decided_soon()
    )
    rows = alone.where(F.lit(False)).withColumn("last_at", F.col("at"))
    if not alone.isEmpty():
        known = records.observed.select("receipt").unionByName(records.envelopes.select("receipt"))
        unknown = checkpoint(alone.join(known, on="receipt", how="leftanti").dropDuplicates(["receipt"]))
        rows = unknown.withColumn("last_at", F.col("at"))
    return _missing_envelopes(rows, F.concat("found", F.lit(", but nothing else about its envelope is in the lake")))


def gone_before_decision(fates: DataFrame, compared: DataFrame) -> DataFrame:
    """What was never decided and can't be any more: for whom, and whether for anybody, went with its bytes."""
    gone = fates.where((F.col("flaw") == GONE) & F.col("decision").isNull())
    if not gone.isEmpty():
        decided = compared.where(F.col("found").isNotNull()).select("receipt").distinct()
        gone = gone.join(decided, on="receipt", how="leftanti")
    return _missing_envelopes(gone, F.concat(F.lit("never decided, and nothing is left at "), "location"))


def decided_without_observation(fates: DataFrame, records: Records, period: Period) -> DataFrame:
    """What was decided of the period's envelopes that no line of `observed` is about: nobody can say whether rightly.

    Where ingest stops between sending an envelope and recording it, it does both again under another receipt: then
    that one is judged.
    """
    others = fates.where(F.col("observed_at").isNull() & period.has(F.col("said"))).select("receipt", "last_at")
    decided, hidden = records.envelopes, records.envelopes.limit(0).withColumn("last_at", F.col("at"))
    if not others.isEmpty():
        # Large envelopes whose bytes are not read have lines, too.
        lines = records.observed.select("receipt").join(broadcast_if_few(others), on="receipt", how="leftsemi")
        unknown = broadcast_if_few(others.join(lines, on="receipt", how="leftanti"))
        judged = fates.where(F.col("observed_at").isNotNull()).select("envelope_id")
        again = judged.unionByName(decided.where(~period.has(F.col("observed_at"))).select("envelope_id"))
        hidden = decided.join(unknown, on="receipt").join(again, on="envelope_id", how="leftanti")
    last = hidden.where(F.col("at") == F.col("last_at")).dropDuplicates(["receipt"])
    return _missing_envelopes(last, F.concat("decision", F.lit(", but its observation is not in the lake")))


def _missing_envelopes(envelopes: DataFrame, evidence: Column) -> DataFrame:
    """As missing, for nobody in particular."""
    known = ("receipt", "network", "envelope_id", "sender", F.col("last_at").alias("at"))
    nobody = [F.lit(None).cast("string").alias(name) for name in ("subscription_id", "channel", "wanted")]
    nothing = [F.lit(None).cast("binary").alias(name) for name in ("client_id", "key")]
    found = as_difference(Difference.MISSING, evidence).alias("it")
    return envelopes.select(*known, *nobody, *nothing, found).select("*", "it.*").select(*DIFFERENCE.names)


def replays(lake: EventLake, since: int) -> DataFrame:
    """`receipt, subscription_id` of what was sent to the live system again since then."""
    return lake.plans(since).select(*NOTIFICATION_KEY).distinct()


def without_repaired(differences: DataFrame, pushes: DataFrame, replayed: DataFrame) -> DataFrame:
    """Without what a replay repaired: its push was taken or refused by a provider. `unexpected` ones stay."""
    done = pushes.where(F.col("done")).select(*NOTIFICATION_KEY)
    repaired = replayed.join(done, on=list(NOTIFICATION_KEY), how="leftsemi")
    both = [F.col(f"differs.{name}") == F.col(f"repaired.{name}") for name in NOTIFICATION_KEY]
    known = F.col("difference") != Difference.UNEXPECTED
    return differences.alias("differs").join(repaired.alias("repaired"), on=[*both, known], how="leftanti")
