"""Which claims are known, and what they say of who shows an envelope again."""

import pytest
from pyspark.sql import DataFrame, SparkSession

from clarion import claims as live
from pipeline.period import DAY_MS
from pipeline.reconciliation.claims import CLAIM, add_claims, claims_of, claims_on, lasts_until

NOW = 1_790_000_000_000
GRACE = 15_000
NEVER = 0xFFFFFFFF
COMPARED = (
    "receipt string, subscription_id string, network string, envelope_id binary, sender binary, client_id binary, "
    "wanted string, at long, judged_at long, counted boolean, found string, refusals array<string>, judged boolean"
)
ENVELOPES = "receipt string, envelope_id binary, expires_at long"
DECIDED = "receipt string, subscription_id string, envelope_id binary, found string, at long, judged boolean"

type Claim = tuple[bytes, str, str, str, int, int]


def held(envelope_id: bytes, receipt: str, until: int, decision: str = "queued") -> Claim:
    return (envelope_id, "s", receipt, decision, NOW - 3 * DAY_MS, until)


def shown(spark: SparkSession, *rows: tuple[str, bytes, int, bool]) -> DataFrame:
    """Comparisons of envelopes that were shown under a receipt, at a time; whether they are judged."""
    whole: list[tuple[object, ...]] = [
        (receipt, "s", "statements", envelope_id, b"a", b"c", "alert", at, at, None, "duplicate", [], judged)
        for receipt, envelope_id, at, judged in rows
    ]
    return spark.createDataFrame(whole, COMPARED)


def traces(compared: DataFrame, *claims: Claim) -> list[tuple[str, str]]:
    """The receipts that left a trace, and as what."""
    known = compared.sparkSession.createDataFrame(list(claims), CLAIM)
    found = add_claims(compared, known, GRACE)
    assert found.columns == compared.columns
    rows = found.join(compared.select("receipt"), on="receipt", how="leftanti").collect()
    assert not any(row["judged"] for row in rows)
    return sorted((row["receipt"], row["found"]) for row in rows)


@pytest.mark.parametrize(
    ("until", "trace"),
    [
        (NOW + DAY_MS, [("before", "queued")]),
        (NOW + GRACE + 1, [("before", "queued")]),
        (NOW + GRACE, [("before", "rate_limited")]),
        (NOW - GRACE + 1, [("before", "rate_limited")]),
        (NOW - GRACE, []),
    ],
)
def test_a_claim_counts_until_it_ends_and_about_its_end_either_way_is_right(
    spark: SparkSession, until: int, trace: list[tuple[str, str]]
) -> None:
    assert traces(shown(spark, ("again", b"e", NOW, True)), held(b"e", "before", until)) == trace


def test_a_claim_that_ends_between_two_showings_forbids_neither_a_duplicate_nor_a_push(spark: SparkSession) -> None:
    twice = shown(spark, ("again", b"e", NOW, True), ("once more", b"e", NOW + DAY_MS, True))
    assert traces(twice, held(b"e", "before", NOW + DAY_MS // 2)) == [("before", "rate_limited")]


def test_a_claim_leaves_one_trace_where_its_own_envelope_is_judged_for_its_own_subscription(
    spark: SparkSession,
) -> None:
    compared = shown(spark, ("again", b"e", NOW, True), ("more", b"e", NOW + 1, True), ("near", b"f", NOW, False))
    later = NOW + DAY_MS
    elsewhere = (b"e", "other", "stranger", "queued", NOW, later)
    claims = (held(b"e", "before", later), held(b"f", "unjudged", later), held(b"g", "unseen", later), elsewhere)
    assert traces(compared, *claims) == [("before", "queued")]


def test_the_claims_of_other_receipts_are_known_from_snapshots_and_from_decisions(spark: SparkSession) -> None:
    envelopes = spark.createDataFrame([("again", b"e", NEVER), ("broken", None, None)], ENVELOPES)
    decided = spark.createDataFrame(
        [
            ("again", "s", b"e", "queued", NOW, True),
            ("near", "s", b"e", "rate_limited", NOW, False),
            ("both", "s", b"e", "queued", NOW, False),
            ("unclaimed", "s", b"e", "capped", NOW, False),
            ("unseen", "s", b"f", "queued", NOW, False),
        ],
        DECIDED,
    )
    until = NOW + DAY_MS
    earlier = [held(b"e", "before", until), held(b"e", "both", until), held(b"f", "unseen", until)]
    found = claims_on(envelopes, spark.createDataFrame(earlier, CLAIM), decided)
    assert sorted(row["receipt"] for row in found.collect()) == ["before", "both", "near"]


@pytest.mark.parametrize("first", [0, 1])
def test_where_two_receipts_say_differently_when_their_envelope_expires_a_claim_lasts_until_the_later(
    spark: SparkSession, first: int
) -> None:
    """Whichever comes first: an XMTP envelope's time is that of the node which showed it."""
    sooner, later = NOW // 1000 + 60, NOW // 1000 + 120
    shown_again = [("again", b"e", sooner), ("more", b"e", later)]
    envelopes = spark.createDataFrame(sorted(shown_again, reverse=bool(first)), ENVELOPES).coalesce(1)
    decided = spark.createDataFrame([("near", "s", b"e", "queued", NOW, False)], DECIDED)
    until = 1000 * live.lasts_until(later, NOW // 1000)
    for snapshot in ([], [(b"e", "s", "near", "queued", NOW, until - 60_000)]):
        [claim] = claims_on(envelopes, spark.createDataFrame(snapshot, CLAIM), decided).collect()
        assert (claim["receipt"], claim["until"]) == ("near", until)


def test_a_days_claims_are_those_of_its_own_envelopes_that_were_claimed(spark: SparkSession) -> None:
    envelopes = spark.createDataFrame([("r", b"e", NOW // 1000 + 60)], ENVELOPES)
    decided = [
        ("r", "s", b"e", "queued", NOW, True), ("r", "t", b"e", "duplicate", NOW, True),
        ("r", "u", b"e", "rate_limited", NOW, True), ("before", "s", b"e", "queued", NOW, False),
    ]  # fmt: skip
    found = claims_of(spark.createDataFrame(decided, DECIDED), envelopes).collect()
    until = 1000 * live.lasts_until(NOW // 1000 + 60, NOW // 1000)
    assert sorted((row["subscription_id"], row["until"]) for row in found) == [("s", until), ("u", until)]


def test_a_claim_lasts_as_long_as_the_live_system_has_it(spark: SparkSession) -> None:
    now = NOW // 1000
    expiries = [now - 60, now, now + 60, now + live.LONGEST - live.SLACK, now + live.LONGEST, NEVER]
    rows = spark.createDataFrame([(expiry, NOW + 999) for expiry in expiries], "expires_at long, at long")
    found = [row["until"] for row in rows.select(lasts_until("expires_at", "at").alias("until")).collect()]
    assert sorted(found) == sorted(1000 * live.lasts_until(expiry, now) for expiry in expiries)
