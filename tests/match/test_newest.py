"""A network whose pushes report the newest items: match records each in its subscription's row before it is pushed."""

import time
from collections.abc import Mapping
from dataclasses import replace
from itertools import batched, count
from typing import Any, Literal
from uuid import uuid4

import boto3
import pytest

from clarion import newest
from clarion.channels import Channel
from clarion.decisions import Purpose
from clarion.limiter import SKEW, Limit
from clarion.messages import EnvelopeMessage, PushMessage
from clarion.networks import SIMPLEX, Row, Rule
from clarion.networks.simplex.addresses import SmpQueue, SmpServer
from clarion.networks.simplex.bodies import KEPT_ITEMS, body_of
from clarion.networks.simplex.bounds import NEWEST_SECONDS
from clarion.networks.simplex.envelope import decode, encode
from clarion.networks.simplex.items import MessageArrived
from clarion.networks.simplex.needs import ITEMS
from clarion.networks.simplex.rules import key_of, queue_key
from clarion.newest import NewestRow
from clarion.rows import plain
from clarion.tables import Subscription
from match.recording import AT_FIRST, LATER
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


def new_queue(server: int = 0) -> SmpQueue:
    return SmpQueue(SmpServer(("smp.example.com",), "", server.to_bytes(32)), uuid4().bytes)


def subscribe(scene: Scene, *queues: SmpQueue) -> Subscription:
    return scene.subscribe_to(SIMPLEX, [Rule(key_of(queue_key(one))) for one in queues])


def arrive(scene: Scene, queue: SmpQueue) -> EnvelopeMessage:
    arrived = MessageArrived(next(NONCES).to_bytes(24), b"metadata")
    return scene.show(SIMPLEX, encode(queue, scene.clock() // 1000, arrived))


def stored(subscription: Subscription) -> Row:
    key = {"subscription_id": {"S": subscription.subscription_id}}
    return plain(boto3.client("dynamodb").get_item(TableName=TABLE, Key=key).get("Item", {}))


def row_of(subscription: Subscription) -> NewestRow:
    return newest.read(stored(subscription))


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
    assert [push.number for push in pushes] == [1, 1]
    assert {(push.purpose, push.body) for push in pushes} == {(Purpose.NOTIFICATION, None)}
    assert row_of(subscription).number == 1


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
    scene.clock.advance(COOLDOWN_SECONDS - 2 * SKEW / 1000)
    again.take(arrive(scene, queue))
    assert (late, put_off(scene), scene.pushes()) == (1, 1, [])


def test_a_late_push_counts_as_observed_when_the_limit_is_over(scene: Scene, queue: SmpQueue) -> None:
    """Else each would count as slow, for as long as the limit has kept it back."""
    sent = list[Mapping[str, Any]]()

    def note(params: Mapping[str, Any], **_: object) -> None:
        sent.extend(params["Entries"])

    subscribe(scene, queue)
    events = scene.clients.sqs.meta.events
    events.register("provide-client-params.sqs.SendMessageBatch", note)
    for _ in range(LIMIT + 1):
        scene.take(arrive(scene, queue))
    events.unregister("provide-client-params.sqs.SendMessageBatch", note)
    (late,) = (entry for entry in sent if entry["DelaySeconds"] == COOLDOWN_SECONDS)
    push = PushMessage.model_validate_json(late["MessageBody"])
    assert (push.purpose, push.observed_at) == (Purpose.REFRESH, scene.clock() + COOLDOWN_SECONDS * 1000)


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


def test_an_older_message_that_comes_late_replaces_no_newer_one(scene: Scene, queue: SmpQueue) -> None:
    subscription = subscribe(scene, queue)
    older = arrive(scene, queue)
    scene.clock.advance(1)
    newer = arrive(scene, queue)
    scene.take(newer)
    scene.take(older)
    assert [push.number for push in pushed(scene, subscription, 2)] == [1, 2]
    assert [item.raw for item in row_of(subscription).items] == [newer.raw]


def test_the_row_is_bounded_whatever_comes(scene: Scene) -> None:
    """A few queues of each of many servers, each of which sends while nobody takes a push."""
    queues = [new_queue(server) for server in range(10) for _ in range(12)]
    subscription, sizes = subscribe(scene, *queues), set[int]()
    for several in (*batched(queues, 20, strict=False), *((one,) for one in queues)):
        assert scene.take(*(arrive(scene, one) for one in several)) == set()
        scene.clock.advance(1)
        sizes.add(len(row_of(subscription).items))
    assert max(sizes) < 2 * KEPT_ITEMS
    assert decode(row_of(subscription).items[-1].raw).item.queue == queues[-1]


def test_a_server_with_many_queues_hides_none_of_another(scene: Scene) -> None:
    quiet, loud = new_queue(server=1), [new_queue(server=2) for _ in range(3 * KEPT_ITEMS)]
    subscription = subscribe(scene, quiet, *loud)
    message = arrive(scene, quiet)
    scene.take(message)
    for one in loud:
        scene.clock.advance(1)
        scene.take(arrive(scene, one))
    body = body_of(stored(subscription))
    assert body
    assert body.messages[0] == message.raw


def test_what_a_batch_has_for_a_subscription_is_one_write(scene: Scene) -> None:
    queues = [new_queue() for _ in range(6)]
    subscription = subscribe(scene, *queues)
    messages = [arrive(scene, one) for one in queues]
    with meter.running() as bill:
        scene.take(*messages)
    assert bill.requests["UpdateItem"] == 1
    assert len(row_of(subscription).items) == 6


def test_a_flood_beyond_the_limit_costs_reads_and_some_forty_writes(scene: Scene, queue: SmpQueue) -> None:
    subscription = subscribe(scene, queue)
    scene.take(*(arrive(scene, queue) for _ in range(LIMIT)))
    with meter.running() as bill:
        for _ in range(2 * COOLDOWN_SECONDS - 20):
            scene.clock.advance(0.5)
            scene.take(arrive(scene, queue))
    first, put_off_once, cooldown = 1, 1, 1
    assert bill.requests["UpdateItem"] <= first + put_off_once + AT_FIRST + LATER
    assert bill.requests["PutItem"] <= 1 + cooldown
    assert scene.clock() - row_of(subscription).items[0].observed_at <= 1000 * COOLDOWN_SECONDS / LATER


def test_beyond_the_limit_a_few_are_each_recorded(scene: Scene, queue: SmpQueue) -> None:
    subscription = subscribe(scene, queue)
    messages = []
    for _ in range(LIMIT + AT_FIRST):
        scene.clock.advance(0.1)
        messages.append(arrive(scene, queue))
        scene.take(messages[-1])
    assert [item.raw for item in row_of(subscription).items] == [messages[-1].raw]


def test_what_is_over_the_cap_is_pushed_late_as_well(scene: Scene, queue: SmpQueue) -> None:
    capped = replace(scene, settings=scene.settings.model_copy(update={"cap": Limit(2, 60_000, 0)}))
    subscription = subscribe(capped, queue)
    messages = []
    for _ in range(4):
        capped.clock.advance(0.1)
        messages.append(arrive(capped, queue))
        capped.take(messages[-1])
    assert {push.purpose for push in pushed(capped, subscription, 2)} == {Purpose.NOTIFICATION}
    assert [item.raw for item in row_of(subscription).items] == [messages[-1].raw]
    assert put_off(capped) >= 1


def test_a_row_expires_a_week_after_the_last_message(scene: Scene, queue: SmpQueue) -> None:
    subscription = subscribe(scene, queue)
    scene.take(arrive(scene, queue))
    assert stored(subscription)["ttl"] == scene.clock() // 1000 + NEWEST_SECONDS == scene.clock() // 1000 + 7 * 86_400


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
