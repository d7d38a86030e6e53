"""Claims, windows and what a sandbox remembers of them, under races and over time."""

from collections import Counter
from typing import Any
from uuid import uuid4

import pytest

from clarion.limiter import Window
from clarion.tables import PushRecord, RateLimit
from match.claims import LONGEST, SLACK, lasts_until
from match.windows import Windows
from tests.match.meter import meter
from tests.match.scene import Scene


def test_sandboxes_that_race_for_a_pair_admit_exactly_the_limit(scene: Scene) -> None:
    scene.subscribe()
    sandboxes = [scene, scene.elsewhere(), scene.elsewhere()]
    for turn in range(36):
        sandboxes[turn % 3].take(*scene.observe_new(1))
    assert len(scene.pushes()) == 30


def test_a_sandbox_that_is_overtaken_between_its_read_and_its_write_decides_anew(scene: Scene) -> None:
    scene.subscribe()
    rival, events = scene.elsewhere(), scene.clients.dynamodb.meta.events
    counts = Counter[str]()

    def overtake(params: dict[str, Any], **_: object) -> None:
        if counts["overtaken"] < counts["turns"] and RateLimit.Meta.table_name in str(params["body"]):
            counts["overtaken"] += 1
            rival.take(*rival.observe_new(1))

    events.register_first("before-call.dynamodb.PutItem", overtake)
    try:
        for _ in range(20):
            counts["turns"] += 1
            scene.take(*scene.observe_new(1))
    finally:
        events.unregister("before-call.dynamodb.PutItem", overtake)
    assert counts["overtaken"] >= 15
    assert len(scene.pushes()) == 30


def test_a_cooldown_that_a_sandbox_knows_costs_neither_read_nor_write_of_the_window(scene: Scene) -> None:
    scene.subscribe()
    scene.take(*scene.observe_new(31))
    with meter.running() as bill:
        scene.take(*scene.observe_new(5))
    assert bill.requests["GetItem"] == bill.requests["PutItem"] == 0


def test_a_sandbox_that_is_often_wrong_goes_back_to_reading(scene: Scene) -> None:
    windows, elsewhere = (Windows(scene.clients.dynamodb) for _ in range(2))
    pair, now = uuid4().bytes * 4, scene.clock()
    for turn in range(20):
        for room in (windows, elsewhere):
            seen = room.look(pair, now)
            room.replace(pair, seen, Window(cooldown_until=turn), now)
    assert not windows.look(pair, now).remembered


def test_a_claim_that_has_expired_is_free_although_it_is_still_there(scene: Scene) -> None:
    scene.subscribe()
    statement = scene.sender.states()
    scene.take(scene.observe(statement))
    scene.clock.advance(LONGEST)
    scene.take(scene.observe(statement))
    assert len(scene.pushes()) == 2


def test_a_claim_outlives_its_statement() -> None:
    assert lasts_until(1_000, 500) == 1_000 + SLACK
    assert lasts_until(0xFFFF_FFFF, 500) == 500 + LONGEST


def test_a_notification_is_recorded_with_its_receipt(scene: Scene) -> None:
    subscription = scene.subscribe()
    statement = scene.sender.states()
    message = scene.observe(statement)
    scene.take(message)
    record = PushRecord.get(statement.hash, subscription.subscription_id)
    assert (record.receipt, record.claimed_at) == (str(message.receipt), scene.clock())


def test_a_window_in_its_table_takes_one_write_unit_and_a_busy_pair_one_more_for_each_thirty(scene: Scene) -> None:
    subscription = scene.subscribe()
    for _ in range(4):
        scene.take(*scene.observe_new(30))
        scene.clock.advance(60)
    with meter.running() as bill:
        scene.take(*scene.observe_new(30))
    assert bill.writes == 30 + 1 + 1
    assert len(RateLimit.get(scene.sender.key + subscription.client_id).admitted) == 60 * 14


def test_a_retry_is_counted_once_although_the_window_has_no_room_for_it_any_more(scene: Scene) -> None:
    subscription = scene.subscribe()
    first = scene.observe_new(1)
    scene.take(*first)
    for _ in range(10):
        scene.clock.advance(60)
        scene.take(*scene.observe_new(30))
    scene.pushes()
    pair = scene.sender.key + subscription.client_id
    version = RateLimit.get(pair).version
    for sandbox in (scene, scene.elsewhere()):
        sandbox.take(*first)
        assert [push.receipt for push in scene.pushes()] == [first[0].receipt]
    assert RateLimit.get(pair).version == version


def test_a_retry_goes_out_again_even_if_the_pair_was_in_cooldown_since(scene: Scene) -> None:
    scene.subscribe()
    first = scene.observe_new(1)
    scene.take(*first)
    for _ in range(4):
        scene.clock.advance(60)
        scene.take(*scene.observe_new(30))
    scene.take(*scene.observe_new(1))
    scene.pushes()
    scene.elsewhere().take(*first)
    assert [push.receipt for push in scene.pushes()] == [first[0].receipt]


@pytest.mark.parametrize("seconds", [1, 180, 900])
def test_what_was_refused_stays_refused_however_late_it_comes_again(scene: Scene, seconds: int) -> None:
    scene.subscribe()
    scene.take(*scene.observe_new(30))
    starts_it, falls_into_it = scene.observe_new(2)
    scene.take(starts_it)
    scene.take(falls_into_it)
    scene.pushes()
    scene.clock.advance(seconds)
    scene.elsewhere().take(starts_it, falls_into_it)
    assert scene.pushes() == []


def test_another_receipt_of_what_was_refused_is_refused_too(scene: Scene) -> None:
    scene.subscribe()
    scene.take(*scene.observe_new(31))
    statement = scene.sender.states()
    seen_twice = [scene.observe(statement), scene.observe(statement)]
    scene.take(seen_twice[0])
    scene.pushes()
    scene.clock.advance(180)
    scene.take(seen_twice[1])
    assert scene.pushes() == []


def test_what_is_observed_after_the_cooldown_passes(scene: Scene) -> None:
    scene.subscribe()
    scene.take(*scene.observe_new(31))
    scene.pushes()
    scene.clock.advance(120)
    scene.take(*scene.observe_new(1))
    assert len(scene.pushes()) == 1


def test_a_cooldown_does_not_reach_back_to_what_was_lost_hours_ago(scene: Scene) -> None:
    scene.subscribe()
    [lost] = scene.observe_new(1)
    scene.clock.advance(2 * 3600)
    scene.take(*scene.observe_new(31))
    scene.pushes()
    scene.clock.advance(120)
    scene.take(lost)
    assert [push.receipt for push in scene.pushes()] == [lost.receipt]
