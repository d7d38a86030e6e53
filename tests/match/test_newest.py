"""A network whose pushes report the newest items: match records each in its subscription's row before it is pushed."""

import time
from itertools import count
from typing import Literal
from uuid import uuid4

import boto3
import pytest

from clarion import newest
from clarion.channels import Channel
from clarion.decisions import Purpose
from clarion.messages import EnvelopeMessage, PushMessage
from clarion.networks import SIMPLEX, Rule
from clarion.networks.simplex.addresses import SmpQueue, SmpServer
from clarion.networks.simplex.arrived import MessageArrived
from clarion.networks.simplex.envelope import decode, encode
from clarion.networks.simplex.needs import ITEMS
from clarion.networks.simplex.rules import key_of, queue_key
from clarion.newest import NewestRow
from clarion.rows import plain
from clarion.tables import Subscription
from tests.match.meter import meter
from tests.match.scene import PREFIX, Scene

TABLE = f"{PREFIX}{ITEMS}"
LIMIT, COOLDOWN_SECONDS = 30, 120
PATIENCE_SECONDS = 60
NONCES = count()


@pytest.fixture(autouse=True)
def _items(scene: Scene) -> None:
    client = boto3.client("dynamodb")
    if TABLE in client.list_tables()["TableNames"]:
        return
    client.create_table(
        TableName=TABLE,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "subscription_id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "subscription_id", "AttributeType": "S"}],
    )


@pytest.fixture
def queue() -> SmpQueue:
    """Another one in each test."""
    return new_queue()


def new_queue() -> SmpQueue:
    return SmpQueue(SmpServer(("smp.example.com",), "", bytes(32)), uuid4().bytes)


def subscribe(scene: Scene, *queues: SmpQueue) -> Subscription:
    return scene.subscribe_to(SIMPLEX, [Rule(key_of(queue_key(one))) for one in queues])


def arrive(scene: Scene, queue: SmpQueue) -> EnvelopeMessage:
    arrived = MessageArrived(next(NONCES).to_bytes(24), b"metadata")
    return scene.show(SIMPLEX, encode(queue, scene.clock() // 1000, arrived))


def row_of(subscription: Subscription) -> NewestRow:
    key = {"subscription_id": {"S": subscription.subscription_id}}
    return newest.read(plain(boto3.client("dynamodb").get_item(TableName=TABLE, Key=key).get("Item", {})))


def pushed(scene: Scene, subscription: Subscription, expected: int) -> list[PushMessage]:
    """As many pushes of its, once the moment is over in which more may come, in the order of their numbers."""
    pushes, until = list[PushMessage](), time.monotonic() + PATIENCE_SECONDS
    while len(pushes) < expected and time.monotonic() < until:
        pushes += [push for push in scene.pushes() if str(push.subscription_id) == subscription.subscription_id]
    return sorted(pushes, key=lambda push: push.number or 0)


def put_off(scene: Scene) -> int:
    """How many pushes wait for longer than that."""
    url = scene.settings.push_queues[Channel.APNS]
    name: Literal["ApproximateNumberOfMessagesDelayed"] = "ApproximateNumberOfMessagesDelayed"
    return int(boto3.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=[name])["Attributes"][name])


def test_a_push_refers_to_the_row_that_its_item_was_recorded_in(scene: Scene, queue: SmpQueue) -> None:
    subscription = subscribe(scene, queue)
    first, second = arrive(scene, queue), arrive(scene, queue)
    assert scene.take(first, second) == set()
    pushes = pushed(scene, subscription, 2)
    assert [push.number for push in pushes] == [1, 2]
    assert {(push.purpose, push.body) for push in pushes} == {(Purpose.NOTIFICATION, None)}
    assert row_of(subscription).number == 2


def test_of_each_queue_the_row_has_the_message_that_came_last(scene: Scene, queue: SmpQueue) -> None:
    other = new_queue()
    subscription = subscribe(scene, queue, other)
    messages = []
    for one in (queue, other, queue):
        messages.append(arrive(scene, one))
        scene.take(messages[-1])
        scene.clock.advance(1)
    assert [item.raw for item in row_of(subscription).items] == [messages[1].raw, messages[2].raw]
    assert decode(row_of(subscription).items[0].raw).item.queue == other


def test_what_a_limit_holds_back_is_recorded_and_pushed_once_when_it_is_over(scene: Scene, queue: SmpQueue) -> None:
    subscription = subscribe(scene, queue)
    for _ in range(LIMIT + 5):
        scene.take(arrive(scene, queue))
    assert {push.purpose for push in pushed(scene, subscription, LIMIT)} == {Purpose.NOTIFICATION}
    late = put_off(scene)
    assert row_of(subscription).number == LIMIT + 5
    again = scene.elsewhere()
    scene.clock.advance(COOLDOWN_SECONDS - 1)
    again.take(arrive(scene, queue))
    assert (late, put_off(scene), scene.pushes()) == (1, 1, [])


def test_a_message_that_comes_again_is_recorded_and_pushed_again(scene: Scene, queue: SmpQueue) -> None:
    subscription = subscribe(scene, queue)
    message = arrive(scene, queue)
    scene.take(message)
    scene.take(message)
    assert [push.number for push in pushed(scene, subscription, 2)] == [1, 2]
    assert len(row_of(subscription).items) == 1


def test_of_what_can_not_be_recorded_nothing_is_pushed_yet(scene: Scene, queue: SmpQueue) -> None:
    subscribe(scene, queue)
    boto3.client("dynamodb").delete_table(TableName=TABLE)
    assert scene.take(arrive(scene, queue)) == {0}
    assert scene.pushes() == []


def test_a_message_costs_one_update_beside_what_every_notification_costs(scene: Scene, queue: SmpQueue) -> None:
    """Where the worker knows the pair. As docs/simplex.md has it."""
    subscribe(scene, queue)
    scene.take(arrive(scene, queue))
    with meter.running() as bill:
        scene.take(arrive(scene, queue))
    assert bill.requests == {
        "Query": 1,
        "BatchGetItem": 1,
        "PutItem": 2,
        "UpdateItem": 1,
        "SendMessageBatch": 1,
        "PutRecordBatch": 1,
    }
