"""Which buckets of envelopes are in doubt: each case is an envelope of its own, and all are summed at once."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from clarion.limiter import LATENESS, Limit
from pipeline.in_force.limits import LimitHistory, LimitSpan
from pipeline.period import DAY_MS, FOREVER, Period
from pipeline.reconciliation.claims import CLAIM
from pipeline.reconciliation.doubt import (
    BUCKETS,
    asked_fingerprints,
    buckets_of,
    claimed_fingerprints,
    clients_near_limit,
    concerned,
    decided_fingerprints,
    in_doubt,
    pushed_fingerprints,
    receipts_of,
    shown_fingerprints,
    within,
)

START = 1_790_000_000_000
PERIOD = Period(START, START + DAY_MS)
NOON, EVE, MORROW = START + DAY_MS // 2, START - 60_000, PERIOD.end + 60_000
LATE = 60_000
FACTS = (
    "receipt string, envelope_id binary, keys array<binary>, plain array<string>, flaw string, observed_at long, "
    "expires_at long"
)
RULES = "subscription_id string, key binary, condition binary, condition_digest binary, since long, until long"
DECIDED = (
    "receipt string, envelope_id binary, subscription_id string, client_id binary, decision string, "
    "judged_at long, at long"
)
PUSHED = (
    "receipt string, envelope_id binary, subscription_id string, decision string, attempt int, latency_ms long, "
    "status int, given_up boolean"
)

type Decided = tuple[str, str, int, int]
type Pushed = (
    tuple[str, str, int, int | None] | tuple[str, str, int, int, int] | tuple[str, str, int, int, int | None, bool]
)


class Case(NamedTuple):
    """Of one envelope: its receipts, the answers to rules, each a subscription's, and what came of it.

    `decided` are receipt, decision, the time it is judged by and that of the decision, all of the subscription `s0`;
    `pushed` are receipt, decision, attempt and latency, and perhaps a provider's status, and whether it was given up.
    """

    shown: Sequence[str] = ("a",)
    answers: Sequence[str] = ("alert",)
    decided: Sequence[Decided] = (("a", "queued", NOON, NOON),)
    pushed: Sequence[Pushed] = (("a", "delivered", 1, 50),)
    condition: bytes | None = None
    digest: bytes | None = None
    since: int = 0
    claimed: Sequence[str] = ()


def queued(receipt: str, at: int = NOON) -> Decided:
    return receipt, "queued", at, at


NO_PUSH: Sequence[Pushed] = ()
CLEAR: dict[str, Case] = {
    "delivered": Case(),
    "delivered at the second attempt": Case(pushed=[("a", "retry", 1, 50), ("a", "delivered", 2, 5_050)]),
    "its token was gone": Case(pushed=[("a", "token_gone", 1, 50)]),
    "refused by its provider": Case(pushed=[("a", "retry", 1, 50), ("a", "refused", 2, 5_050, 413)]),
    "refused by its provider after many attempts": Case(pushed=[("a", "refused", 6, 50, 413, False)]),
    "received, too, as the receiver says": Case(pushed=[("a", "delivered", 1, 50), ("a", "received", 0, None)]),
    "not in scope": Case(answers=["not_in_scope"], decided=[("a", "not_in_scope", NOON, NOON)], pushed=NO_PUSH),
    "no rule, and no decision": Case(answers=[], decided=[], pushed=NO_PUSH),
    "a rule of later": Case(since=NOON + DAY_MS, decided=[], pushed=NO_PUSH),
    "of the day before": Case(shown=[], decided=[queued("a", EVE)]),
    "of the day before, with nothing of its push": Case(shown=[], decided=[queued("a", EVE)], pushed=NO_PUSH),
    "of the day after": Case(shown=[], decided=[queued("a", MORROW)]),
    "a push of something else": Case(answers=[], decided=[]),
}
DOUBTFUL: dict[str, Case] = {
    "never decided": Case(decided=[], pushed=NO_PUSH),
    "never decided, but pushed": Case(decided=[]),
    "dropped": Case(decided=[("a", "rate_limited", NOON, NOON)], pushed=NO_PUSH),
    "not in scope, but queued": Case(answers=["not_in_scope"]),
    "refused for another reason": Case(
        answers=["not_in_scope"], decided=[("a", "own_message", NOON, NOON)], pushed=NO_PUSH
    ),
    "no rule, but queued": Case(answers=[]),
    "no rule any more, and queued days later": Case(
        answers=[], decided=[("a", "queued", MORROW + DAY_MS - LATENESS, MORROW + DAY_MS)]
    ),
    "never tried": Case(pushed=NO_PUSH),
    "given up": Case(pushed=[("a", "retry", 1, 50), ("a", "stale", 2, 90_000)]),
    "given up after its last attempt": Case(pushed=[("a", "refused", 6, 50, 400, True)]),
    "given up at once": Case(pushed=[("a", "refused", 1, 50, None, True)]),
    "late": Case(pushed=[("a", "delivered", 1, LATE + 1)]),
    "pushed twice": Case(pushed=[("a", "delivered", 1, 50), ("a", "delivered", 1, 60)]),
    "decided twice": Case(decided=[queued("a"), queued("a")]),
    "two rules": Case(answers=["alert", "alert"]),
    "a condition": Case(condition=b"call"),
    "a secret condition": Case(digest=b"d" * 32),
    "two receipts, queued twice": Case(
        shown=["a", "b"],
        decided=[queued("a"), queued("b")],
        pushed=[("a", "delivered", 1, 50), ("b", "delivered", 1, 50)],
    ),
    "two receipts, one a duplicate": Case(shown=["a", "b"], decided=[queued("a"), ("b", "duplicate", NOON, NOON)]),
    "queued on the day before as well": Case(decided=[queued("a"), queued("b", EVE)]),
    "claimed weeks before": Case(claimed=["b"]),
}


def shown_once(receipt: str, envelope_id: bytes, keys: Sequence[bytes], answers: Sequence[str]) -> tuple[Any, ...]:
    return receipt, envelope_id, list(keys), list(answers), None, NOON, NOON // 1000 + 3_600


def at_noon(facts: DataFrame) -> DataFrame:
    """What the kind `envelope` says of them."""
    return facts.select("receipt", "envelope_id", F.lit(NOON).alias("observed_at"), F.lit(NOON).alias("at"))


def frames(
    spark: SparkSession, cases: Mapping[str, Case]
) -> tuple[DataFrame, DataFrame, DataFrame, DataFrame, DataFrame]:
    """Envelopes, rules, decisions, pushes and claims. A case's keys are as many as its rules, each of its own."""
    shown: list[tuple[Any, ...]] = []
    rules: list[tuple[Any, ...]] = []
    decided: list[tuple[Any, ...]] = []
    pushed: list[tuple[Any, ...]] = []
    claimed: list[tuple[Any, ...]] = []
    for name, case in cases.items():
        keys = [f"{name}/{place}".encode() for place in range(len(case.answers))]
        about = name.encode(), f"s of {name}"
        shown += [shown_once(f"{one} of {name}", about[0], keys, case.answers) for one in case.shown]
        rules += [(about[1], key, case.condition, case.digest, case.since, FOREVER) for key in keys]
        decided += [(f"{one} of {name}", *about, b"c", *rest) for one, *rest in case.decided]
        pushed += [(f"{one} of {name}", *about, *rest, *[None] * (5 - len(rest))) for one, *rest in case.pushed]
        claimed += [(*about, f"{one} of {name}", "queued", EVE, FOREVER) for one in case.claimed]
    made = ((shown, FACTS), (rules, RULES), (decided, DECIDED), (pushed, PUSHED), (claimed, CLAIM))
    return tuple(spark.createDataFrame(rows, schema) for rows, schema in made)  # type: ignore[return-value]


@pytest.fixture(scope="module")
def doubted(spark: SparkSession) -> set[str]:
    """The names of the cases in doubt."""
    shown, rules, decided, pushed, claimed = frames(spark, CLEAR | DOUBTFUL)
    doubts = in_doubt(
        asked_fingerprints(shown, at_noon(shown), rules, 10),
        decided_fingerprints(decided, PERIOD),
        pushed_fingerprints(pushed, LATE),
        claimed_fingerprints(claimed),
    )
    every = spark.createDataFrame(
        [(name.encode(), f"s of {name}") for name in CLEAR | DOUBTFUL], "envelope_id binary, subscription_id string"
    )
    return {bytes(row["envelope_id"]).decode() for row in within(every, doubts).collect()}


@pytest.mark.parametrize("name", CLEAR)
def test_what_went_as_it_should_is_not_compared(name: str, doubted: set[str]) -> None:
    assert name not in doubted


@pytest.mark.parametrize("name", DOUBTFUL)
def test_what_may_have_gone_otherwise_is_compared(name: str, doubted: set[str]) -> None:
    assert name in doubted


def test_of_an_envelope_for_many_one_share_is_in_doubt(spark: SparkSession) -> None:
    many = [f"s{number}" for number in range(10 * BUCKETS)]
    shown = spark.createDataFrame([shown_once("r", b"e", [b"k"], ["alert"])], FACTS)
    rules = spark.createDataFrame([(one, b"k", None, None, 0, FOREVER) for one in many], RULES)
    decided = spark.createDataFrame([("r", b"e", one, b"c", "queued", NOON, NOON) for one in many[1:]], DECIDED)
    pushed = spark.createDataFrame([("r", b"e", one, "delivered", 1, 50, 200, None) for one in many[1:]], PUSHED)
    doubts = in_doubt(
        asked_fingerprints(shown, at_noon(shown), rules, 10),
        decided_fingerprints(decided, PERIOD),
        pushed_fingerprints(pushed, LATE),
    )
    assert doubts.count() == 1
    compared = {row["subscription_id"] for row in within(decided, doubts).collect()}
    assert 0 < len(compared) < len(many) // 4


def test_an_envelope_is_in_doubt_if_it_was_observed_or_decided_alone_or_something_else_was_decided_by_its_receipt(
    spark: SparkSession,
) -> None:
    names = ("both", "observed", "decided", "of another id")
    every = spark.createDataFrame([shown_once(name, name.encode(), [], []) for name in names], FACTS)
    shown, of_envelopes = every.where("receipt != 'decided'"), at_noon(every.where("receipt != 'observed'"))
    before = of_envelopes.selectExpr("'before' as receipt", "envelope_id", f"{EVE} as observed_at", f"{EVE} as at")
    of_all = of_envelopes.unionByName(before)
    nothing = decided_fingerprints(spark.createDataFrame([], DECIDED), PERIOD)
    untried = pushed_fingerprints(spark.createDataFrame([], PUSHED), LATE)
    doubts = in_doubt(shown_fingerprints(shown, of_all, PERIOD), nothing, untried)
    found = concerned(every, doubts, receipts_of(every.where("receipt = 'of another id'"))).select("receipt").collect()
    assert {row["receipt"] for row in found} == {"observed", "decided", "of another id"}


def test_a_client_with_as_many_in_a_window_as_a_limit_lets_pass_is_compared_as_a_whole(spark: SparkSession) -> None:
    spans = {"statements": (LimitSpan(0, FOREVER, Limit(4, 60_000, 0), Limit(300, 60_000, 0)),)}
    times = {b"busy": (0, 59_000, 60_500, 61_000, DAY_MS), b"calm": tuple(range(0, DAY_MS, DAY_MS // 9)), b"lost": (0,)}
    rows = [
        (f"{at}", client + b"%d" % at, client.decode(), client, "queued", START + at, START + at)
        for client, moments in times.items()
        for at in moments
    ]
    decided = spark.createDataFrame(rows, DECIDED)
    undecided = decided.where("client_id = 'lost'").selectExpr("*", "explode(sequence(1, 3)) as again").drop("again")
    clients = clients_near_limit(decided, undecided, LimitHistory(spans))
    found = within(decided, buckets_of(decided, clients)).groupBy("client_id").count().collect()
    assert {bytes(row["client_id"]): row["count"] for row in found} == {b"busy": 5, b"lost": 1}
