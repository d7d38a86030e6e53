"""XMTP through the deployed stack: apps' own Connect client in front, nodes behind, and who is woken by whose message."""

import asyncio
import json
import time
from base64 import b64decode, b64encode
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha1
from itertools import count
from typing import Any

import pytest

from clarion.messages import CommandMessage
from clarion.networks import XMTP
from clarion.networks.needs import HOURLY
from clarion.networks.xmtp import decode
from clarion.networks.xmtp.installations import VALID_S, bucket_of, subscription_id_of
from clarion.networks.xmtp.needs import INSTALLATIONS
from clarion.networks.xmtp.rules import TopicCondition, pack
from clarion.networks.xmtp.sender_hmac import PERIOD_S, period_at
from local.device import Device
from local.notifications import CallRefused, ConnectCall, ConnectNotificationsClient, WireProtocol
from local.provider import InjectedFault, Journal, ReceivedPush
from local.scenes import QUIET, decisions_on, shown_by_phones
from local.system import PATIENCE, System
from local.xmtp_device import ChatGroup, Inbox, InstalledApp, Mechanism, period_now

pytestmark = [pytest.mark.system, pytest.mark.asyncio(loop_scope="session")]

DAY_MS = 24 * 3600 * 1000


@dataclass(frozen=True)
class Chat:
    """A group of two with names of a test's own; `friend` has registered nothing."""

    name: str

    @property
    def group(self) -> ChatGroup:
        return ChatGroup(self.name)

    @property
    def receiver(self) -> Inbox:
        return Inbox(f"who reads {self.name}")

    @property
    def friend(self) -> Inbox:
        return Inbox(f"who writes {self.name}")

    @property
    def app(self) -> InstalledApp:
        return InstalledApp(self.receiver, "phone")

    async def join(
        self, system: System, token: str, mechanism: Mechanism = Mechanism.APNS, *, is_silent: bool = False
    ) -> None:
        """The receiver's phone registers, and subscribes to the group."""
        async with system.notifications_of(self.app.device, binary=True) as client:
            await self.app.register(client, mechanism, token)
            await self.app.subscribe(client, [self.app.subscription_to(self.group, is_silent=is_silent)])

    def hello(self, system: System, text: bytes = b"hello") -> bytes:
        """The friend's message, as a node shows it."""
        return self.publish(system, self.friend.message(self.group, text))

    def publish(self, system: System, message: bytes) -> bytes:
        return system.xmtp.publish(self.group.topic, message)


async def notified(system: System, *envelopes: bytes, pushes: int) -> Counter[str]:
    """What was decided for the one subscription that has asked for each of them."""
    ids = {decode(raw).id.hex() for raw in envelopes}
    decisions = await decisions_on(system, ids, pushes=pushes, notifications=len(ids))
    await asyncio.sleep(QUIET)
    return decisions


def wakes(journal: Journal, token: str) -> list[ReceivedPush]:
    return shown_by_phones(push for push in journal if push.token == token)


async def first_push_to(journal: Journal, token: str) -> ReceivedPush:
    async with asyncio.timeout(PATIENCE):
        while not (found := wakes(journal, token)):
            await journal.until(journal.count + 1)
    return found[0]


@pytest.mark.parametrize("protocol", WireProtocol)
async def test_the_connect_client_registers_and_subscribes_and_an_envelope_becomes_a_push(
    system: System, protocol: WireProtocol
) -> None:
    chat, token = Chat(f"chat by {protocol}"), protocol.encode().hex().ljust(64, "0")
    client, app = system.connect_client_of(chat.app.device, protocol), chat.app

    valid_until = await app.register(client, Mechanism.APNS, token)
    await app.subscribe(client, [app.subscription_to(chat.group), app.welcomes])
    raw = chat.hello(system)
    push = await system.push_of(raw, of=XMTP)

    assert push.token == token
    assert push.headers["apns-push-type"] == "alert"
    assert push.payload == {
        "aps": {"alert": "New message from XMTP", "mutable-content": 1},
        "topic": chat.group.topic,
        "encryptedMessage": b64encode(decode(raw).message).decode(),
        "messageKind": "v3-conversation",
    }
    days = (valid_until - decode(raw).timestamp_ns // 1_000_000) / DAY_MS
    assert 29.9 < days < 30.1


async def test_a_welcome_is_pushed_to_whom_it_invites(system: System) -> None:
    app, token = InstalledApp(Inbox("who is invited"), "phone"), "e1" * 32
    async with system.notifications_of(app.device) as client:
        await app.register(client, Mechanism.APNS, token)
        await client.call("Subscribe", {"installationId": app.id, "topics": [app.welcomes.topic]})

    push = await system.push_of(system.xmtp.publish(app.welcomes.topic, b"a sealed welcome"), of=XMTP)

    assert (push.token, push.payload["messageKind"]) == (token, "v3-welcome")
    assert b64decode(push.payload["encryptedMessage"]) == b"a sealed welcome"


async def test_topics_that_come_before_the_registration_are_in_force_with_it(system: System) -> None:
    chat, token = Chat("chat before the registration"), "ef" * 32
    client = system.connect_client_of(chat.app.device, WireProtocol.CONNECT_PROTO)

    await chat.app.subscribe(client, [chat.app.subscription_to(chat.group)])
    await chat.app.register(client, Mechanism.APNS, token)
    own = chat.publish(system, chat.receiver.message(chat.group, b"from my tablet"))
    decisions = await notified(system, own, chat.hello(system), pushes=1)

    assert decisions == {"matched": 2, "own_message": 1, "queued": 1, "delivered": 1}
    assert len(wakes(system.apns.received, token)) == 1


async def test_an_android_phone_gets_the_message_as_data(system: System) -> None:
    chat, token = Chat("chat on Android"), "xmtp-" + "A" * 140
    await chat.join(system, token, Mechanism.FCM)

    raw = chat.hello(system)

    message = (await first_push_to(system.fcm.received, token)).payload["message"]
    assert message["data"] == {
        "topic": chat.group.topic,
        "encryptedMessage": b64encode(decode(raw).message).decode(),
        "messageType": "v3-conversation",
    }
    assert message["android"]["priority"] == "high"


async def test_a_custom_mechanism_is_the_operators_webhook(system: System) -> None:
    chat, token = Chat("chat by webhook"), json.loads(system.webhook.install())["token"]
    before = datetime.now(UTC) - timedelta(milliseconds=1)
    await chat.join(system, token, Mechanism.CUSTOM)

    shown = decode(chat.hello(system))

    push = await first_push_to(system.webhook.received, token)
    assert push.payload == {
        "idempotency_key": sha1(shown.topic.encode() + shown.message, usedforsecurity=False).hexdigest(),
        "message": {
            "content_topic": shown.topic,
            "timestamp_ns": push.payload["message"]["timestamp_ns"],
            "message": b64encode(shown.message).decode(),
        },
        "message_context": {"message_type": "v3-conversation", "should_push": True},
        "installation": {
            "id": chat.app.id,
            "delivery_mechanism": {"kind": "custom", "token": token},
        },
        "subscription": {
            "created_at": push.payload["subscription"]["created_at"],
            "topic": shown.topic,
            "is_silent": False,
        },
    }
    began_at = datetime.fromisoformat(push.payload["subscription"]["created_at"])
    assert before <= began_at <= datetime.now(UTC)
    assert push.headers["clarion-client"] == chat.app.device.public_key.hex()


@pytest.mark.parametrize(
    ("trouble", "decisions"),
    [
        (InjectedFault("ServiceUnavailable", retry_after=1, times=1), ["retry", "delivered"]),
        (InjectedFault("BadRequest"), ["refused"]),
        # The last of all: it holds whatever is for the webhook.
        (InjectedFault("Unauthorized"), ["misconfigured"]),
    ],
    ids=["unavailable", "refused", "unauthorized"],
)
async def test_the_webhooks_answer_decides_what_becomes_of_a_push(
    system: System, trouble: InjectedFault, decisions: list[str]
) -> None:
    chat, token = Chat(f"chat by a webhook: {trouble.failure}"), json.loads(system.webhook.install(trouble))["token"]
    await chat.join(system, token, Mechanism.CUSTOM)

    raw = chat.hello(system)

    assert (await push_decisions(system, raw, len(decisions)))[: len(decisions)] == decisions
    for queue in ("webhook-held", "webhook-dead"):
        system.client("sqs").purge_queue(QueueUrl=system.queue_urls[queue])


async def push_decisions(system: System, raw: bytes, pushes: int) -> list[str]:
    """Of the attempts to push an envelope, in their order, once there are so many."""
    found = []
    async for events in system.lake.growing(PATIENCE):
        found = [each for each in events if each["event"] == "push" and each["envelope_id"] == decode(raw).id.hex()]
        if len(found) >= pushes:
            break
    return [str(each["decision"]) for each in sorted(found, key=lambda each: int(each["attempt"]))]


async def test_a_silent_subscription_is_pushed_in_the_background(system: System) -> None:
    chat, android = Chat("silent chat"), Chat("silent chat on Android")
    await chat.join(system, "e2" * 32, is_silent=True)
    await android.join(system, "xmtp-" + "S" * 140, Mechanism.FCM, is_silent=True)

    push = await system.push_of(chat.hello(system), of=XMTP)
    android.hello(system)

    assert (push.headers["apns-push-type"], push.headers["apns-priority"]) == ("background", "5")
    assert push.payload["aps"] == {"content-available": 1}
    sent = (await first_push_to(system.fcm.received, "xmtp-" + "S" * 140)).payload["message"]
    assert sent["android"]["priority"] == "normal"


async def test_ones_own_message_and_a_reaction_wake_nobody(system: System) -> None:
    chat, token = Chat("chat with oneself"), "e3" * 32
    await chat.join(system, token)

    own = chat.publish(system, chat.receiver.message(chat.group, b"from my tablet"))
    heart = chat.publish(system, chat.friend.message(chat.group, b"a heart", should_push=False))
    decisions = await notified(system, own, heart, pushes=0)

    assert decisions == {"matched": 2, "own_message": 1, "not_pushable": 1}
    assert not wakes(system.apns.received, token)


@pytest.mark.parametrize(
    ("direction", "registered"),
    [(-1, 0), (1, 0), (-1, -1)],
    ids=["the sender's clock is behind", "the sender's clock is ahead", "behind, with keys of the period before"],
)
async def test_the_rollover_of_a_period_changes_nothing(system: System, direction: int, registered: int) -> None:
    """The sender derives its key by another period than the node's; the keys are those handed out in that period."""
    chat, token = Chat(f"chat at a rollover, {direction}, {registered}"), f"e4{direction % 10}{registered % 10}" * 16
    now, app = period_now(), chat.app
    async with system.notifications_of(app.device) as client:
        await app.register(client, Mechanism.APNS, token)
        await app.subscribe(client, [app.subscription_to(chat.group, period=now + registered)])

    own = chat.publish(system, chat.receiver.message(chat.group, b"mine", period=now + direction))
    friends = chat.publish(system, chat.friend.message(chat.group, b"theirs", period=now + direction))
    decisions = await notified(system, own, friends, pushes=1)

    assert decisions == {"matched": 2, "own_message": 1, "queued": 1, "delivered": 1}
    [push] = wakes(system.apns.received, token)
    assert b64decode(push.payload["encryptedMessage"]) == decode(friends).message


async def test_what_fits_no_push_is_announced_without_its_bytes(system: System) -> None:
    chat = Chat("chat of long letters")
    await chat.join(system, "e5" * 32)

    push = await system.push_of(chat.hello(system, bytes(5_000)), of=XMTP)

    assert push.payload["truncated"] is True
    assert "encryptedMessage" not in push.payload
    assert push.payload["topic"] == chat.group.topic


async def test_a_node_that_goes_away_loses_nothing(system: System) -> None:
    chat, token = Chat("chat that outlasts its nodes"), "e6" * 32
    await chat.join(system, token)
    one, other = system.xmtp.nodes
    envelopes = [chat.hello(system, b"by both")]
    try:
        await one.stop()
        envelopes.append(chat.hello(system, b"by the other"))
        await one.start()
        await asyncio.wait_for(one.until_watched(), PATIENCE)
        other.refuse()
        envelopes.append(chat.hello(system, b"by the one"))
        other.accept()
        await asyncio.wait_for(other.until_watched(), PATIENCE)
        one.show_raw(b"\xffgarbage")
        one.stall()
        envelopes.append(chat.hello(system, b"by the other again"))
        decisions = await notified(system, *envelopes, pushes=4)
    finally:
        other.accept()
        one.resume()

    assert decisions == {"matched": 4, "queued": 4, "delivered": 4}
    shown = [b64decode(push.payload["encryptedMessage"]) for push in wakes(system.apns.received, token)]
    assert sorted(shown) == sorted(decode(raw).message for raw in envelopes)


@pytest.mark.parametrize("protocol", WireProtocol)
async def test_what_is_refused_comes_with_connects_code(system: System, protocol: WireProtocol) -> None:
    mine, theirs = Chat(f"mine, {protocol}"), Chat(f"theirs, {protocol}")
    token = b"taken by " + protocol.encode()
    mechanism = {"apnsDeviceToken": token.hex().ljust(64, "0")}
    await mine.app.register(system.connect_client_of(mine.app.device, protocol), Mechanism.APNS, *mechanism.values())

    answers = await system.connect_client_of(theirs.app.device, protocol).call_all(
        [
            ConnectCall("RegisterInstallation", {"installationId": "install1"}),
            ConnectCall("RegisterInstallation", {"installationId": "install1", "deliveryMechanism": mechanism}),
        ]
    )

    assert [answer.code for answer in answers if isinstance(answer, CallRefused)] == [
        "invalid_argument",
        "already_exists",
    ]


async def test_who_has_no_bearer_token_is_not_served(system: System) -> None:
    url, host = system.deployment.api_url, system.deployment.api_host
    client = ConnectNotificationsClient(url, {"Host": host}, WireProtocol.CONNECT_JSON)

    with pytest.raises(CallRefused) as refusal:
        await InstalledApp(Inbox("a stranger"), "phone").register(client, Mechanism.APNS, "e7" * 32)

    assert refusal.value.code == "unauthenticated"


async def test_an_installation_that_unsubscribes_or_is_deleted_is_woken_no_more(system: System) -> None:
    chat, other = Chat("chat to leave"), Chat("chat of a deleted app")
    await chat.join(system, "e8" * 32)
    await other.join(system, "e9" * 32)
    for each in (chat, other):
        await system.push_of(each.hello(system), of=XMTP)

    client = system.connect_client_of(chat.app.device, WireProtocol.CONNECT_PROTO)
    await chat.app.unsubscribe(client, [chat.group.topic])
    await other.app.delete(system.connect_client_of(other.app.device, WireProtocol.GRPC_WEB))
    for each in (chat, other):
        each.hello(system, b"too late")
    await asyncio.sleep(10 * QUIET)

    assert len(wakes(system.apns.received, "e8" * 32)) == len(wakes(system.apns.received, "e9" * 32)) == 1


async def test_an_installation_is_its_callers_alone(system: System) -> None:
    """Whoever names another client's installation means one of its own, which may not be there."""
    chat, mallory = Chat("chat that is kept"), InstalledApp(Inbox("Mallory"), "phone")
    await chat.join(system, "ea" * 32)

    async with system.notifications_of(mallory.device) as client:
        with suppress(CallRefused):
            await chat.app.delete(client)

    assert (await system.push_of(chat.hello(system), of=XMTP)).token == "ea" * 32


async def test_an_app_whose_keys_run_out_is_asked_once_for_new_ones(system: System) -> None:
    now, token = int(time.time()), "eb" * 32
    names = (f"who runs out of keys, {number}" for number in count())
    # In the first week of a period, some are asked later than now.
    chat = next(chat for chat in map(Chat, names) if bucket_of(chat.app.id) * 3600 <= now % PERIOD_S)
    async with system.notifications_of(chat.app.device) as client:
        await chat.app.register(client, Mechanism.APNS, token)
        await chat.app.subscribe(client, [chat.app.subscription_to(chat.group, period=period_at(now) - 1)])

    await tick(system)
    push = await first_push_to(system.apns.received, token)
    await tick(system)
    await until_ticked(system)

    assert push.payload == {"aps": {"content-available": 1}, "messageKind": "refresh-keys"}
    assert (push.headers["apns-push-type"], push.headers["apns-priority"]) == ("background", "5")
    assert len(wakes(system.apns.received, token)) == 1


async def test_an_installation_that_is_not_registered_again_ends(system: System) -> None:
    chat, token = Chat("chat of an app that was removed"), "ec" * 32
    await chat.join(system, token)
    await asyncio.to_thread(run_out, system, chat.app)

    await tick(system)
    await until_ticked(system)
    chat.hello(system)

    async with system.api_of(Device("who gets the phone next")) as api:
        registered = await api.register_subscription("apns", token)
        await api.remove_subscriptions(registered["subscription_id"])
    assert not wakes(system.apns.received, token)


async def test_a_key_that_serves_no_more_is_erased_though_its_topic_is_not_named_again(system: System) -> None:
    chat = Chat("chat of old keys")
    await chat.join(system, "ed" * 32)
    await asyncio.to_thread(age_keys, system, chat)

    await tick(system)
    await until_ticked(system)

    [rule] = await asyncio.to_thread(rules_of, system, chat.app)
    assert "condition" not in rule


def run_out(system: System, app: InstalledApp) -> None:
    """As if it had been registered months ago."""
    week_ago = int(time.time()) - 7 * 86_400
    change(system, INSTALLATIONS, app, valid_until=week_ago, end_due=week_ago)
    change(system, "subscriptions", app, created_at=(week_ago - VALID_S) * 1000)


def age_keys(system: System, chat: Chat) -> None:
    """As if it had been asked for newer keys, and had given none for months."""
    now = int(time.time())
    old = period_at(now) - 2
    condition = pack(TopicCondition({old: chat.receiver.hmac_keys(chat.group, old)[old]}))
    [rule] = rules_of(system, chat.app)
    table = f"{system.deployment.outputs.table_prefix}rules"
    system.client("dynamodb").put_item(TableName=table, Item=rule | {"condition": {"B": condition}})
    change(system, INSTALLATIONS, chat.app, asked_at=now - 1, keys_due=now - 1)


def rules_of(system: System, app: InstalledApp) -> list[dict[str, Any]]:
    answer = system.client("dynamodb").query(
        TableName=f"{system.deployment.outputs.table_prefix}rules",
        KeyConditionExpression="subscription_id = :name",
        ExpressionAttributeValues={":name": {"S": subscription_id_of(app.device.public_key, app.id)}},
    )
    return list(answer["Items"])


def change(system: System, table: str, app: InstalledApp, **numbers: int) -> None:
    """What the installation's row in a table holds."""
    system.client("dynamodb").update_item(
        TableName=f"{system.deployment.outputs.table_prefix}{table}",
        Key={"subscription_id": {"S": subscription_id_of(app.device.public_key, app.id)}},
        UpdateExpression="SET " + ", ".join(f"{name} = :{name}" for name in numbers),
        ExpressionAttributeValues={f":{name}": {"N": str(value)} for name, value in numbers.items()},
    )


async def tick(system: System) -> None:
    """As the schedule does every hour."""
    message = CommandMessage(network=XMTP, content=HOURLY).to_json()
    send = system.client("sqs").send_message
    await asyncio.to_thread(send, QueueUrl=system.queue_urls["xmtp-commands"], MessageBody=message)


async def until_ticked(system: System) -> None:
    async with asyncio.timeout(PATIENCE):
        while (await asyncio.to_thread(system.messages)).get("xmtp-commands"):
            await asyncio.sleep(QUIET)
    await asyncio.sleep(QUIET)
