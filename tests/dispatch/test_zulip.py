"""Zulip's pushes on their way through dispatch."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from pynamodb.connection import Connection

from clarion.channels import Channel
from clarion.decisions import PushDecision
from clarion.networks import ZULIP
from clarion.networks.zulip.payload import ApnsBody, Aps, Body, FcmBody, ProposedContent, ShippedContent, push_of
from clarion.subscriptions import Registration, register
from clarion.tables import Subscription, find_subscription
from local.apns import Apns
from local.apns_trouble import troubled_token
from local.fcm import Fcm
from local.provider import InjectedFault
from tests.standins import NOW

SERVER = UUID(int=8).bytes
CONTENT = ShippedContent(push_key_id=2408, encrypted_data="c2VhbGVk")
REMOVAL = ApnsBody(content=CONTENT, aps=Aps(mutable_content=1), push_type="background", priority=5)

type Device = Callable[..., str]


@pytest.fixture
def device(aws: None) -> Device:
    """The id of a device, as it is registered."""

    def device(token: str = "a1" * 32, channel: Channel = Channel.APNS, number: int = 7, app: str = "first") -> str:
        named = str(UUID(int=number))
        asked = Registration(ZULIP, SERVER, channel, token, app=app, subscription_id=named)
        assert isinstance(register(Connection(), asked, now=1), Subscription)
        return named

    return device


def put(queue: Any, device_id: str, body: Body) -> None:
    queue.put(push_of(device_id, SERVER, body, int(NOW * 1000)))


@pytest.mark.parametrize(
    ("body", "push_type", "priority"),
    [
        (ApnsBody(content=CONTENT), "alert", "10"),
        (ApnsBody(content=CONTENT, priority=5), "alert", "5"),
        (ApnsBody(content=CONTENT, priority=1), "alert", "1"),
        (REMOVAL, "background", "5"),
    ],
)
def test_apns_gets_the_push_type_and_the_priority_that_the_server_asks_for(
    device: Device, worker: Any, queue: Any, apns: Apns, body: ApnsBody, push_type: str, priority: str
) -> None:
    put(queue, device(), body)
    assert worker.work().decisions == {PushDecision.DELIVERED: 1}
    [received] = apns.received
    assert (received.headers["apns-push-type"], received.headers["apns-priority"]) == (push_type, priority)
    assert received.payload["encrypted_data"] == CONTENT.encrypted_data


def test_apple_keeps_a_message_for_a_phone_that_is_offline_and_no_removal_in_its_place(
    device: Device, worker: Any, queue: Any, apns: Apns
) -> None:
    named, message = device(), ShippedContent(push_key_id=2408, encrypted_data="b3RoZXI=")
    for body in (ApnsBody(content=message), REMOVAL):
        put(queue, named, body)
        worker.work()
    kept = {received.headers["apns-push-type"]: int(received.headers["apns-expiration"]) for received in apns.received}
    assert kept["background"] == 0
    assert kept["alert"] > NOW


@pytest.mark.parametrize("priority", ["high", "normal"])
def test_fcm_gets_text_and_the_priority_that_the_server_asks_for(
    device: Device, android_fleet: Any, queue: Any, fcm: Fcm, priority: Any
) -> None:
    content = ProposedContent(push_account_id=-5, encrypted_content="c2VhbGVk")
    put(queue, device("an-android-phone", Channel.FCM), FcmBody(content=content, priority=priority))
    assert android_fleet.work().decisions == {PushDecision.DELIVERED: 1}
    message = fcm.received[0].payload["message"]
    assert message["data"] == {"push_account_id": "-5", "encrypted_content": "c2VhbGVk"}
    assert message["android"]["priority"] == priority


def test_the_topic_is_that_of_the_registrations_app(device: Device, fleet: Any, queue: Any, apns: Apns) -> None:
    put(queue, device(app="second"), ApnsBody(content=CONTENT))
    assert fleet.work().decisions == {PushDecision.DELIVERED: 1}
    assert apns.received[0].headers["apns-topic"] == "io.pcf.second"


def test_a_repeated_push_has_the_same_id_and_takes_the_place_of_the_first(
    device: Device, worker: Any, queue: Any, apns: Apns, clock: Any
) -> None:
    named = device()
    for _ in range(2):
        put(queue, named, ApnsBody(content=CONTENT))
        worker.work()
        clock.advance(600)
    first, again = (received.headers for received in apns.received)
    assert first["apns-id"] == again["apns-id"]
    assert first["apns-collapse-id"] == again["apns-collapse-id"]


def test_a_dead_token_ends_every_device_that_has_it(device: Device, worker: Any, queue: Any) -> None:
    dead = troubled_token(InjectedFault("Unregistered"))
    named = [device(dead, number=number) for number in (7, 9)]
    put(queue, named[0], ApnsBody(content=CONTENT))
    assert worker.work().decisions == {PushDecision.TOKEN_GONE: 1}
    assert [row and row.status for row in map(find_subscription, named)] == ["invalid"] * 2
    put(queue, named[1], ApnsBody(content=CONTENT))
    assert worker.work().decisions == {PushDecision.SUBSCRIPTION_GONE: 1}


def test_no_event_shows_content_or_token(device: Device, worker: Any, queue: Any, lake: Any) -> None:
    put(queue, device(), ApnsBody(content=CONTENT))
    worker.work()
    assert lake.events
    assert not any(secret in str(lake.events) for secret in (CONTENT.encrypted_data, "a1" * 32))
