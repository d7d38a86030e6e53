"""Claims, windows and what a worker remembers of them, under races and over time."""

from collections import Counter
from typing import Any
from uuid import uuid4

import pytest

import match.windows
from clarion.channels import Channel
from clarion.claims import LONGEST, SLACK, lasts_until
from clarion.decisions import NotificationDecision, Wanted
from clarion.limiter import LATENESS, Admitted, Limit, Window
from clarion.messages import EnvelopeMessage
from clarion.networks import STATEMENTS
from clarion.tables import WINDOW_PART, PushRecord, RateLimit, Subscription
from match.admission import AdmissionResult, Notification
from match.failures import Failure, Unreadable
from match.matching import Match, Subscriber
from match.windows import Pair, StoredWindow, Windows
from tests.match.meter import meter
from tests.match.scene import NEVER, Scene, decide


def window_of(scene: Scene, subscription: Subscription) -> RateLimit:
    return RateLimit.get(scene.pair(subscription.client_id), WINDOW_PART, consistent_read=True)


def a_pair() -> Pair:
    return Pair(uuid4().bytes * 4, Limit(30, 60_000, 120_000))


def looked_at(windows: Windows, pair: Pair, at: int) -> StoredWindow:
    found = windows.look({pair: [at]})[pair]
    assert isinstance(found, StoredWindow)
    return found


def test_workers_that_race_for_a_pair_admit_exactly_the_limit(scene: Scene) -> None:
    scene.subscribe()
    workers = [scene, scene.elsewhere(), scene.elsewhere()]
    for turn in range(36):
        workers[turn % 3].take(*scene.observe_new(1))
    assert len(scene.pushes()) == 30


def test_a_worker_that_is_overtaken_between_its_read_and_its_write_decides_anew(scene: Scene) -> None:
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


def test_a_cooldown_that_a_worker_knows_costs_neither_read_nor_write_of_the_window(scene: Scene) -> None:
    scene.subscribe()
    scene.take(*scene.observe_new(31))
    with meter.running() as bill:
        scene.take(*scene.observe_new(5))
    of_subscriptions = 1
    assert (bill.requests["BatchGetItem"], bill.requests["PutItem"]) == (of_subscriptions, 0)


def test_the_windows_of_a_batch_are_read_at_once_and_one_that_can_not_be_read_fails_alone(scene: Scene) -> None:
    windows, pairs, now = Windows(scene.clients.dynamodb), [a_pair() for _ in range(3)], scene.clock()
    for pair in pairs:
        windows.replace(pair, looked_at(windows, pair, now), Window((Admitted(now, b"m" * 8),)), now)
    RateLimit(pairs[1].scope, WINDOW_PART, admitted=b"", ttl=now // 1000 + 60).save()
    with meter.running() as bill:
        found = Windows(scene.clients.dynamodb).look({pair: [now] for pair in [*pairs, a_pair()]})
    assert [type(one) for one in found.values()] == [StoredWindow, Unreadable, StoredWindow, StoredWindow]
    assert bill.requests == {"BatchGetItem": 1}


def test_a_window_that_a_throttle_leaves_unread_fails_alone(scene: Scene) -> None:
    pairs, events = [a_pair() for _ in range(3)], scene.clients.dynamodb.meta.events

    def leave_the_second(parsed: dict[str, Any], **_: object) -> None:
        (table,) = parsed["Responses"]
        key = {"scope": {"B": pairs[1].scope}, "part": {"B": WINDOW_PART}}
        parsed["UnprocessedKeys"] = {table: {"Keys": [key]}}

    events.register("after-call.dynamodb.BatchGetItem", leave_the_second)
    try:
        found = Windows(scene.clients.dynamodb).look({pair: [scene.clock()] for pair in pairs})
    finally:
        events.unregister("after-call.dynamodb.BatchGetItem", leave_the_second)
    assert [type(found[pair]) for pair in pairs] == [StoredWindow, Failure, StoredWindow]


def test_a_worker_that_is_often_wrong_goes_back_to_reading(scene: Scene) -> None:
    windows, elsewhere = (Windows(scene.clients.dynamodb) for _ in range(2))
    pair, now = a_pair(), scene.clock()
    for turn in range(20):
        for one in (windows, elsewhere):
            stored = looked_at(one, pair, now)
            one.replace(pair, stored, Window((Admitted(now + turn, b"m" * 8),)), now)
    assert not looked_at(windows, pair, now).remembered


def test_a_stale_read_takes_no_worker_back(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    windows, pair, now = Windows(scene.clients.dynamodb), a_pair(), scene.clock()
    before = looked_at(windows, pair, now)
    _, written = windows.replace(pair, before, Window((Admitted(now, b"m" * 8),)), now)
    monkeypatch.setattr(match.windows, "BREAK_EVEN", 0)
    monkeypatch.setattr(match.windows, "_read", lambda *_: {pair: before})
    assert looked_at(windows, pair, now) == written


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
    record = PushRecord.get(subscription.subscription_id, statement.hash)
    assert (record.receipt, record.claimed_at) == (str(message.receipt), scene.clock())


def test_a_window_in_its_table_takes_one_write_unit_and_a_busy_pair_one_more_for_each_thirty(scene: Scene) -> None:
    subscription = scene.subscribe()
    for _ in range(4):
        scene.take(*scene.observe_new(30))
        scene.clock.advance(60)
    with meter.running() as bill:
        scene.take(*scene.observe_new(30))
    assert bill.writes == 30 + 1 + 1 + 1  # and one for what the subscription was sent
    assert len(window_of(scene, subscription).admitted) == 60 * 14


def test_a_retry_is_counted_once_although_the_window_has_no_room_for_it_any_more(scene: Scene) -> None:
    subscription = scene.subscribe()
    first = scene.observe_new(1)
    scene.take(*first)
    for _ in range(10):
        scene.clock.advance(60)
        scene.take(*scene.observe_new(30))
    scene.pushes()
    version = window_of(scene, subscription).version
    for worker in (scene, scene.elsewhere()):
        worker.take(*first)
        assert [push.receipt for push in scene.pushes()] == [first[0].receipt]
    assert window_of(scene, subscription).version == version


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


def test_a_cooldown_does_not_reach_back_to_what_was_observed_before_it(scene: Scene) -> None:
    scene.subscribe()
    [earlier] = scene.observe_new(1)
    scene.clock.advance(50 * 60)
    scene.take(*scene.observe_new(31))
    scene.pushes()
    scene.clock.advance(60)
    scene.take(earlier)
    assert [push.receipt for push in scene.pushes()] == [earlier.receipt]


def test_after_an_outage_nothing_is_lost_that_came_at_a_lawful_pace(scene: Scene) -> None:
    scene.subscribe()
    backlog = [message for _ in range(80) for message in later(scene, 2)]
    scene.clock.advance(20 * 60)
    for some in range(0, 80, 10):
        assert scene.take(*backlog[some : some + 10]) == set()
        scene.take(*later(scene, 30))
    assert len(scene.pushes()) == 80 + 8


def later(scene: Scene, seconds: float) -> list[EnvelopeMessage]:
    """One statement, observed so much later."""
    scene.clock.advance(seconds)
    return scene.observe_new(1)


def test_after_a_longer_outage_the_pace_of_handling_counts(scene: Scene) -> None:
    scene.subscribe()
    backlog = [message for _ in range(80) for message in later(scene, 60)]
    scene.clock.advance(LATENESS / 1000)
    for message in backlog[:20]:
        scene.take(message)
        scene.clock.advance(2)
    assert len(scene.pushes()) == 20
    scene.clock.advance(60)
    scene.take(*backlog[20:])
    assert len(scene.pushes()) == 30


def test_retries_of_what_was_late_beyond_the_hour_pass_although_their_own_burst_began_a_cooldown(scene: Scene) -> None:
    scene.subscribe()
    backlog = scene.observe_new(40)
    scene.clock.advance(2 * LATENESS / 1000)
    scene.take(*backlog)
    passed = {push.receipt for push in scene.pushes()}
    assert len(passed) == 30
    scene.clock.advance(100)
    scene.elsewhere().take(*backlog)
    assert {push.receipt for push in scene.pushes()} == passed


def test_a_statement_counts_once_for_a_client_however_many_phones_it_has(scene: Scene) -> None:
    client_id = uuid4().bytes * 2
    for _ in range(2):
        scene.subscribe(client_id=client_id)
    scene.take(*scene.observe_new(31))
    assert len(scene.pushes()) == 2 * 30


@pytest.mark.parametrize("minutes", [0, 5, 50])
def test_a_subscription_that_is_found_late_passes_uncounted_even_in_a_cooldown(scene: Scene, minutes: int) -> None:
    first = scene.subscribe()
    messages = scene.observe_new(31)
    scene.take(*messages)
    scene.pushes()
    version = window_of(scene, first).version
    late = scene.subscribe(client_id=first.client_id)
    scene.clock.advance(minutes * 60)
    for statement in messages[:30]:  # as another node shows it, once more
        again = statement.model_copy(update={"receipt": uuid4(), "observed_at": scene.clock()})
        scene.elsewhere().take(again)
    assert [str(push.subscription_id) for push in scene.pushes()] == [late.subscription_id] * 30
    assert window_of(scene, first).version == version


def test_a_duplicate_eats_no_budget(scene: Scene) -> None:
    scene.subscribe()
    statement = scene.sender.states()
    scene.take(*(scene.observe(statement) for _ in range(40)))
    scene.take(*scene.observe_new(30))
    assert len(scene.pushes()) == 30


def test_a_row_that_expired_does_not_begin_its_versions_anew(scene: Scene) -> None:
    """Else a worker that remembers the row from before would take the new one for it."""
    subscription = scene.subscribe()
    scene.take(*scene.observe_new(1))
    remembers, before = scene, window_of(scene, subscription)
    before.delete()
    fresh = scene.elsewhere()
    scene.clock.advance(0.001)
    fresh.take(*fresh.observe_new(29))
    assert window_of(scene, subscription).version > before.version
    remembers.take(*remembers.observe_new(5))
    assert len(scene.pushes()) == 1 + 30


def test_what_the_window_set_aside_still_counts_for_what_comes_late(scene: Scene) -> None:
    scene.subscribe()
    scene.take(*scene.observe_new(29))
    begun = scene.clock()
    for _ in range(6):
        scene.clock.advance(60)
        scene.take(*scene.observe_new(25))
    scene.pushes()
    late = [one.model_copy(update={"observed_at": begun}) for one in scene.observe_new(3)]
    with meter.running() as bill:
        scene.elsewhere().take(*late)
    assert len(scene.pushes()) == 1
    assert bill.requests["Query"] == 2


def test_an_event_says_by_which_time_and_version_it_was_judged_and_whether_it_was_counted(scene: Scene) -> None:
    subscription = scene.subscribe()
    admission, decided = scene.worker.matcher.admission, list[AdmissionResult]()
    [message] = scene.observe_new(1)
    notification = Notification(
        STATEMENTS,
        message.receipt,
        message.observed_at,
        b"h" * 32,
        scene.sender.key,
        NEVER,
        Match(
            Subscriber(subscription.subscription_id, subscription.client_id, Channel.APNS, active=True, generation=1),
            scene.key(),
            Wanted.ALERT,
        ),
    )
    for _ in range(2):
        decided += decide(admission, [notification])
    version = int(window_of(scene, subscription).version)
    assert decided == [
        AdmissionResult(NotificationDecision.QUEUED, version, message.observed_at, counted=counted)
        for counted in (True, False)
    ]
