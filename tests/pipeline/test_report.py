from typing import Any
from uuid import UUID

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from clarion.decisions import Purpose
from pipeline.columns import EventKind
from pipeline.generator.plan import Plan
from pipeline.lake.dedup import decided_once
from pipeline.lake.event_lake import EventLake
from pipeline.lake.schemas import DIFFERENCE, SCHEMAS
from pipeline.period import DAY_MS, HOUR_MS, Period
from pipeline.report.funnel import notifications
from pipeline.report.tables import EXAMPLES, by_hour, examples, latency, report_tables

HOUR = Period(10 * HOUR_MS, 11 * HOUR_MS)
NOON = HOUR.start + 60_000
DECIDED = (
    "receipt string, subscription_id string, network string, channel string, at long, judged_at long, decision string"
)
TRIED = (
    "receipt string, subscription_id string, network string, channel string, at long, latency_ms long, decision string, "
    "purpose string"
)
FOUND = "receipt string, subscription_id string, network string, channel string, at long, difference string"


@pytest.fixture(scope="module")
def tables(day: EventLake, plan: Plan, differences: DataFrame) -> dict[str, list[dict[str, Any]]]:
    return {name: table.to_pylist() for name, table in report_tables(day, plan.period, plan.start + DAY_MS).items()}


@pytest.fixture(scope="module")
def reached(spark: SparkSession) -> dict[str, Any]:
    """Of one hour, in which one notification came to each of the ends that there are."""
    decided = [
        ("delivered", "queued"), ("delivered", "duplicate"), ("retried", "queued"), ("dead", "queued"), ("lost", "queued"),
        ("limited", "rate_limited"), ("misjudged", "rate_limited"), ("own", "own_message"), ("forged", "queued"),
        ("unwanted", "not_pushable"),
    ]  # fmt: skip
    tried = [
        ("delivered", "delivered", "notification"), ("retried", "retry", None), ("retried", "delivered", None),
        ("dead", "token_gone", "notification"), ("forged", "delivered", "notification"),
        ("replayed", "delivered", "notification"), ("woken", "delivered", str(Purpose.WAKE_UP)),
    ]  # fmt: skip
    found = [("lost", "missing"), ("undecided", "missing"), ("misjudged", "wrongly_dropped"), ("forged", "unexpected")]
    of = ("s", "statements", "apns")
    rows = notifications(
        spark.createDataFrame([(name, *of, NOON + 20, NOON, decision) for name, decision in decided], DECIDED),
        spark.createDataFrame([(name, *of, NOON + 90, 90, decision, why) for name, decision, why in tried], TRIED),
        spark.createDataFrame([(name, *of, NOON, difference) for name, difference in found], FOUND),
        HOUR,
    )
    [row] = rows.collect()
    return row.asDict()


def test_each_notification_counts_once_for_how_far_it_got(reached: dict[str, Any]) -> None:
    assert reached == {
        "hour": HOUR.start,
        "network": "statements",
        "channel": "apns",
        # All but an own message, what isn't to be pushed, and a wake-up.
        "asked": 9,
        # Without what the limit held back rightly, and without what was forged.
        "wanted": 7,
        # Without what was never decided, and what was wrongly dropped. One was sent again without a decision.
        "queued": 5,
        # Without what was lost in the queue.
        "tried": 4,
        "delivered": 3,
        "unwanted": 1,
    }


def test_a_notification_belongs_to_the_hour_of_its_observation(spark: SparkSession) -> None:
    """One is decided after midnight, one before the period; a loss is the period's, whenever it was decided."""
    of, before, after = ("s", "statements", "apns"), HOUR.start - 5, HOUR.end + 5
    decided = [("late", *of, after, HOUR.end - 5, "queued"), ("early", *of, HOUR.start + 5, before, "queued")]
    rows = notifications(
        spark.createDataFrame(decided, DECIDED),
        spark.createDataFrame([("early", *of, HOUR.start + 50, 55, "delivered", None)], TRIED),
        spark.createDataFrame([("lost", *of, after, "missing")], FOUND),
        HOUR,
    )
    assert [(row["hour"], row["wanted"], row["queued"]) for row in rows.collect()] == [(HOUR.start, 2, 1)]


def test_without_a_comparison_what_was_queued_was_wanted(spark: SparkSession) -> None:
    decided = spark.createDataFrame([("r", "s", "xmtp", "fcm", NOON, None, "queued")], DECIDED)
    [row] = notifications(decided, spark.createDataFrame([], TRIED), None, HOUR).collect()
    assert (row["asked"], row["wanted"], row["queued"], row["tried"]) == (1, 1, 1, 0)


def test_a_days_funnel_narrows_and_lacks_what_was_lost(
    tables: dict[str, list[dict[str, Any]]], differences: DataFrame
) -> None:
    stages = ("asked", "wanted", "queued", "tried", "delivered")
    counts = [sum(row[stage] for row in tables["notifications"]) for stage in stages]
    lost = differences.where(F.col("difference").isin("missing", "wrongly_dropped")).select(
        "receipt", "subscription_id"
    )
    assert counts == sorted(counts, reverse=True)
    assert counts[1] - counts[3] == lost.distinct().count()


def test_differences_are_counted_by_hour_kind_and_network(
    tables: dict[str, list[dict[str, Any]]], plan: Plan, differences: DataFrame
) -> None:
    rows = tables["differences"]
    assert sum(row["count"] for row in rows) == differences.count()
    assert {row["network"] for row in rows} == {"statements", "xmtp"}
    assert all(plan.period.start <= row["hour"] < plan.period.end for row in rows)


def test_each_kind_and_network_has_examples_with_evidence(tables: dict[str, list[dict[str, Any]]]) -> None:
    kinds = {(row["difference"], row["network"]) for row in tables["differences"]}
    assert {(row["difference"], row["network"]) for row in tables["examples"]} == kinds
    assert len(kinds) < len(tables["examples"]) <= EXAMPLES * len(kinds)
    assert all(row["evidence"] and row["receipt"] for row in tables["examples"])


def test_examples_show_the_most_frequent_evidence_from_its_worst_hour(spark: SparkSession) -> None:
    """However few and early others are. Evidence that differs in its numbers or ids alone is the same."""
    grounds = [(HOUR.start + place, "never decided") for place in range(2)]
    grounds += [(NOON + place, f"delivered after {place}.5 s") for place in range(3)]
    grounds += [(HOUR.start + 9, f"already queued under receipt {UUID(int=1)}")]
    grounds += [(HOUR.end + place, "queued, but never tried") for place in range(4)] + [
        (NOON, "queued, but never tried")
    ]
    rows = [
        {"difference": "missing", "evidence": evidence, "receipt": f"{place:02}", "network": "xmtp", "at": at}
        for place, (at, evidence) in enumerate(grounds)
    ]
    found = spark.createDataFrame([{field: row.get(field) for field in DIFFERENCE.names} for row in rows], DIFFERENCE)
    assert [(row["alike"], row["at"], row["receipt"], row["evidence"]) for row in examples(found).collect()] == [
        (5, HOUR.end, "06", "queued, but never tried"),
        (3, NOON, "02", "delivered after 0.5 s"),
        (2, HOUR.start, "00", "never decided"),
    ]


def test_a_period_that_was_not_reconciled_has_no_table_of_differences(lake: EventLake) -> None:
    for kind in (EventKind.ENVELOPE, EventKind.NOTIFICATION, EventKind.PUSH):
        assert lake.read(kind).schema == SCHEMAS[kind]
    assert "differences" not in report_tables(lake, HOUR, HOUR.end)


def test_a_decision_after_the_period_counts_for_its_last_hour(spark: SparkSession) -> None:
    rows = [(HOUR.end + 7, "missing", "xmtp"), (HOUR.start + 7, "missing", "xmtp")]
    found = spark.createDataFrame(rows, "at long, difference string, network string")
    assert [(row["hour"], row["count"]) for row in by_hour(found, HOUR).collect()] == [(HOUR.start, 2)]


def test_a_wake_ups_lateness_is_no_notifications_latency(spark: SparkSession) -> None:
    purposes = {None: 100, str(Purpose.NOTIFICATION): 100, str(Purpose.WAKE_UP): 60_000}
    rows = [(0, "apns", "delivered", purpose, latency_ms) for purpose, latency_ms in purposes.items()]
    pushes = spark.createDataFrame(rows, "at long, channel string, decision string, purpose string, latency_ms long")
    [found] = latency(pushes).collect()
    assert (found["p99"], found["count"]) == (100, 2)


def test_floods_show_among_the_senders_and_rules_at_each_hour(
    plan: Plan, tables: dict[str, list[dict[str, Any]]]
) -> None:
    assert sum(row["rate_limited"] > 0 for row in tables["senders"]) >= plan.floods
    assert [row["hour"] for row in tables["rules"]] == list(range(plan.start, plan.period.end, HOUR_MS))
    assert all(row["rules"] > 0 for row in tables["rules"])


def test_of_a_redelivered_envelope_the_decision_is_queued_if_one_line_says_so_and_else_the_first(
    spark: SparkSession,
) -> None:
    rows = [("a", "s", "queued", 1), ("a", "s", "duplicate", 2), ("b", "s", "capped", 2), ("b", "s", "rate_limited", 1)]
    notified = spark.createDataFrame(rows, "receipt string, subscription_id string, decision string, at long")
    found = {row["receipt"]: row["decision"] for row in decided_once(notified).collect()}
    assert found == {"a": "queued", "b": "rate_limited"}
