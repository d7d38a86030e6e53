"""Pushes of SimpleX: its own payloads for codes and wake-ups, and of the newest messages one push for several."""

import json
from base64 import urlsafe_b64decode
from collections.abc import Callable
from typing import Any

import boto3
import pytest
from nacl.public import Box

from clarion import newest
from clarion.channels import Channel
from clarion.decisions import Purpose, PushDecision, SubscriptionStatus, Wanted
from clarion.messages import PushMessage
from clarion.networks import SIMPLEX
from clarion.networks.simplex.addresses import SmpQueue, SmpServer
from clarion.networks.simplex.arrived import MessageArrived
from clarion.networks.simplex.bodies import NEWEST
from clarion.networks.simplex.commands import CodeDelivered, TokenDied, client_id, read_command
from clarion.networks.simplex.composing import sealed_for_dispatch
from clarion.networks.simplex.encoding import Reader
from clarion.networks.simplex.envelope import encode
from clarion.networks.simplex.needs import ITEMS
from clarion.networks.simplex.storage_key import StorageKey
from clarion.newest import NewestItem
from clarion.newest_updates import Arrival, NewestKey, recording
from clarion.secrets import Secret, SharedSecret
from clarion.tables import Subscription
from local.apns_trouble import troubled_token
from local.provider import InjectedFault

type Register = Callable[..., Subscription]
type Write = Callable[..., PushMessage]

TOKEN_ID, TEXT = "ab" * 24, "s" * 64
KEY, AGREED, CODE = StorageKey(TEXT.encode()), b"a" * 32, b"c" * 32


class Items:
    """The table of the newest items, as match writes it."""

    def __init__(self) -> None:
        self.client = boto3.client("dynamodb")
        self.client.create_table(
            TableName=ITEMS,
            KeySchema=[{"AttributeName": "subscription_id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "subscription_id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )

    def record(self, row: Subscription, number: int) -> int:
        """A message of a queue of that number."""
        queue = SmpQueue(SmpServer(("smp.example.com",), "", bytes(32)), number.to_bytes(24))
        raw = encode(queue, 1_800_000_000 + number, MessageArrived(bytes(24), b"metadata"))
        item = NewestItem(f"{number:08x}", number, raw)
        return self.write(recording(NewestKey(ITEMS, row.subscription_id), NEWEST, Arrival([item], number)))

    def write(self, request: dict[str, Any]) -> int:
        """The number after it."""
        return newest.read_item(self.client.update_item(**request)["Attributes"]).number

    def row(self, row: Subscription) -> dict[str, Any]:
        key = {"subscription_id": {"S": row.subscription_id}}
        return dict(self.client.get_item(TableName=ITEMS, Key=key).get("Item", {}))


@pytest.fixture
def items(worker: Any) -> Items:
    secrets = boto3.client("secretsmanager")
    secrets.create_secret(Name="storage-key", SecretString=json.dumps({"secret": TEXT}))
    object.__setattr__(worker.dispatcher, "payload_secrets", {SIMPLEX: Secret(secrets, "storage-key", SharedSecret)})
    return Items()


@pytest.fixture
def registered(register: Register) -> Register:
    def make(token: str = "a1" * 32, status: SubscriptionStatus = SubscriptionStatus.ACTIVE) -> Subscription:
        row = register(Channel.APNS, token, network=SIMPLEX)
        sealed = sealed_for_dispatch(KEY, row.subscription_id, AGREED, CODE)
        own = client_id(TOKEN_ID)
        actions = [Subscription.network_data.set(sealed), Subscription.status.set(status.value)]
        row.update([*actions, Subscription.client_id.set(own)])
        return row

    return make


def push(write: Write, row: Subscription, purpose: Purpose, number: int | None = None) -> PushMessage:
    wanted = Wanted.ALERT if purpose is Purpose.NOTIFICATION else Wanted.BACKGROUND
    return write(row, network=SIMPLEX, purpose=purpose, body=None, wanted=wanted, number=number)


def opened(received: Any) -> dict[str, Any]:
    data: dict[str, Any] = dict(received.payload["notificationData"])
    if "nonce" not in data:
        return data
    nonce = urlsafe_b64decode(data.pop("nonce"))
    return {
        name: Reader(Box.decode(AGREED).decrypt(urlsafe_b64decode(value), nonce)).long() for name, value in data.items()
    }


@pytest.mark.parametrize("status", [SubscriptionStatus.PENDING, SubscriptionStatus.ACTIVE])
def test_a_code_reaches_a_token_that_waits_for_it_or_asks_again(
    worker: Any, queue: Any, registered: Register, message: Write, apns: Any, items: Items, status: SubscriptionStatus
) -> None:
    queue.put(push(message, registered(status=status), Purpose.VERIFICATION))
    assert worker.work().decisions == {PushDecision.DELIVERED: 1}
    assert [opened(one) for one in apns.received] == [{"verification": CODE}]
    assert [read_command(one.content) for one in queue.commands] == [CodeDelivered(token_id=TOKEN_ID)]


def test_a_wake_up_says_nothing_but_to_look(
    worker: Any, queue: Any, registered: Register, message: Write, apns: Any, items: Items
) -> None:
    queue.put(push(message, registered(), Purpose.WAKE_UP))
    worker.work()
    assert [opened(one) for one in apns.received] == [{"checkMessages": True}]
    assert not queue.commands


def test_one_push_brings_what_several_are_about(
    worker: Any, queue: Any, registered: Register, message: Write, apns: Any, items: Items
) -> None:
    row = registered()
    numbers = [items.record(row, number) for number in range(8)]
    queue.put(*(push(message, row, Purpose.NOTIFICATION, number) for number in numbers))
    assert worker.work().decisions == {PushDecision.DELIVERED: 1, PushDecision.COALESCED: 7}
    (received,) = apns.received
    assert opened(received)["message"].count(b"smp://") == 6
    kept = items.row(row)
    assert kept["sent"] == kept["number"] == {"N": "8"}
    assert sorted(name for name in kept if name.startswith("item_")) == [f"item_{n:08x}" for n in range(2, 8)]


def test_what_was_sent_is_sent_no_more(
    worker: Any, queue: Any, registered: Register, message: Write, apns: Any, items: Items
) -> None:
    row = registered()
    numbers = [items.record(row, number) for number in range(2)]
    queue.put(push(message, row, Purpose.NOTIFICATION, numbers[1]))
    worker.work()
    queue.put(push(message, row, Purpose.REFRESH, numbers[0]))
    assert worker.work().decisions == {PushDecision.COALESCED: 1}
    assert len(apns.received) == 1


def test_what_was_not_delivered_is_not_sent(
    worker: Any, queue: Any, clock: Any, registered: Register, message: Write, apns: Any, items: Items
) -> None:
    row = registered()
    queue.put(push(message, row, Purpose.NOTIFICATION, items.record(row, 1)))
    apns.down_until = clock() + 60
    assert worker.work().decisions == {PushDecision.RETRY: 1}
    assert "sent" not in items.row(row)
    clock.advance(600)
    assert worker.work().decisions == {PushDecision.DELIVERED: 1}


def test_without_the_storage_key_it_is_tried_again(
    worker: Any, queue: Any, clock: Any, registered: Register, message: Write, apns: Any, items: Items
) -> None:
    secrets, row = boto3.client("secretsmanager"), registered()
    secrets.delete_secret(SecretId="storage-key")
    queue.put(push(message, row, Purpose.VERIFICATION))
    assert worker.work().decisions == {PushDecision.RETRY: 1}
    secrets.restore_secret(SecretId="storage-key")
    clock.advance(600)
    assert worker.work().decisions == {PushDecision.DELIVERED: 1}


def test_a_dead_token_is_reported_with_apple_s_reason(
    worker: Any, queue: Any, registered: Register, message: Write, items: Items
) -> None:
    row = registered(troubled_token(InjectedFault("Unregistered")))
    sent = push(message, row, Purpose.NOTIFICATION, items.record(row, 1))
    queue.put(sent)
    worker.work()
    (command,) = queue.commands
    died = TokenDied(token_id=TOKEN_ID, reason="Unregistered", observed_at=sent.observed_at)
    assert read_command(command.content) == died
    assert Subscription.get(row.subscription_id).status == "invalid"
