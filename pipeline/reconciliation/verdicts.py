"""What contradicts rules, claims and limits, of all that `reconcile` compares.

    comparisons ──▶ mark_busy_pairs ──▶ judge_without_limits ──▶ keep_pairs_near_limit ──▶ sort_for_replay ─┐
                                                contradictions ◀── over a limit? ◀── limit_replay ◀─────────┘

One stage does it, which sorts anew for each step. The limits are replayed by `limit_replay`, for those pairs that may
have reached one. Most never have as many decisions as a limit lets pass, or never within its window: of them only what
is wrong anyway goes on.
"""

from collections.abc import Callable, Iterator
from functools import partial, reduce
from operator import or_

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from clarion.decisions import EnvelopeDecision, NotificationDecision
from clarion.limiter import SKEW
from pipeline.findings import Difference
from pipeline.in_force.limits import LimitHistory
from pipeline.lake.schemas import DIFFERENCE
from pipeline.reconciliation.claims import CLAIMING
from pipeline.reconciliation.limit_replay import replay_batches

COMPARISON = (
    "receipt", "subscription_id", "network", "envelope_id", "sender", "client_id", "key", "channel", "wanted", "at",
    "order", "judged_at", "counted", "full", "overfull", "found", "against", "refusals", "sure", "of_envelope", "judged",
)  # fmt: skip
"""The columns of one envelope for one subscription: what the live system decided, and what there is to judge that by.

`found` is its decision, if there was one; `against` says why the subscription has no claim to it, if so; `sure`
whether it surely had one, unless a secret decides that: then any of `refusals` may be right as well. `of_envelope` is
the decision on the whole envelope. What is not `judged` lies outside the period and only leaves its traces. `judged_at`
is the time that the limit judged it by, or would have, and `counted` whether it was the first to be counted. `full`
says whether its subscription had reached the cap, and `overfull` that it was sent twice as much.
"""

# Sorts compare the first eight bytes of what comes first, and the rest only of those that are equal.
_PAIR = ("client_id", "sender", "network")
_ENVELOPE = (*_PAIR, "envelope_id")
_CLAIM = (*_ENVELOPE, "subscription_id")
_SHOWN = ("at", "receipt")
"""The order of a claim's receipts."""


def contradictions(comparisons: DataFrame, history: LimitHistory) -> DataFrame:
    """Those of `comparisons` (columns `COMPARISON`) where the live system did otherwise than was right."""
    judged = judge_without_limits(mark_busy_pairs(comparisons.select(*COMPARISON), history))
    replayed = sort_for_replay(keep_pairs_near_limit(judged, history), history)
    return replayed.mapInArrow(partial(replay_batches, history=history, names=DIFFERENCE.names), DIFFERENCE)


def mark_busy_pairs(comparisons: DataFrame, history: LimitHistory) -> DataFrame:
    """The comparisons; they `may_reach_limit` if their pair has more of them than a limit lets pass in its window."""
    # The same order as in the next step spares it the sort.
    everywhere = _whole(Window.partitionBy(*_PAIR).orderBy(*_CLAIM[len(_PAIR) :], *_SHOWN))
    return comparisons.withColumn(
        "may_reach_limit", _of_limits(history, lambda least, _: F.count("*").over(everywhere) > least)
    )


def judge_without_limits(comparisons: DataFrame) -> DataFrame:
    """The comparisons with `difference` and `evidence` of those that are wrong even if no limit was reached.

    Of several receipts of an envelope one has a claim: the first that was queued. Where none was, and it was not over
    the limit either, the first that should have been is the one that is lost.
    """
    of_claim = Window.partitionBy(*_CLAIM).orderBy(*_SHOWN)
    before = of_claim.rowsBetween(Window.unboundedPreceding, -1)
    claims = F.coalesce(F.col("found").isin(*CLAIMING), F.lit(False))
    shown = comparisons.withColumns({"claims": claims, "lost": _is_lost()}).withColumns(
        {
            "others": F.count_if("claims").over(_whole(of_claim)) - F.col("claims").cast("long"),
            "words": F.collect_set("found").over(_whole(of_claim)),
            "first": F.first(F.when(_is_queued(), F.col("receipt")), ignorenulls=True).over(before),
            "lost_before": F.coalesce(F.bool_or(F.col("lost") & ~F.col("claims")).over(before), F.lit(False)),
        }
    )
    elsewhere = (
        (F.col("others") > 0) | F.arrays_overlap("words", "refusals") | (~F.col("claims") & F.col("lost_before"))
    )
    verdict = F.when(F.col("judged") & _is_queued(), _unexpected()).when(F.col("lost") & ~elsewhere, _lost())
    return shown.withColumn("it", verdict).select(*comparisons.columns, "it.difference", "it.evidence")


def keep_pairs_near_limit(judged: DataFrame, history: LimitHistory) -> DataFrame:
    """All rows of those pairs that may have reached a limit (`may_reach_limit`); of the others, what is wrong anyway.

    A limit refuses nothing of a pair that never had more than its count within its window.
    """
    wrong = F.col("difference").isNotNull()
    by_time = Window.partitionBy(*_PAIR).orderBy("judged_at")
    close = _of_limits(
        history, lambda least, widest: F.col("judged_at") - F.lag("judged_at", least).over(by_time) < widest
    )
    marked = judged.where(F.col("may_reach_limit") | wrong).withColumn("close", close)
    some = marked.withColumn("may_reach_limit", F.bool_or("close").over(_whole(by_time))).drop("close")
    return some.where(F.col("may_reach_limit") | wrong)


def sort_for_replay(rows: DataFrame, history: LimitHistory) -> DataFrame:
    """The rows sorted by pair as they happened: by time, but by the version of the pair's window where that is known.

    Who was queued without that it was counted, then or for another subscription, may have been counted by an attempt
    that came to no end, so that only its retry was recorded. So that the replay may know in time, such a row of a
    pair near its limit and all that was counted there are given twice: once `ahead` of all that they may have a bearing
    on, the latter first.
    """
    widest = max((window for _, (_, window) in _extremes(history)), default=0)
    was_counted = _is_queued() & F.coalesce("counted", F.lit(False))
    somewhere = F.bool_or(was_counted).over(Window.partitionBy(*_ENVELOPE))
    unrecorded = _is_queued() & ~F.coalesce("counted", F.lit(True)) & ~somewhere
    matters = F.bool_or("unrecorded").over(Window.partitionBy(*_PAIR)) & (F.col("unrecorded") | was_counted)
    looked_at = F.col("may_reach_limit") & matters
    latest = F.max(F.when(F.col("order").isNotNull(), F.col("at"))).over(
        Window.partitionBy(*_PAIR).orderBy("order", "at")
    )
    once = F.struct(F.lit(False).alias("ahead"), F.coalesce("latest", "at").alias("happened"))
    before = F.col("judged_at") - SKEW - F.when(F.col("unrecorded"), widest).otherwise(2 * widest)
    again = F.struct(F.lit(True).alias("ahead"), before.alias("happened"))
    marked = rows.withColumn("unrecorded", unrecorded).withColumn("looked_at", looked_at).withColumn("latest", latest)
    places = F.when(F.col("looked_at"), F.array(once, again)).otherwise(F.array(once))
    version = F.coalesce("order", F.lit(0))
    return marked.select("*", F.inline(places)).sortWithinPartitions(*_PAIR, "happened", version, ~_is_queued())


def _of_limits(history: LimitHistory, reached: Callable[[int, int], Column]) -> Column:
    """For each pair that has a limit, what is said of the least count and the widest window it ever had."""
    of_networks = (
        (F.col("network") == name) & F.col("sender").isNotNull() & F.coalesce(reached(*terms), F.lit(False))
        for name, terms in _extremes(history)
    )
    return reduce(or_, of_networks, F.lit(False))


def _extremes(history: LimitHistory) -> Iterator[tuple[str, tuple[int, int]]]:
    """Of each network that limits pairs, the least count and the widest window."""
    for name, spans in history.spans.items():
        if limits := [span.limit for span in spans if span.limit]:
            yield name, (min(limit.count for limit in limits), max(limit.window for limit in limits))


def _whole(window: WindowSpec) -> WindowSpec:
    return window.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)


def _is_queued() -> Column:
    return F.coalesce(F.col("found") == NotificationDecision.QUEUED, F.lit(False))


def _is_lost() -> Column:
    """Whether it should have been queued, unless another receipt of its claim was."""
    refused = F.coalesce(F.array_contains("refusals", F.col("found")), F.lit(False))
    wanted = F.col("judged") & F.col("sure") & F.col("against").isNull()
    return wanted & ~_is_queued() & ~F.col("full") & ~refused


def _unexpected() -> Column:
    why = F.coalesce(
        "against",
        F.concat(F.lit("already queued under receipt "), "first"),
        F.when(F.col("overfull"), F.lit("over the cap of its subscription")),
    )
    return F.when(why.isNotNull(), as_difference(Difference.UNEXPECTED, why))


def _lost() -> Column:
    never = F.col("of_envelope").isNull()
    undecided = F.when(never, F.lit("never decided")).otherwise(F.lit("matched, but no notification decided"))
    word = F.coalesce("found", "of_envelope")
    unseen = F.col("found").isNull() & (never | (F.col("of_envelope") == EnvelopeDecision.MATCHED))
    dropped = F.concat(word, F.lit(", which nothing bears out"))
    return F.when(unseen, as_difference(Difference.MISSING, undecided)).otherwise(
        as_difference(Difference.WRONGLY_DROPPED, dropped)
    )


def as_difference(difference: Difference, evidence: Column) -> Column:
    """A struct of `difference` and `evidence`."""
    return F.struct(F.lit(str(difference)).alias("difference"), evidence.alias("evidence"))
