"""What is found of an envelope of which some lines are lost, or which was queued twice: each loss once, and none twice."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from clarion.decisions import NotificationDecision
from clarion.events import Event
from pipeline.compaction.compact import compact
from pipeline.explain.request import ExplainRequest, explain
from pipeline.lake.event_lake import EventLake
from pipeline.lake.lookup import Lookup
from pipeline.period import DAY_MS, HOUR_MS, Period
from pipeline.reconciliation.reconcile import reconcile
from pipeline.terms import DEFAULT
from tests.pipeline.small_lake import SmallLake, Way, ruled, statement, subscribed

START = 1_790_000_000_000 // DAY_MS * DAY_MS
RAW = statement(1)
DAY, NOW = Period(START, START + DAY_MS), START + 2 * DAY_MS


def ways() -> tuple[Way, Way]:
    """Two receipts of one envelope."""
    return Way(START + 20_000, raw=RAW), Way(START + 30_000, 2, RAW)


def queued_twice_and_pushed_once() -> Iterable[Event]:
    first, again = ways()
    yield from (first.observed(), first.envelope(), first.notification())
    yield from again.delivered()


def queued_without_anything_else() -> Iterable[Event]:
    way, _ = ways()
    yield from way.delivered()[2:3]


def gone_and_queued() -> Iterable[Event]:
    way, _ = ways()
    observed, _, *others = way.delivered()
    yield from (observed.model_copy(update={"raw": None, "location": "oversize/none"}), *others)


def dropped_without_anything_else() -> Iterable[Event]:
    """Its own lines are lost; another receipt had the claim."""
    first, again = ways()
    yield from first.delivered()
    yield again.notification(NotificationDecision.DUPLICATE)


NOTHING_ELSE = "but nothing else about its envelope is in the lake"
FOUND: dict[Callable[[], Iterable[Event]], list[tuple[str, str]]] = {
    queued_twice_and_pushed_once: [("unexpected", f"already queued under receipt {ways()[0].receipt}")],
    queued_without_anything_else: [("missing", f"queued, {NOTHING_ELSE}")],
    gone_and_queued: [],
    dropped_without_anything_else: [("missing", f"duplicate, {NOTHING_ELSE}")],
}


@pytest.mark.parametrize("made", FOUND, ids=lambda made: made.__name__)
def test_each_loss_is_found_once(spark: SparkSession, tmp_path: Path, made: Callable[[], Iterable[Event]]) -> None:
    lake, small = EventLake(spark, str(tmp_path / "lake"), str(tmp_path / "oversize")), SmallLake(tmp_path / "lake")
    key, before = ways()[0].key, START - 5 * HOUR_MS
    small.stream(subscribed(at=before), ruled(key, at=before))
    small.stream(*made(), at=START)
    compact(lake, Period(START - DAY_MS, NOW), NOW)
    rows = reconcile(lake, DAY, NOW, DEFAULT).differences.collect()
    assert [(row["difference"], row["evidence"]) for row in rows] == FOUND[made]


def test_explain_calls_what_was_queued_twice_and_pushed_once_unexpected_and_not_missing_as_well(tmp_path: Path) -> None:
    small = SmallLake(tmp_path)
    small.commit(subscribed(at=START), ruled(ways()[0].key, at=START))
    small.commit(*queued_twice_and_pushed_once(), at=START)
    answer = explain(Lookup(small.root), ExplainRequest(ways()[0].envelope_id, DAY))
    found = [one.verdict.found for receipt in answer.receipts for one in receipt.notifications]
    assert sorted(found) == ["right", "unexpected"]
