import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from botocore.exceptions import ClientError

from clarion.channels import Channel
from clarion.decisions import Purpose, PushDecision, Wanted
from clarion.messages import PushMessage
from clarion.own_pushes import WakeUpBody
from clarion.providers.apns import ApnsApp
from clarion.secrets import MAX_AGE
from clarion.sqs import LONGEST_DELAY
from clarion.tables import Subscription, Token
from dispatch.app_state import REFUSALS_PER_ACCEPTED, SCORE_SECONDS
from dispatch.attempts import MAX_TOKEN_FAULTS, REGISTERED_SINCE_RETRIES
from dispatch.batch import RESERVE_SECONDS, SENDING_SECONDS, BatchReport
from infra.environments import PROD
from local import keys
from local.apns import Apns
from local.apns_trouble import troubled_token
from local.http2 import Misbehaviour, ServedAnswer
from local.provider import InjectedFault
from tests.standins import comes_true

NOW = 1_800_000_000.0
BUNDLE = "io.pcf.polkadotapp"

type Register = Callable[..., Subscription]
type Write = Callable[..., PushMessage]


def tokens(count: int) -> list[str]:
    return [f"a{uuid4().hex}{uuid4().hex[1:]}" for _ in range(count)]


def arrived(apns: Apns) -> list[str]:
    return [push.token for push in apns.received if push.accepted]


@contextmanager
def working_beside_silence(worker: Any, provider: Any) -> Iterator[Future[BatchReport]]:
    """One invocation, in a thread of its own, that this provider gives no answer until the end."""
    with ThreadPoolExecutor(1) as pool, provider.silence():
        yield pool.submit(worker.work)


def statuses(rows: Iterable[Subscription]) -> set[tuple[str, str | None]]:
    now = {row.subscription_id: (row.status, row.status_reason) for row in Subscription.scan()}
    return {now[row.subscription_id] for row in rows}


def work_until_empty(worker: Any, queue: Any, clock: Any) -> None:
    """In steps of a minute, two days long at most."""
    for _ in range(2 * 24 * 60):
        if not len(queue):
            return
        clock.advance(60)
        worker.work()


def test_a_delivered_push_leaves_the_queue_and_is_told_with_its_latency(
    worker: Any, queue: Any, lake: Any, clock: Any, register: Register, message: Write, apns: Any
) -> None:
    sent = message(register(Channel.APNS, "a1" * 32), observed_at=int(NOW * 1000) - 250)
    queue.put(sent)

    report = worker.work()

    assert len(queue) == 0
    assert report.latencies == [250]
    (event,) = lake.events
    assert event["decision"] == "delivered"
    assert event["provider_id"] == apns.received[0].push_id
    assert event["latency_ms"] == 250
    assert event["attempt"] == 1
    assert "a1a1" not in str(event)


def test_a_provider_down_for_ten_minutes_loses_nothing_and_gets_nothing_twice(
    worker: Any, queue: Any, lake: Any, clock: Any, register: Register, message: Write, apns: Any
) -> None:
    lasting, fleeting = tokens(40), tokens(10)
    queue.put(*(message(register(Channel.APNS, token)) for token in lasting))
    queue.put(*(message(register(Channel.APNS, token), expires_at=int(NOW) + 300) for token in fleeting))
    apns.down_until = NOW + 600

    while len(queue) and clock() < NOW + 3600:
        worker.work()
        clock.advance(1)

    assert len(queue) == 0
    assert queue.dead == []
    assert sorted(arrived(apns)) == sorted(lasting)
    assert len(apns.received) <= 50 * 12
    decisions = [event["decision"] for event in lake.events if event["decision"] != "retry"]
    assert sorted(decisions) == ["delivered"] * 40 + ["stale"] * 10
    assert clock() <= NOW + 600 + 900


def test_a_provider_that_can_not_be_reached_keeps_its_messages_waiting(
    cut_off: Any, queue: Any, lake: Any, clock: Any, register: Register, message: Write
) -> None:
    queue.put(*(message(register(Channel.APNS, token)) for token in tokens(20)))
    report = cut_off.work()

    assert report.decisions == {PushDecision.RETRY: 20}
    assert len(queue) == 20
    assert all("connect" in event["reason"] for event in lake.events)


def test_a_retry_waits_as_long_as_the_provider_asks(
    worker: Any, queue: Any, register: Register, message: Write
) -> None:
    token = troubled_token(InjectedFault("TooManyRequests", retry_after=120))
    sent = message(register(Channel.APNS, token))
    queue.put(sent)

    worker.work()

    assert 120 <= queue.wait(sent) <= 180


def test_a_table_that_can_not_be_read_costs_a_call_two_seconds(
    worker: Any, queue: Any, clock: Any, register: Register, message: Write, apns: Any
) -> None:
    row = register(Channel.VOIP, "a1" * 32)
    call = message(row)
    queue.put(call)
    queue.put_text("broken", "{}")
    Subscription.delete_table()

    assert worker.work().decisions == {PushDecision.RETRY: 1}
    assert 0 < queue.wait(call) <= 2
    assert queue.dead == ["{}"]

    Subscription.create_table(billing_mode="PAY_PER_REQUEST")
    row.save()
    clock.advance(2)
    assert worker.work().decisions == {PushDecision.DELIVERED: 1}


def test_a_message_that_would_come_back_too_late_is_stale_at_once(
    worker: Any, queue: Any, lake: Any, register: Register, message: Write
) -> None:
    token = troubled_token(InjectedFault("ServiceUnavailable", retry_after=120))
    queue.put(message(register(Channel.APNS, token), expires_at=int(NOW) + 100))

    worker.work()

    assert len(queue) == 0
    assert [(event["decision"], event["reason"]) for event in lake.events] == [("stale", "ServiceUnavailable")]


def test_a_call_that_nobody_could_take_in_thirty_seconds_never_rings(
    worker: Any, queue: Any, clock: Any, register: Register, message: Write, apns: Any
) -> None:
    queue.put(message(register(Channel.VOIP, "a1" * 32)))
    clock.advance(30)

    report = worker.work()

    assert report.decisions == {PushDecision.STALE: 1}
    assert len(apns.received) == 0


def test_a_burst_of_dead_tokens_ends_their_subscriptions_and_no_other(
    worker: Any, queue: Any, lake: Any, register: Register, message: Write, apns: Any
) -> None:
    gone = [register(Channel.APNS, troubled_token(InjectedFault("Unregistered"), device)) for device in range(25)]
    alive = [register(Channel.APNS, token) for token in tokens(25)]
    queue.put(*(message(row) for pair in zip(gone, alive, strict=True) for row in pair))

    report = worker.work()

    assert report.decisions == {PushDecision.TOKEN_GONE: 25, PushDecision.DELIVERED: 25}
    assert len(queue) == 0
    rows = {row.subscription_id: row for row in Subscription.scan()}
    assert {rows[row.subscription_id].status for row in gone} == {"invalid"}
    assert {rows[row.subscription_id].status for row in alive} == {"active"}
    assert len(list(Token.scan())) == 25
    ended = [event for event in lake.events if event["event"] == "subscription"]
    assert {(event["status"], event["status_reason"], event["revision"]) for event in ended} == {
        ("invalid", "Unregistered", 2)
    }
    assert len(ended) == 25
    cleaned = {str(name) for request in queue.cleanups for name in request.subscription_ids}
    assert cleaned == {row.subscription_id for row in gone}


def test_a_death_that_could_not_be_recorded_is_tried_again(
    worker: Any, queue: Any, clock: Any, register: Register, message: Write
) -> None:
    row = register(Channel.APNS, troubled_token(InjectedFault("Unregistered")))
    queue.put(message(row))
    hook = "before-call.dynamodb.TransactWriteItems"
    events = worker.dispatcher.connection.client.meta.events

    def change(**_: object) -> None:
        Subscription(row.subscription_id).update([Subscription.revision.add(1)])

    events.register(hook, change)
    assert worker.work().decisions == {PushDecision.RETRY: 1}
    events.unregister(hook, change)
    clock.advance(2)

    assert worker.work().decisions == {PushDecision.TOKEN_GONE: 1}
    row.refresh()
    assert row.status == "invalid"


def test_a_death_whose_clean_up_could_not_be_requested_is_tried_again(
    worker: Any, queue: Any, clock: Any, register: Register, message: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = register(Channel.APNS, troubled_token(InjectedFault("Unregistered")))
    queue.put(message(row))

    def refuse(**_: object) -> None:
        raise ClientError({"Error": {"Code": "ServiceUnavailable", "Message": ""}}, "SendMessage")

    with monkeypatch.context() as patch:
        patch.setattr(queue, "send_message", refuse)
        assert worker.work().decisions == {PushDecision.RETRY: 1}
    row.refresh()
    assert row.status == "active"
    clock.advance(2)
    assert worker.work().decisions == {PushDecision.TOKEN_GONE: 1}
    assert len(queue.cleanups) == 1


def test_a_dead_token_gets_no_second_push(
    worker: Any, queue: Any, register: Register, message: Write, apns: Any
) -> None:
    row = register(Channel.APNS, troubled_token(InjectedFault("BadDeviceToken")))
    queue.put(message(row))
    worker.work()
    queue.put(message(row))

    report = worker.work()

    assert report.decisions == {PushDecision.SUBSCRIPTION_GONE: 1}
    assert len(apns.received) == 1


def test_a_subscription_that_has_moved_to_another_channel_gets_no_push_by_the_old_one(
    worker: Any, queue: Any, register: Register, message: Write, apns: Any
) -> None:
    """Apple would take Google's token for a dead one, and the subscription would end."""
    row = register(Channel.FCM, "an-android-phone")
    queue.put(message(row, channel=Channel.APNS))

    assert worker.work().decisions == {PushDecision.SUBSCRIPTION_GONE: 1}
    assert not list(apns.received)
    row.refresh()
    assert row.status == "active"


def test_a_token_registered_after_its_death_is_tried_again(
    worker: Any, queue: Any, clock: Any, register: Register, message: Write
) -> None:
    token = troubled_token(InjectedFault("Unregistered", ago=600, times=1))
    row = register(Channel.APNS, token, created_at=int((NOW - 60) * 1000))
    queue.put(message(row))

    assert worker.work().decisions == {PushDecision.RETRY: 1}
    clock.advance(60)
    assert worker.work().decisions == {PushDecision.DELIVERED: 1}
    row.refresh()
    assert row.status == "active"


def test_a_token_that_stays_dead_after_its_registration_ends_its_subscription_after_two_retries(
    worker: Any, queue: Any, clock: Any, register: Register, message: Write, apns: Any
) -> None:
    token = troubled_token(InjectedFault("Unregistered", ago=600))
    row = register(Channel.APNS, token, created_at=int((NOW - 60) * 1000))
    queue.put(message(row))

    for _ in range(REGISTERED_SINCE_RETRIES):
        assert worker.work().decisions == {PushDecision.RETRY: 1}
        clock.advance(60)

    assert worker.work().decisions == {PushDecision.TOKEN_GONE: 1}
    assert statuses([row]) == {("invalid", "Unregistered")}
    assert (len(queue), len(apns.received)) == (0, 3)


def test_what_the_provider_will_never_take_goes_to_the_dead_letters_and_keeps_its_token(
    worker: Any, queue: Any, register: Register, message: Write
) -> None:
    row = register(Channel.APNS, troubled_token(InjectedFault("BadCollapseId")))
    sent = message(row)
    queue.put(sent)

    report = worker.work()

    assert report.decisions == {PushDecision.REFUSED: 1}
    assert (len(queue), queue.dead) == (0, [sent.to_json()])
    row.refresh()
    assert row.status == "active"


def test_a_wrong_key_stops_the_app_after_one_push_and_the_right_one_resumes_it(
    worker: Any,
    queue: Any,
    lake: Any,
    secrets: Any,
    clock: Any,
    apns_key: keys.ApnsKeyPair,
    register: Register,
    message: Write,
    apns: Any,
) -> None:
    good = secrets.texts["apns"]
    secrets.texts["apns"] = good.replace(apns_key.key_id, "UNKNOWN000")
    wanted = tokens(30)
    queue.put(*(message(register(Channel.APNS, token), expires_at=int(NOW) + 86_400) for token in wanted))

    for _ in range(600):
        worker.work()
        clock.advance(1)

    assert len(queue) == 30
    assert 1 <= len(apns.received) <= 5
    assert {event["decision"] for event in lake.events} == {"misconfigured"}
    assert {event["reason"] for event in lake.events} == {"InvalidProviderToken"}

    secrets.texts["apns"] = good
    for _ in range(1000):
        worker.work()
        clock.advance(1)

    assert len(queue) == 0
    assert sorted(arrived(apns)) == sorted(wanted)


def test_a_fault_of_one_app_is_told_by_its_name(
    worker: Any, queue: Any, secrets: Any, register: Register, message: Write
) -> None:
    del secrets.texts["apns"]
    queue.put(message(register(Channel.APNS, "a1" * 32)), message(register(Channel.APNS, "a2" * 32)))

    assert worker.work().faults == {("first", "secret: ResourceNotFoundException"): 2}


def test_a_connection_reset_amid_500_streams_loses_nothing_and_shows_nothing_twice(
    worker: Any, queue: Any, register: Register, message: Write, apns: Any
) -> None:
    steady = [troubled_token(InjectedFault(delay=0.05), device) for device in range(500)]
    fatal = troubled_token(InjectedFault(Misbehaviour.RESET_CONNECTION, times=1))
    wanted = [*steady[:250], fatal, *steady[250:]]
    queue.put(*(message(register(Channel.APNS, token)) for token in wanted))

    report = worker.work()

    assert report.decisions == {PushDecision.DELIVERED: 501}
    assert len(queue) == 0
    assert set(arrived(apns)) == set(wanted)
    assert len(apns.received) > 501
    assert (
        len({(push.token, push.headers["apns-id"], push.headers["apns-collapse-id"]) for push in apns.received}) == 501
    )


def test_a_key_rotated_amid_the_work_costs_one_more_try_and_no_push(
    worker: Any,
    queue: Any,
    secrets: Any,
    apns: Any,
    register: Register,
    message: Write,
) -> None:
    queue.put(message(register(Channel.APNS, "a1" * 32)))
    worker.work()
    successor = keys.generate_apns_key(key_id="SUCCESSOR0")
    apns.trust(successor)
    secrets.texts["apns"] = json.dumps(
        {"key_id": successor.key_id, "team_id": successor.team_id, "private_key": successor.private_key}
    )
    queue.put(*(message(register(Channel.APNS, token)) for token in tokens(50)))

    report = worker.work()

    assert report.decisions == {PushDecision.DELIVERED: 50}
    assert len(queue) == 0


def test_an_app_at_fault_delays_no_other(
    fleet: Any, queue: Any, secrets: Any, register: Register, message: Write, apns: Any
) -> None:
    del secrets.texts["second"]
    queue.put(*(message(register(Channel.APNS, token, app="second")) for token in tokens(20)))
    queue.put(*(message(register(Channel.APNS, token)) for token in tokens(20)))

    report = fleet.work()

    assert report.decisions == {PushDecision.DELIVERED: 20, PushDecision.MISCONFIGURED: 20}


def test_an_app_whose_token_endpoint_is_silent_delays_no_other(
    android_fleet: Any, queue: Any, lake: Any, register: Register, message: Write, fcm: Any, another_fcm: Any
) -> None:
    another_fcm.exchange = ServedAnswer(Misbehaviour.RESET_STREAM)
    queue.put(*(message(register(Channel.FCM, f"second-{n}", app="second")) for n in range(20)))
    queue.put(*(message(register(Channel.FCM, f"first-{n}")) for n in range(20)))

    with working_beside_silence(android_fleet, another_fcm) as work:
        assert comes_true(lambda: len(fcm.received) == 20)
        assert not work.done()

    assert Counter(event["decision"] for event in lake.events) == {"delivered": 20, "retry": 20}
    assert another_fcm.exchanges == 1


def test_a_trial_that_gets_no_answer_delays_no_other_app(
    fleet: Any, queue: Any, register: Register, message: Write, apns: Any, sandbox: Any
) -> None:
    queue.put(message(register(Channel.VOIP, "b2" * 32, environment="sandbox")))
    queue.put(*(message(register(Channel.VOIP, token)) for token in tokens(20)))

    with working_beside_silence(fleet, sandbox) as work:
        assert comes_true(lambda: len(apns.received) == 20)
        assert not work.done()


def test_a_subscription_names_its_app_and_environment(
    fleet: Any, queue: Any, register: Register, message: Write, apns: Any, sandbox: Any
) -> None:
    queue.put(
        message(register(Channel.APNS, "a1" * 32)),
        message(register(Channel.APNS, "a2" * 32, app="second")),
        message(register(Channel.APNS, "a3" * 32, environment="sandbox")),
    )

    fleet.work()

    assert {(push.token[:2], push.headers["apns-topic"]) for push in apns.received} == {
        ("a1", BUNDLE),
        ("a2", "io.pcf.second"),
    }
    assert [push.token[:2] for push in sandbox.received] == ["a3"]


def test_what_is_for_an_app_that_was_removed_is_held_for_a_few_attempts_and_is_a_dead_letter_then(
    fleet: Any, queue: Any, clock: Any, register: Register, message: Write, apns: Any
) -> None:
    row = register(Channel.APNS, "a1" * 32, app="third")
    queue.put(message(row, expires_at=int(NOW) + 86_400))

    assert fleet.work().faults == {("third", "unknown app"): 1}
    assert (len(queue), queue.held, queue.in_flight) == (1, 1, 0)
    work_until_empty(fleet, queue, clock)

    assert len(queue.dead) == 1
    assert len(queue.delays) == MAX_TOKEN_FAULTS - 1
    assert clock() <= NOW + 1800
    assert len(apns.received) == 0
    row.refresh()
    assert row.status == "active"


def test_what_may_be_a_token_s_own_fault_is_counted_apart_from_what_is_ours(
    android_fleet: Any, queue: Any, clock: Any, register: Register, message: Write
) -> None:
    """Any client can register such tokens, and what counts ours ends a canary."""
    queue.put(message(register(Channel.FCM, "SENDER_ID_MISMATCH-device"), expires_at=2**32 - 1))
    while not queue.dead:
        report = android_fleet.work()
        clock.advance(60)

    assert (report.decisions[PushDecision.REFUSED], report.token_faults) == (1, 1)


def test_what_waits_for_a_wrong_key_is_never_in_flight_and_is_a_dead_letter_after_a_day(
    worker: Any, queue: Any, secrets: Any, clock: Any, register: Register, message: Write
) -> None:
    del secrets.texts["apns"]
    queue.put(*(message(register(Channel.APNS, token), expires_at=2**32 - 1) for token in tokens(3)))

    worker.work()
    assert (len(queue), queue.held, queue.in_flight) == (3, 3, 0)
    work_until_empty(worker, queue, clock)

    assert len(queue.dead) == 3
    assert len(queue.delays) == 3 * (PROD.dispatch.receives - 1)
    assert max(queue.delays) <= LONGEST_DELAY
    assert 16 * 3600 < clock() - NOW < 30 * 3600


def test_a_message_that_an_apps_fault_has_held_for_long_is_not_given_up_at_the_first_fault_of_a_token(
    android_fleet: Any, queue: Any, lake: Any, secrets: Any, clock: Any, register: Register, message: Write
) -> None:
    account = secrets.texts.pop("first")
    queue.put(message(register(Channel.FCM, "SENDER_ID_MISMATCH-device"), expires_at=2**32 - 1))
    while len(queue.delays) < 2 * MAX_TOKEN_FAULTS:
        android_fleet.work()
        clock.advance(60)
    secrets.texts["first"] = account
    work_until_empty(android_fleet, queue, clock)

    assert len(queue.dead) == 1
    reasons = [event["reason"] for event in lake.events]
    assert reasons.count("SENDER_ID_MISMATCH") == MAX_TOKEN_FAULTS
    assert len(reasons) > 2 * MAX_TOKEN_FAULTS


def test_a_provider_in_trouble_says_nothing_of_a_key_that_it_refused(
    worker: Any,
    queue: Any,
    secrets: Any,
    clock: Any,
    apns_key: keys.ApnsKeyPair,
    register: Register,
    message: Write,
    apns: Any,
) -> None:
    good = secrets.texts["apns"]
    secrets.texts["apns"] = good.replace(apns_key.key_id, "UNKNOWN000")
    queue.put(*(message(register(Channel.APNS, token)) for token in tokens(10)))
    assert worker.work().decisions == {PushDecision.MISCONFIGURED: 10}
    secrets.texts["apns"] = good
    clock.advance(60)
    apns.down_until = clock() + 1
    before = len(apns.received)
    assert worker.work().decisions == {PushDecision.RETRY: 1, PushDecision.MISCONFIGURED: 9}
    # One trial: with the key that it knows, and with the one that is read anew.
    assert 1 <= len(apns.received) - before <= 2
    clock.advance(300)
    assert worker.work().decisions == {PushDecision.DELIVERED: 10}


def test_without_time_to_note_what_becomes_of_them_no_pushes_are_sent(
    worker: Any, queue: Any, register: Register, message: Write, apns: Any
) -> None:
    queue.put(*(message(register(Channel.APNS, token)) for token in tokens(2)))
    worker.dispatcher = replace(worker.dispatcher, seconds_left=lambda: SENDING_SECONDS - 1)
    assert worker.work().decisions == {PushDecision.RETRY: 2}
    assert len(apns.received) == 0
    assert (len(queue), queue.in_flight) == (2, 2)


def test_once_time_is_up_what_was_delivered_is_done_and_all_else_comes_again(
    worker: Any, queue: Any, register: Register, message: Write, apns: Any
) -> None:
    dead, refused = (troubled_token(InjectedFault(reason)) for reason in ("Unregistered", "PayloadTooLarge"))
    rows = [register(Channel.APNS, token) for token in ("a1" * 32, dead, refused)]
    queue.put(*map(message, rows))
    queue.put_text("unreadable", "no message")
    left = iter([SENDING_SECONDS])
    worker.dispatcher = replace(worker.dispatcher, seconds_left=lambda: next(left, RESERVE_SECONDS - 1))
    decisions = worker.work().decisions
    assert decisions == {PushDecision.DELIVERED: 1, PushDecision.RETRY: 1, PushDecision.REFUSED: 1}
    assert (len(queue), queue.dead) == (3, [])
    assert statuses(rows) == {("active", None)}


def test_a_held_message_that_is_tried_again_stays_out_of_the_hot_queue(
    worker: Any, queue: Any, secrets: Any, clock: Any, register: Register, message: Write, apns: Any, lake: Any
) -> None:
    good = secrets.texts.pop("apns")
    queue.put(message(register(Channel.APNS, "a1" * 32)))
    worker.work()
    secrets.texts["apns"] = good
    apns.down_until = clock() + 200

    while len(queue):
        assert queue.in_flight == 0
        clock.advance(10)
        worker.work()

    assert arrived(apns) == ["a1" * 32]
    decisions = [(event["decision"], event["attempt"]) for event in lake.events]
    assert decisions == [
        ("misconfigured", 1),
        *(("retry", n) for n in range(2, len(decisions))),
        ("delivered", len(decisions)),
    ]


def test_a_wake_up_that_is_tried_again_stays_out_of_the_hot_queue(
    worker: Any, queue: Any, apns: Apns, register: Register, message: Write, clock: Any
) -> None:
    """It came by way of the held queue, though nothing holds it."""
    row = register(Channel.APNS, troubled_token(InjectedFault("ServiceUnavailable", times=1)))
    queue.put(message(row, purpose=Purpose.WAKE_UP, body=WakeUpBody(), wanted=Wanted.BACKGROUND))
    assert worker.work().decisions == {PushDecision.RETRY: 1}
    assert (queue.held, queue.in_flight) == (1, 0)
    clock.advance(60)
    assert worker.work().decisions == {PushDecision.DELIVERED: 1}
    assert len(queue) == 0


def test_a_held_queue_that_takes_nothing_leaves_the_message_where_it_is(
    worker: Any, queue: Any, secrets: Any, clock: Any, register: Register, message: Write, apns: Any
) -> None:
    good = secrets.texts.pop("apns")
    queue.takes_held = False
    sent = message(register(Channel.APNS, "a1" * 32))
    queue.put(sent)

    assert worker.work().unfinished == [str(sent.receipt)]
    secrets.texts["apns"] = good
    clock.advance(180)

    assert worker.work().decisions == {PushDecision.DELIVERED: 1}


def test_tokens_of_another_project_end_their_subscriptions_while_others_are_accepted(
    android_fleet: Any, queue: Any, register: Register, message: Write, fcm: Any
) -> None:
    foreign = [register(Channel.FCM, f"SENDER_ID_MISMATCH-{n}") for n in range(9)]
    honest = register(Channel.FCM, "an-honest-token")
    queue.put(*(message(row) for row in [*foreign, honest]))

    report = android_fleet.work()

    assert report.decisions == {PushDecision.TOKEN_GONE: 9, PushDecision.DELIVERED: 1}
    assert statuses(foreign) == {("invalid", "SENDER_ID_MISMATCH")}
    assert statuses([honest]) == {("active", None)}
    assert len(queue) == 0


def test_a_service_account_of_the_wrong_project_ends_no_subscription_and_raises_the_alarm(
    android_fleet: Any, queue: Any, clock: Any, register: Register, message: Write, fcm: Any
) -> None:
    rows = [register(Channel.FCM, f"SENDER_ID_MISMATCH-{n}") for n in range(30)]
    queue.put(*(message(row, expires_at=int(NOW) + 86_400) for row in rows))

    report = android_fleet.work()
    assert report.decisions == {PushDecision.MISCONFIGURED: 30}
    assert report.faults == {("first", "SENDER_ID_MISMATCH"): 30}
    assert (queue.held, queue.in_flight) == (30, 0)
    work_until_empty(android_fleet, queue, clock)

    assert statuses(rows) == {("active", None)}
    assert len(queue.dead) == 30


def test_a_wrong_project_id_ends_no_subscription_and_raises_the_alarm(
    android_fleet: Any, queue: Any, register: Register, message: Write, fcm: Any
) -> None:
    rows = [register(Channel.FCM, f"device-{n}") for n in range(30)]
    queue.put(*(message(row) for row in rows))
    fcm.sent_elsewhere = True

    report = android_fleet.work()

    assert report.decisions == {PushDecision.MISCONFIGURED: 30}
    assert report.faults == {("first", "INVALID_ARGUMENT"): 30}
    assert statuses(rows) == {("active", None)}
    assert (queue.held, queue.dead) == (30, [])


def test_malformed_tokens_end_no_more_subscriptions_than_accepted_pushes_allow(
    android_fleet: Any, queue: Any, register: Register, message: Write
) -> None:
    malformed = [register(Channel.FCM, f"INVALID_ARGUMENT-{n}") for n in range(REFUSALS_PER_ACCEPTED + 5)]
    queue.put(*(message(row) for row in [*malformed, register(Channel.FCM, "device")]))

    assert android_fleet.work().decisions == {
        PushDecision.TOKEN_GONE: REFUSALS_PER_ACCEPTED,
        PushDecision.MISCONFIGURED: 5,
        PushDecision.DELIVERED: 1,
    }


def test_a_testers_phone_of_the_wrong_project_condemns_nobody_elses_token(
    android_fleet: Any, queue: Any, register: Register, message: Write
) -> None:
    tester = register(Channel.FCM, "a-testers-token")
    rows = [register(Channel.FCM, f"SENDER_ID_MISMATCH-{n}") for n in range(50)]
    for _ in range(3):
        queue.put(*(message(row) for row in rows))
        android_fleet.work()
    queue.put(message(tester), *(message(row) for row in rows))

    assert android_fleet.work().decisions == {PushDecision.DELIVERED: 1, PushDecision.MISCONFIGURED: 50}
    assert statuses(rows) == {("active", None)}


def test_tokens_of_another_project_hold_nobody_elses_pushes_however_many_they_are(
    android_fleet: Any, queue: Any, register: Register, message: Write, fcm: Any
) -> None:
    for round_ in range(3):
        foreign = [register(Channel.FCM, f"SENDER_ID_MISMATCH-{round_}-{n}") for n in range(60)]
        honest = register(Channel.FCM, f"honest-{round_}")
        queue.put(*(message(row) for row in [*foreign, honest]))

        assert android_fleet.work().decisions[PushDecision.DELIVERED] == 1

    assert queue.in_flight == 0


def test_what_the_last_key_achieved_proves_nothing_of_the_next(
    android_fleet: Any, queue: Any, secrets: Any, clock: Any, register: Register, message: Write
) -> None:
    queue.put(*(message(register(Channel.FCM, f"honest-{n}")) for n in range(20)))
    android_fleet.work()
    secrets.texts["first"] = json.dumps(json.loads(secrets.texts["first"]) | {"private_key_id": "another"})
    clock.advance(MAX_AGE + 1)
    row = register(Channel.FCM, "SENDER_ID_MISMATCH-device")
    queue.put(message(row, observed_at=int(clock() * 1000)))

    assert android_fleet.work().decisions == {PushDecision.MISCONFIGURED: 1}
    assert statuses([row]) == {("active", None)}


def test_an_acceptance_of_long_ago_no_longer_counts(
    android_fleet: Any, queue: Any, clock: Any, register: Register, message: Write
) -> None:
    queue.put(*(message(register(Channel.FCM, f"honest-{n}")) for n in range(20)))
    android_fleet.work()
    clock.advance(SCORE_SECONDS + 1)
    queue.put(message(register(Channel.FCM, "SENDER_ID_MISMATCH-device")))

    assert android_fleet.work().decisions == {PushDecision.MISCONFIGURED: 1}


def test_a_wrong_bundle_id_ends_a_few_subscriptions_and_spares_the_rest(
    worker: Any, queue: Any, register: Register, message: Write
) -> None:
    rows = [
        register(Channel.APNS, troubled_token(InjectedFault("DeviceTokenNotForTopic"), device)) for device in range(60)
    ]
    queue.put(*(message(row) for row in rows))

    report = worker.work()

    few = ApnsApp.presumed_gone
    assert report.decisions == {PushDecision.TOKEN_GONE: few, PushDecision.MISCONFIGURED: 60 - few}
    assert sum(row.status == "active" for row in Subscription.scan()) == 60 - few


def test_an_answer_that_another_push_refutes_holds_its_own_message_alone(
    worker: Any, queue: Any, register: Register, message: Write, apns: Any
) -> None:
    queue.put(message(register(Channel.APNS, "a1" * 32)))
    worker.work()
    forbidden = register(Channel.APNS, troubled_token(InjectedFault("Forbidden")))
    queue.put(message(forbidden), *(message(register(Channel.APNS, token)) for token in tokens(5)))
    assert worker.work().decisions == {PushDecision.MISCONFIGURED: 1, PushDecision.DELIVERED: 5}

    queue.put(*(message(register(Channel.APNS, token)) for token in tokens(5)))
    assert worker.work().decisions == {PushDecision.DELIVERED: 5}


def test_a_malformed_token_ends_its_subscription_and_leaves_no_dead_letter(
    android_fleet: Any, queue: Any, register: Register, message: Write, fcm: Any
) -> None:
    malformed, honest = register(Channel.FCM, "INVALID_ARGUMENT-device"), register(Channel.FCM, "device")
    queue.put(message(malformed), message(honest))

    assert android_fleet.work().decisions == {PushDecision.TOKEN_GONE: 1, PushDecision.DELIVERED: 1}
    assert statuses([malformed]) == {("invalid", "INVALID_ARGUMENT")}
    assert queue.dead == []
    assert [push.token for push in fcm.received if push.accepted] == ["device"]


def test_a_payload_that_google_takes_for_no_token_is_a_dead_letter_and_kills_none(
    android_fleet: Any, queue: Any, register: Register, message: Write, fcm: Any
) -> None:
    row = register(Channel.FCM, "INVALID_ARGUMENT-TIMES1-device")  # the payload is refused, the bare token is not
    queue.put(message(row))

    assert android_fleet.work().decisions == {PushDecision.REFUSED: 1}
    assert statuses([row]) == {("active", None)}
    assert len(queue.dead) == 1


def test_a_message_that_can_not_be_read_is_a_dead_letter(worker: Any, queue: Any) -> None:
    queue.put_text("broken", '{"version": 1}')

    worker.work()

    assert len(queue) == 0
    assert queue.dead == ['{"version": 1}']
