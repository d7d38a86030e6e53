"""What the lake has of a push's end: docs/dispatch.md#how-a-push-ends-in-the-lake."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from clarion.channels import Channel
from clarion.messages import PushMessage
from clarion.tables import Subscription
from dispatch.attempts import MAX_TOKEN_FAULTS
from dispatch.batch import RESERVE_SECONDS, SENDING_SECONDS
from local.apns_trouble import troubled_token
from local.provider import InjectedFault

NOW = 1_800_000_000

type Register = Callable[..., Subscription]
type Write = Callable[..., PushMessage]


def ends(lake: Any) -> list[tuple[int, str, bool | None]]:
    return [(event["attempt"], event["decision"], event.get("given_up")) for event in lake.events]


def test_a_push_that_fails_at_its_last_attempt_is_given_up(
    worker: Any, queue: Any, lake: Any, clock: Any, register: Register, message: Write
) -> None:
    worker.dispatcher = replace(worker.dispatcher, max_receives=7)
    queue.put(message(register(Channel.APNS, troubled_token(InjectedFault("ServiceUnavailable")))))
    while len(queue):
        worker.work()
        clock.advance(60)

    retried = [(number, "retry", None) for number in range(1, 7)]
    assert ends(lake) == [*retried, (7, "refused", True)]
    assert len(queue.dead) == 1


def test_a_push_that_its_provider_refuses_is_not_given_up_however_often_it_was_tried_before(
    worker: Any, queue: Any, lake: Any, clock: Any, register: Register, message: Write, apns: Any
) -> None:
    apns.down_until = NOW + 600
    queue.put(message(register(Channel.APNS, troubled_token(InjectedFault("PayloadTooLarge")))))
    while len(queue):
        worker.work()
        clock.advance(100)

    *retried, (attempt, *end) = ends(lake)
    assert [end for _, *end in retried] == [["retry", None]] * (attempt - 1)
    assert attempt > 6
    assert end == ["refused", False]
    assert len(queue.dead) == 1


def test_a_push_that_fails_too_often_for_what_may_be_its_tokens_fault_is_given_up(
    android_fleet: Any, queue: Any, lake: Any, clock: Any, register: Register, message: Write
) -> None:
    queue.put(message(register(Channel.FCM, "SENDER_ID_MISMATCH-device"), expires_at=NOW + 86_400))
    while len(queue):
        android_fleet.work()
        clock.advance(60)

    held = [(number, "misconfigured", None) for number in range(1, MAX_TOKEN_FAULTS)]
    assert ends(lake) == [*held, (MAX_TOKEN_FAULTS, "refused", True)]


def test_given_up_is_not_set_for_a_push_that_is_delivered_or_comes_too_late(
    worker: Any, queue: Any, lake: Any, register: Register, message: Write
) -> None:
    queue.put(message(register(Channel.APNS, "a1" * 32)))
    troubled = register(Channel.APNS, troubled_token(InjectedFault("ServiceUnavailable")))
    queue.put(message(troubled, expires_at=NOW + 1))

    worker.work()

    assert sorted(ends(lake)) == [(1, "delivered", None), (1, "stale", None)]


def test_a_push_that_was_given_up_and_could_not_be_dead_lettered_comes_again(
    worker: Any, queue: Any, lake: Any, clock: Any, register: Register, message: Write, apns: Any
) -> None:
    apns.down_until = NOW + 60
    dispatcher = worker.dispatcher
    left = iter([SENDING_SECONDS])
    worker.dispatcher = replace(dispatcher, max_receives=1, seconds_left=lambda: next(left, RESERVE_SECONDS - 1))
    queue.put(message(register(Channel.APNS, "a1" * 32)))
    worker.work()
    worker.dispatcher = dispatcher
    clock.advance(180)
    worker.work()

    assert ends(lake) == [(1, "refused", True), (2, "delivered", None)]
    assert (len(queue), queue.dead) == (0, [])
