"""What Clarion gives up itself is lost, what its provider refuses is not, and what still waits is not sent again."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from clarion.decisions import PushDecision
from clarion.events import Event
from pipeline.compaction.compact import compact
from pipeline.explain.request import ExplainRequest, explain
from pipeline.lake.event_lake import EventLake
from pipeline.lake.lookup import Lookup
from pipeline.period import DAY_MS, HOUR_MS, QUEUED_MS, Period
from pipeline.reconciliation.reconcile import reconcile
from pipeline.repair import replay
from pipeline.terms import DEFAULT
from tests.pipeline.small_lake import SmallLake, Way, ruled, subscribed

START = 1_790_000_000_000 // DAY_MS * DAY_MS
DAY = Period(START, START + DAY_MS)


def ending(way: Way, **last: object) -> list[Event]:
    """Tried once in vain, and then as `last` says."""
    known = {"status": 503, "reason": "UNAVAILABLE"} | last
    before = [way.observed(), way.envelope(), way.notification(), way.push(PushDecision.RETRY)]
    return [*before, way.push(PushDecision.REFUSED).model_copy(update=known)]


def written(small: SmallLake, *lasts: Mapping[str, object]) -> list[Way]:
    """For one subscription, a minute after each other."""
    ways = [Way(START + HOUR_MS + number * 60_000, number) for number in range(1, len(lasts) + 1)]
    small.stream(subscribed(at=START - HOUR_MS), ruled(ways[0].key, at=START - HOUR_MS))
    for way, last in zip(ways, lasts, strict=True):
        small.stream(*ending(way, **last))
    return ways


def explained(lake: EventLake, ways: Sequence[Way], period: Period = DAY) -> list[str]:
    requests = [ExplainRequest(way.envelope_id, period) for way in ways]
    return [explain(Lookup(lake.root), request).receipts[0].notifications[0].verdict.found for request in requests]


def differences(lake: EventLake, now: int) -> list[tuple[str, str]]:
    compact(lake, Period(START - HOUR_MS, now), now)
    found = reconcile(lake, DAY, now, DEFAULT).differences.collect()
    return sorted((row["difference"], row["evidence"]) for row in found)


def test_what_dispatch_gives_up_is_missing_and_what_a_provider_refuses_is_not(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake, small = EventLake(spark, str(tmp_path)), SmallLake(tmp_path)
    ways = written(
        small,
        {"attempt": 120, "latency_ms": 21 * HOUR_MS, "given_up": True},
        {"attempt": 6, "status": 400, "reason": "DeviceTokenNotForTopic", "given_up": True},
        {"attempt": 2, "status": None, "reason": "no payload: TypeError", "given_up": True},
        {"attempt": 2, "status": 413, "reason": "PayloadTooLarge", "given_up": False},
        {"attempt": 7, "status": 413, "reason": "PayloadTooLarge", "given_up": False},
    )
    now = DAY.end + 2 * HOUR_MS
    assert differences(lake, now) == [
        ("missing", "given up after attempt 120: UNAVAILABLE"),
        ("missing", "given up after attempt 2: no payload: TypeError"),
        ("missing", "given up after attempt 6: DeviceTokenNotForTopic"),
    ]
    assert explained(lake, ways) == ["missing", "missing", "missing", "right", "right"]
    assert planned(lake, now) == (3, 0)


def test_what_was_given_up_and_delivered_after_all_is_no_difference_whichever_was_recorded_first(
    spark: SparkSession, tmp_path: Path
) -> None:
    """It could not be dead-lettered, or was redriven: then its attempts are counted anew."""
    lake, small = EventLake(spark, str(tmp_path)), SmallLake(tmp_path)
    left, redriven = ways = written(small, *({"attempt": 6, "status": 503, "given_up": True} for _ in range(2)))
    small.stream(left.push().model_copy(update={"attempt": 7}))
    small.stream(redriven.push().model_copy(update={"at": redriven.began}))
    assert differences(lake, DAY.end + 2 * HOUR_MS) == []
    assert explained(lake, ways) == ["right", "right"]


def test_what_is_retried_still_is_named_and_not_sent_again_as_long_as_a_queue_may_have_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake, small, way = EventLake(spark, str(tmp_path)), SmallLake(tmp_path), Way(DAY.end - 600_000)
    small.stream(subscribed(at=START - HOUR_MS), ruled(way.key, at=START - HOUR_MS))
    small.stream(way.observed(), way.envelope(), way.notification())
    for attempt in range(1, 8):
        way.at = way.began + attempt * 15 * 60_000
        tried = {"attempt": attempt, "status": 503, "reason": "UNAVAILABLE"}
        small.stream(way.push(PushDecision.RETRY).model_copy(update=tried), at=way.at)
    waiting, later = way.at + QUEUED_MS - 1, way.at + QUEUED_MS
    assert differences(lake, waiting) == [("missing", "waits, tried 7 times: UNAVAILABLE")]
    assert planned(lake, waiting) == (0, 1)
    assert planned(lake, waiting, queues_lost=True) == (1, 0)
    assert differences(lake, later) == [("missing", "given up after attempt 7: UNAVAILABLE")]
    assert planned(lake, later) == (1, 0)


def test_what_was_sent_again_and_was_too_old_by_then_is_still_a_difference(spark: SparkSession, tmp_path: Path) -> None:
    lake, small, way = EventLake(spark, str(tmp_path)), SmallLake(tmp_path), Way(START)
    small.stream(subscribed(at=START - HOUR_MS), ruled(way.key, at=START - HOUR_MS))
    small.stream(way.observed(), way.envelope(), way.notification())
    now = DAY.end + 2 * HOUR_MS
    assert differences(lake, now) == [("missing", "queued, but never tried")]
    replay.plan(lake, reconcile(lake, DAY, now, DEFAULT).differences, DAY, now, dry_run=False)
    way.at = now
    small.stream(way.push(PushDecision.STALE, latency_ms=now - way.began), at=now)
    assert differences(lake, now + HOUR_MS) == [("late", "too late to be of use")]
    assert explained(lake, [way], Period(START, now + HOUR_MS)) == ["late"]


def planned(lake: EventLake, now: int, *, queues_lost: bool = False) -> tuple[int, int]:
    """How many would be sent again, and how many wait."""
    found = reconcile(lake, DAY, now, DEFAULT).differences
    plan = replay.plan(lake, found, DAY, now, dry_run=True, queues_lost=queues_lost)
    return plan.messages, plan.waiting
