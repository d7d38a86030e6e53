"""Pushes of SimpleX: its own payloads for codes and wake-ups, and of the newest messages one push for several."""

import json
from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from nacl.public import Box

from clarion import newest
from clarion.channels import Channel
from clarion.decisions import Purpose, PushDecision, SubscriptionStatus, Wanted
from clarion.messages import PushMessage
from clarion.networks import SIMPLEX
from clarion.networks.simplex.addresses import SmpQueue, SmpServer
from clarion.networks.simplex.bodies import NEWEST
from clarion.networks.simplex.commands import CodeDelivered, TokenDied, client_id, read_command
from clarion.networks.simplex.composing import sealed_for_dispatch
from clarion.networks.simplex.encoding import Reader
from clarion.networks.simplex.envelope import encode
from clarion.networks.simplex.items import MessageArrived
from clarion.networks.simplex.needs import ITEMS
from clarion.networks.simplex.storage_key import StorageKey
from clarion.newest import NewestItem
from clarion.newest_updates import NewestArrival, NewestKey, noting_sent, noting_sent_alone, recording
from clarion.secrets import Secret, SharedSecret
from clarion.tables import Subscription, WakeUp
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

    def record(self, row: Subscription, number: int, server: int = 0) -> int:
        """A message of a queue of that number."""
        queue = SmpQueue(SmpServer(("smp.example.com",), "", server.to_bytes(32)), number.to_bytes(24))
        raw = encode(queue, 1_800_000_000 + number, MessageArrived(bytes(24), b"metadata"))
        item = NewestItem(f"{number:08x}", number, raw)
        return self.write(recording(NewestKey(ITEMS, row.subscription_id), NEWEST, NewestArrival([item], number)))

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
        if status is SubscriptionStatus.PENDING:
            actions.append(Subscription.ttl.set(2**32))
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


def numbers_of(received: Any) -> set[int]:
    """By the ids of the queues of a push's items."""
    texts = opened(received)["message"].decode().split(";")
    return {int.from_bytes(urlsafe_b64decode(text.rpartition("/")[2].partition(" ")[0])) for text in texts}


@pytest.mark.parametrize("status", [SubscriptionStatus.PENDING, SubscriptionStatus.ACTIVE])
def test_a_code_reaches_a_token_that_waits_for_it_or_asks_again(
    worker: Any, queue: Any, registered: Register, message: Write, apns: Any, items: Items, status: SubscriptionStatus
) -> None:
    row = registered(status=status)
    queue.put(push(message, row, Purpose.VERIFICATION))
    assert worker.work().decisions == {PushDecision.DELIVERED: 1}
    assert [opened(one) for one in apns.received] == [{"verification": CODE}]
    confirming = CodeDelivered(token_id=TOKEN_ID, registered_at=int(row.created_at))
    assert [read_command(one.content) for one in queue.commands] == [confirming]


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
    assert len([name for name in kept if name.startswith("item_")]) == 6
    assert {f"item_{n:08x}" for n in range(2)} < kept.keys()


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


def test_a_late_push_brings_what_came_after_it_was_sent_and_has_no_push_of_its_own(
    worker: Any, queue: Any, registered: Register, message: Write, apns: Any, items: Items
) -> None:
    row = registered()
    late = push(message, row, Purpose.REFRESH, items.record(row, 0))
    queue.put(push(message, row, Purpose.NOTIFICATION, items.record(row, 1)))
    worker.work()
    items.record(row, 2)
    queue.put(late)
    assert worker.work().decisions == {PushDecision.DELIVERED: 1}
    assert opened(apns.received[-1])["message"].count(b"smp://") == 3


def test_what_did_not_fit_goes_first_the_next_time(
    worker: Any, queue: Any, registered: Register, message: Write, apns: Any, items: Items
) -> None:
    row = registered()
    for several in (range(8), range(8, 9)):
        number = [items.record(row, number) for number in several][-1]
        queue.put(push(message, row, Purpose.NOTIFICATION, number))
        worker.work()
    assert [numbers_of(one) for one in apns.received] == [{2, 3, 4, 5, 6, 7}, {0, 1, 5, 6, 7, 8}]


def test_a_server_with_many_messages_leaves_room_for_another_s(
    worker: Any, queue: Any, registered: Register, message: Write, apns: Any, items: Items
) -> None:
    row = registered()
    items.record(row, 0, server=1)
    number = [items.record(row, number, server=2) for number in range(1, 10)][-1]
    queue.put(push(message, row, Purpose.NOTIFICATION, number))
    worker.work()
    assert numbers_of(apns.received[-1]) == {0, 5, 6, 7, 8, 9}


def test_the_newest_of_a_server_yields_to_what_no_push_has_brought(
    worker: Any, queue: Any, registered: Register, message: Write, apns: Any, items: Items
) -> None:
    row = registered()
    before = [items.record(row, number, server=number) for number in range(6)][-1]
    queue.put(push(message, row, Purpose.NOTIFICATION, before))
    worker.work()
    after = [items.record(row, number, server=0) for number in (6, 7, 8, 9)][-1]
    queue.put(push(message, row, Purpose.NOTIFICATION, after))
    worker.work()
    assert numbers_of(apns.received[-1]) == {4, 5, 6, 7, 8, 9}


def test_what_came_while_a_push_was_on_its_way_is_not_noted_as_sent(
    worker: Any, queue: Any, registered: Register, message: Write, apns: Any, items: Items
) -> None:
    row = registered()
    first = [items.record(row, number) for number in range(8)][-1]
    queue.put(push(message, row, Purpose.NOTIFICATION, first))
    found = newest.read_item(items.row(row))
    second = items.record(row, 8)
    key = NewestKey(ITEMS, row.subscription_id)
    with pytest.raises(items.client.exceptions.ConditionalCheckFailedException):
        items.client.update_item(**noting_sent(key, NEWEST, found))
    items.client.update_item(**noting_sent_alone(key, NEWEST, found))
    assert worker.work().decisions == {PushDecision.COALESCED: 1}
    queue.put(push(message, row, Purpose.NOTIFICATION, second))
    assert worker.work().decisions == {PushDecision.DELIVERED: 1}
    assert {0, 1, 8} <= numbers_of(apns.received[-1])


def test_what_can_not_be_noted_as_sent_is_logged_and_fails_no_push(
    worker: Any,
    queue: Any,
    registered: Register,
    message: Write,
    apns: Any,
    items: Items,
    caplog: pytest.LogCaptureFixture,
) -> None:
    row = registered()
    queue.put(push(message, row, Purpose.NOTIFICATION, items.record(row, 1)))

    def refuse(**_: object) -> tuple[AWSResponse, dict[str, Any]]:
        parsed = {"Error": {"Code": "AccessDeniedException"}, "ResponseMetadata": {"HTTPStatusCode": 400}}
        return AWSResponse("", 400, HTTPHeaders(), None), parsed

    events = worker.dispatcher.connection.client.meta.events
    events.register_first("before-call.dynamodb.UpdateItem", refuse)
    assert worker.work().decisions == {PushDecision.DELIVERED: 1}
    assert [vars(record)["reason"] for record in caplog.records] == ["AccessDeniedException from UpdateItem"]
    assert "sent" not in items.row(row)


def test_what_came_while_a_token_waited_is_pushed_although_it_was_verified_just_now(
    worker: Any, queue: Any, registered: Register, message: Write, apns: Any, items: Items
) -> None:
    """A replica that lags behind shows to an eventually consistent read that the token still waits."""
    row = registered(status=SubscriptionStatus.PENDING)
    before = items.client.get_item(TableName="subscriptions", Key={"subscription_id": {"S": row.subscription_id}})

    def lag(params: Mapping[str, Any], **_: object) -> tuple[AWSResponse, dict[str, Any]] | None:
        asked = json.loads(params["body"])["RequestItems"].get("subscriptions")
        if asked is None or asked.get("ConsistentRead"):
            return None
        shown = {"Responses": {"subscriptions": [before["Item"]]}, "UnprocessedKeys": {}}
        return AWSResponse("", 200, HTTPHeaders(), None), shown | {"ResponseMetadata": {"HTTPStatusCode": 200}}

    events: Any = Subscription._get_connection().connection.client.meta.events
    events.register_first("before-call.dynamodb.BatchGetItem", lag)
    row.update([Subscription.status.set(SubscriptionStatus.ACTIVE.value)])
    queue.put(push(message, row, Purpose.REFRESH, items.record(row, 1)))
    assert worker.work().decisions == {PushDecision.DELIVERED: 1}
    assert [numbers_of(one) for one in apns.received] == [{1}]


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
    died = TokenDied(token_id=TOKEN_ID, reason="Unregistered", registered_at=int(row.created_at))
    assert read_command(command.content) == died
    assert Subscription.get(row.subscription_id).status == "invalid"


MADE_UP = 50
"""Tokens: as many as an address registers at once, and more than a worker takes for dead by itself."""


def made_up_tokens() -> Iterator[str]:
    return (troubled_token(InjectedFault("BadDeviceToken"), number) for number in range(MADE_UP))


def test_tokens_that_strangers_make_up_count_neither_as_dead_nor_against_the_app(
    worker: Any, queue: Any, registered: Register, message: Write, items: Items
) -> None:
    WakeUp.create_table(billing_mode="PAY_PER_REQUEST")
    rows = [registered(token, SubscriptionStatus.PENDING) for token in made_up_tokens()]
    queue.put(*(push(message, row, Purpose.VERIFICATION) for row in rows))
    report = worker.work()
    assert report.decisions == {PushDecision.TOKEN_GONE: MADE_UP}
    assert (report.strangers_gone, report.token_faults, report.faults) == (MADE_UP, 0, {})
    assert {Subscription.get(row.subscription_id).status for row in rows} == {"invalid"}
    assert [read_command(one.content).kind for one in queue.commands] == ["token_died"] * MADE_UP


def test_tokens_that_were_proven_still_show_that_an_app_s_topic_is_another_s(
    worker: Any, queue: Any, registered: Register, message: Write, items: Items
) -> None:
    rows = [registered(token) for token in made_up_tokens()]
    queue.put(*(push(message, row, Purpose.VERIFICATION) for row in rows))
    report = worker.work()
    assert report.strangers_gone == 0
    assert report.decisions[PushDecision.MISCONFIGURED] > 0
