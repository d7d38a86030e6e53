"""Dispatch and any network: what one of them does concerns nobody else's pushes."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from clarion.channels import Channel
from clarion.decisions import PushDecision
from clarion.messages import PushMessage
from clarion.networks import network
from clarion.tables import Subscription
from local.apns_trouble import troubled_token
from local.provider import InjectedFault
from tests.toy import ToyBody

type Register = Callable[..., Subscription]
type Write = Callable[..., PushMessage]

BODY = ToyBody(room="hall", text="hello")


def toys(write: Write, row: Subscription) -> PushMessage:
    return write(row, network="toy", body=BODY)


def fail(*_: object) -> None:
    raise ZeroDivisionError


def test_a_network_whose_payload_fails_loses_its_own_push_alone(
    toy: str,
    worker: Any,
    queue: Any,
    register: Register,
    message: Write,
    apns: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(type(network(toy)), "payload", fail)
    queue.put(toys(message, register(Channel.APNS, "a1" * 32, network=toy)))
    queue.put(message(register(Channel.APNS, "b2" * 32)))

    report = worker.work()

    assert report.decisions == {PushDecision.REFUSED: 1, PushDecision.DELIVERED: 1}
    assert [push.token for push in apns.received] == ["b2" * 32]
    assert (len(queue), len(queue.dead)) == (0, 1)


def test_an_outcome_that_concerns_a_network_is_a_command_for_it(
    toy: str, worker: Any, queue: Any, register: Register, message: Write
) -> None:
    gone = register(Channel.APNS, troubled_token(InjectedFault("Unregistered")), network=toy)
    queue.put(toys(message, gone))

    worker.work()

    assert [(one.network, one.content) for one in queue.commands] == [(toy, b"gone:" + gone.subscription_id.encode())]
    assert Subscription.get(gone.subscription_id).status == "invalid"
    assert len(queue) == 0


def test_a_subscription_ends_only_once_its_networks_command_is_sent(
    toy: str, worker: Any, queue: Any, clock: Any, register: Register, message: Write
) -> None:
    gone = register(Channel.APNS, troubled_token(InjectedFault("Unregistered")), network=toy)
    queue.put(toys(message, gone))
    queue.takes_commands = False

    worker.work()
    assert (len(queue), Subscription.get(gone.subscription_id).status) == (1, "active")

    queue.takes_commands = True
    clock.advance(600)
    worker.work()
    assert len(queue.commands) == 1
    assert (len(queue), Subscription.get(gone.subscription_id).status) == (0, "invalid")


def test_a_push_that_is_given_up_is_an_outcome_as_well(
    toy: str, worker: Any, queue: Any, register: Register, message: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused only when it is not tried again."""
    outcomes: list[PushDecision] = []
    monkeypatch.setattr(type(network(toy)), "on_outcome", lambda _self, _push, outcome: outcomes.append(outcome))
    worker.dispatcher = replace(worker.dispatcher, max_receives=1)
    queue.put(toys(message, register(Channel.APNS, troubled_token(InjectedFault("ServiceUnavailable")), network=toy)))

    worker.work()

    assert outcomes == [PushDecision.REFUSED]


def test_a_network_without_a_queue_of_commands_keeps_its_own_message_alone(
    toy: str, worker: Any, queue: Any, register: Register, message: Write, apns: Any
) -> None:
    worker.dispatcher.command_queues.clear()
    queue.put(toys(message, register(Channel.APNS, troubled_token(InjectedFault("Unregistered")), network=toy)))
    queue.put(message(register(Channel.APNS, "b2" * 32)))

    worker.work()

    assert len(queue) == 1
    assert [push.token for push in apns.received if push.accepted] == ["b2" * 32]
