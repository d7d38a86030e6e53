"""XMTP's pushes on their way through dispatch."""

import json
from base64 import b64decode
from collections.abc import Callable
from typing import Any

import pytest

from clarion.channels import Channel
from clarion.decisions import OwnMessages, Purpose, PushDecision, Wanted
from clarion.messages import PushMessage
from clarion.networks import XMTP
from clarion.networks.xmtp import decode
from clarion.networks.xmtp.envelope import LIFETIME_S
from clarion.networks.xmtp.payload import body_of, refresh_body
from clarion.tables import Subscription
from local.apns import Apns
from local.apns_trouble import troubled_token
from local.fcm import Fcm
from local.provider import InjectedFault
from match.settings import MatchSettings
from match.worker import MatchClients
from tests.match.scene import PREFIX, InTurn, Scene, deploy
from tests.standins import NOW
from tests.xmtp import TOPIC, Inbox

type Register = Callable[..., Subscription]
type Write = Callable[..., PushMessage]

RAW = decode(Inbox(b"bo").message(NOW))


@pytest.fixture
def push(register: Register, message: Write) -> Callable[..., PushMessage]:
    """A push of a message for a device, as match makes it."""

    def push(channel: Channel, token: str = "a1" * 32, **others: Any) -> PushMessage:
        row = register(channel, token, network=XMTP)
        content = {"body": body_of(RAW, Channel.WEBHOOK), "envelope_id": RAW.id, "expires_at": RAW.expires_at}
        return message(row, network=XMTP, **(content | others))

    return push


def test_an_alert_is_kept_by_apns_for_as_long_as_its_envelope_lives(
    push: Callable[..., PushMessage], worker: Any, queue: Any, apns: Apns
) -> None:
    queue.put(push(Channel.APNS))
    assert worker.work().decisions == {PushDecision.DELIVERED: 1}
    [received] = apns.received
    assert (received.headers["apns-push-type"], received.headers["apns-priority"]) == ("alert", "10")
    assert received.headers["apns-expiration"] == str(int(NOW) + LIFETIME_S)
    assert received.payload["topic"] == TOPIC


def test_an_own_message_goes_all_the_way_to_apns_where_its_app_has_them_delivered(
    worker: Any, queue: Any, apns: Apns
) -> None:
    own_messages = json.dumps({"first": OwnMessages.DELIVER})
    deployed = deploy() | {"CLARION_FIRST_APP": "first", "CLARION_OWN_MESSAGES": own_messages}
    clients = MatchClients.make(PREFIX)._replace(executor=InTurn())
    scene, bo = Scene(MatchSettings.from_environment(deployed), clients), Inbox(b"bo")
    row = scene.subscribe_to(XMTP, [bo.rule(int(NOW))])
    row.token = "a1" * 32
    row.save()

    scene.take(scene.show(XMTP, bo.message(NOW)))
    queue.put(*scene.pushes())

    assert worker.work().decisions == {PushDecision.DELIVERED: 1}
    [received] = apns.received
    assert b64decode(received.payload["encryptedMessage"]) == RAW.message


@pytest.mark.parametrize("purpose", [Purpose.NOTIFICATION, Purpose.REFRESH])
def test_what_is_silent_is_a_background_push_for_apns(
    push: Callable[..., PushMessage], worker: Any, queue: Any, apns: Apns, purpose: Purpose
) -> None:
    body = refresh_body() if purpose is Purpose.REFRESH else body_of(RAW, Channel.WEBHOOK)
    queue.put(push(Channel.APNS, wanted=Wanted.BACKGROUND, purpose=purpose, body=body))
    assert worker.work().decisions == {PushDecision.DELIVERED: 1}
    [received] = apns.received
    assert (received.headers["apns-push-type"], received.headers["apns-priority"]) == ("background", "5")
    assert received.payload["aps"] == {"content-available": 1}


@pytest.mark.parametrize(("wanted", "priority"), [(Wanted.ALERT, "high"), (Wanted.BACKGROUND, "normal")])
def test_what_is_silent_has_a_normal_priority_for_fcm(
    push: Callable[..., PushMessage], android_fleet: Any, queue: Any, fcm: Fcm, wanted: Wanted, priority: str
) -> None:
    queue.put(push(Channel.FCM, "an-android-phone", wanted=wanted))
    assert android_fleet.work().decisions == {PushDecision.DELIVERED: 1}
    [received] = fcm.received
    assert received.payload["message"]["android"] == {"priority": priority, "ttl": f"{LIFETIME_S}s"}
    assert received.payload["message"]["data"]["topic"] == TOPIC


def test_fcm_keeps_an_alert_for_iphones_and_browsers_as_long_as_for_android(
    push: Callable[..., PushMessage], android_fleet: Any, queue: Any, fcm: Fcm
) -> None:
    queue.put(push(Channel.FCM, "whatever holds it"))
    android_fleet.work()
    message = fcm.received[0].payload["message"]
    assert message["apns"]["headers"]["apns-expiration"] == str(int(NOW) + LIFETIME_S)
    assert message["webpush"]["headers"] == {"TTL": str(LIFETIME_S)}


def test_a_message_that_its_node_took_a_day_ago_is_stale(
    push: Callable[..., PushMessage], worker: Any, queue: Any, clock: Any, apns: Apns
) -> None:
    queue.put(push(Channel.APNS))
    clock.advance(LIFETIME_S)
    assert worker.work().decisions == {PushDecision.STALE: 1}
    assert not list(apns.received)


def test_a_dead_token_ends_its_installation(push: Callable[..., PushMessage], worker: Any, queue: Any) -> None:
    dead = push(Channel.APNS, troubled_token(InjectedFault("Unregistered")))
    queue.put(dead)
    assert worker.work().decisions == {PushDecision.TOKEN_GONE: 1}
    assert not queue.commands
    assert Subscription.get(str(dead.subscription_id)).status == "invalid"
