"""What is decided long after the first look, as a crowd's page or a remainder, by the rules of then."""

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pyspark.sql import SparkSession

from clarion.decisions import NotificationDecision
from pipeline.compaction.compact import compact
from pipeline.explain.request import ExplainRequest, explain
from pipeline.lake.event_lake import EventLake
from pipeline.lake.lookup import Lookup
from pipeline.period import DAY_MS, HOUR_MS, Period
from pipeline.reconciliation.reconcile import reconcile
from pipeline.spark.session import SMALL_BYTES, small_lake_settings
from pipeline.terms import DEFAULT
from tests.pipeline.small_lake import PHONE, TABLET, SmallLake, Way, ruled, subscribed

START = 1_790_000_000_000 // DAY_MS * DAY_MS
DAY = Period(START, START + DAY_MS)
BEFORE, NOW = START - HOUR_MS, START + 2 * DAY_MS
FIRST, EARLY = UUID(int=3), UUID(int=4)
CLIENTS = {who: bytes([who.int]) * 32 for who in (PHONE, TABLET, FIRST, EARLY)}


@pytest.mark.parametrize("size", [SMALL_BYTES, SMALL_BYTES + 1])
def test_who_comes_or_goes_before_its_page_is_judged_by_the_rules_of_its_page(
    spark: SparkSession, tmp_path: Path, size: int
) -> None:
    """Of two pages a minute apart, the first has FIRST and EARLY, whose rule comes only after it. PHONE's goes meanwhile."""
    lake, small, way = EventLake(spark, str(tmp_path)), SmallLake(tmp_path), Way(START + HOUR_MS)
    meanwhile = way.began + 30_000
    for who, at in ((FIRST, BEFORE), (PHONE, BEFORE), (TABLET, meanwhile), (EARLY, meanwhile)):
        small.stream(subscribed(who, CLIENTS[who], at=at), ruled(way.key, who, at=at))
    small.stream(subscribed(PHONE, CLIENTS[PHONE], at=meanwhile, status="removed", revision=2))
    small.stream(way.observed(), way.envelope())
    for who in (FIRST, EARLY):
        small.stream(way.notification(to=who, client=CLIENTS[who]), way.push(to=who))
    way.at += 60_000
    small.stream(way.notification(to=TABLET, client=CLIENTS[TABLET]), way.push(to=TABLET))
    compact(lake, Period(BEFORE, NOW), NOW)
    with small_lake_settings(spark, size):
        found = reconcile(lake, DAY, NOW, DEFAULT).differences.collect()
    wrong = (str(EARLY), "unexpected", "no rule in force")
    assert [(row["subscription_id"], row["difference"], row["evidence"]) for row in found] == [wrong]
    whole = explained(lake, way.envelope_id)
    assert {who: verdict for who, verdict in whole.items() if verdict != "right"} == {EARLY: "unexpected"}
    for who in CLIENTS:
        assert explained(lake, who).get(who, "right") == whole.get(who, "right")


def test_a_page_that_lost_somebody_whose_rule_was_in_force_throughout_is_found(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake, small, way = EventLake(spark, str(tmp_path)), SmallLake(tmp_path), Way(START + HOUR_MS)
    for who in (FIRST, PHONE, TABLET):
        small.stream(subscribed(who, CLIENTS[who], at=BEFORE), ruled(way.key, who, at=BEFORE))
    small.stream(way.observed(), way.envelope(), way.notification(to=FIRST, client=CLIENTS[FIRST]), way.push(to=FIRST))
    way.at += 60_000
    small.stream(way.notification(NotificationDecision.RATE_LIMITED, to=TABLET, client=CLIENTS[TABLET]))
    compact(lake, Period(BEFORE, NOW), NOW)
    found = reconcile(lake, DAY, NOW, DEFAULT).differences.collect()
    assert sorted((UUID(row["subscription_id"]), str(row["difference"])) for row in found) == [
        (PHONE, "missing"),
        (TABLET, "wrongly_dropped"),
    ]


@pytest.mark.parametrize("size", [SMALL_BYTES, SMALL_BYTES + 1])
@pytest.mark.parametrize(
    ("change", "decision"),
    [
        ({"revision": 2}, NotificationDecision.QUEUED),
        ({"revision": 2, "status": "removed"}, NotificationDecision.QUEUED),
        ({"revision": 2, "status": "removed"}, NotificationDecision.DUPLICATE),
    ],
)
def test_what_is_decided_hours_later_for_one_hides_nobody_elses_loss(
    spark: SparkSession, tmp_path: Path, change: dict[str, Any], decision: NotificationDecision, size: int
) -> None:
    """PHONE's is sent again after three hours. TABLET has a new token by then, or has gone."""
    lake, small, way = EventLake(spark, str(tmp_path)), SmallLake(tmp_path), Way(START + HOUR_MS)
    for who in (PHONE, TABLET):
        small.stream(subscribed(who, CLIENTS[who], at=BEFORE), ruled(way.key, who, at=BEFORE))
    small.stream(way.observed(), way.envelope())
    small.stream(subscribed(TABLET, CLIENTS[TABLET], at=way.began + HOUR_MS, **change))
    way.at = way.began + 3 * HOUR_MS
    judged_at = way.at - HOUR_MS if decision is NotificationDecision.QUEUED else None
    small.stream(way.notification(decision).model_copy(update={"judged_at": judged_at}))
    compact(lake, Period(BEFORE, NOW), NOW)
    with small_lake_settings(spark, size):
        found = reconcile(lake, DAY, NOW, DEFAULT).differences.collect()
    assert (str(TABLET), "missing") in {(row["subscription_id"], row["difference"]) for row in found}
    assert explained(lake, way.envelope_id)[TABLET] == "missing"


def explained(lake: EventLake, asked: bytes | UUID) -> dict[UUID, str]:
    answer = explain(Lookup(lake.root), ExplainRequest(asked, Period(BEFORE, DAY.end)))
    return {UUID(one.subscription_id): one.verdict.found for each in answer.receipts for one in each.notifications}
