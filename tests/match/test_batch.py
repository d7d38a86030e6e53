"""Statements in, push messages out, through the real tables and queues of one room."""

from typing import Any
from uuid import uuid4

import boto3
import pytest

from clarion.decisions import NotifyType, PushType, SubscriptionStatus
from clarion.messages import StatementMessage
from clarion.payload import MAX_DATA_SIZE
from clarion.statement import encode
from clarion.tables import RateLimit, Rule, Subscription, rule_key
from tests.match.scene import OTHER, TOPIC, Scene


def test_a_wanted_statement_becomes_one_push(scene: Scene) -> None:
    subscription = scene.subscribe()
    message = scene.observe(scene.sender.states(data=b"sealed"))
    assert scene.take(message) == set()
    [push] = scene.pushes()
    assert str(push.subscription_id) == subscription.subscription_id
    assert push.client_id == subscription.client_id
    assert (push.receipt, push.topic, push.data, push.truncated) == (message.receipt, TOPIC, b"sealed", False)


@pytest.mark.parametrize("notify_type", NotifyType)
def test_a_push_goes_to_the_queue_of_its_channel(scene: Scene, notify_type: NotifyType) -> None:
    scene.subscribe(notify_type=notify_type)
    scene.take(scene.observe(scene.sender.states()))
    assert len(scene.queues.drain(notify_type)) == 1


def test_a_subscription_is_told_once_for_its_first_matching_topic(scene: Scene) -> None:
    scene.subscribe(TOPIC, OTHER)
    scene.take(scene.observe(scene.sender.states(OTHER, TOPIC, OTHER)))
    assert [push.topic for push in scene.pushes()] == [OTHER]


def test_every_subscription_that_wants_a_statement_gets_it(scene: Scene) -> None:
    wanting = {scene.subscribe().subscription_id for _ in range(3)}
    scene.take(scene.observe(scene.sender.states()))
    assert {str(push.subscription_id) for push in scene.pushes()} == wanting


@pytest.mark.parametrize(
    "unfit",
    [
        {"status": SubscriptionStatus.INVALID},
        {"generation": 2, "rules_generation": 1},
        {"generation": 1, "rules_generation": 2},
    ],
    ids=["invalid", "left-over rules", "rules not in force yet"],
)
def test_only_rules_in_force_of_active_subscriptions_count(scene: Scene, unfit: dict[str, Any]) -> None:
    scene.subscribe(**unfit)
    scene.take(scene.observe(scene.sender.states()))
    assert scene.pushes() == []


def test_a_rule_set_that_was_replaced_a_moment_ago_is_read_from_the_tables_where_the_index_lags(scene: Scene) -> None:
    scene.subscribe()
    replaced = scene.subscribe(generation=2, rules_generation=1)
    key = rule_key(2, scene.sender.key, TOPIC)
    not_shown_yet = bytes(64)
    Rule(replaced.subscription_id, key, sender_topic=not_shown_yet, push_type=PushType.VOIP).save()
    scene.take(scene.observe(scene.sender.states()))
    pushes = {str(push.subscription_id): push for push in scene.pushes()}
    assert len(pushes) == 2
    assert pushes[replaced.subscription_id].push_type is PushType.VOIP


def test_a_forged_statement_goes_nowhere(scene: Scene) -> None:
    scene.subscribe()
    forged = scene.sender.states()._replace(data=b"forged")
    assert scene.take(scene.observe(forged)) == set()
    assert scene.pushes() == []


def test_an_expired_statement_goes_nowhere(scene: Scene) -> None:
    scene.subscribe()
    scene.take(scene.observe(scene.sender.states(expires_at=scene.clock() // 1000)))
    assert scene.pushes() == []


def test_another_receipt_for_the_same_statement_is_a_duplicate(scene: Scene) -> None:
    scene.subscribe()
    statement = scene.sender.states()
    first, second = scene.observe(statement), scene.observe(statement)
    scene.take(first)
    scene.take(second)
    assert [push.receipt for push in scene.pushes()] == [first.receipt]


def test_within_one_batch_the_first_receipt_wins(scene: Scene) -> None:
    scene.subscribe()
    statement = scene.sender.states()
    first, second = scene.observe(statement), scene.observe(statement)
    scene.take(first, second)
    assert [push.receipt for push in scene.pushes()] == [first.receipt]


def test_the_same_receipt_goes_through_again_and_is_counted_once(scene: Scene) -> None:
    subscription = scene.subscribe()
    message = scene.observe(scene.sender.states())
    scene.take(message)
    scene.take(message)
    assert [push.receipt for push in scene.pushes()] == [message.receipt] * 2
    assert RateLimit.get(scene.sender.key + subscription.client_id).version == 1


def test_the_31st_in_a_minute_is_dropped_and_starts_the_cooldown(scene: Scene) -> None:
    scene.subscribe()
    scene.take(*scene.observe_new(31))
    assert len(scene.pushes()) == 30
    scene.clock.advance(119)
    scene.take(scene.observe(scene.sender.states()))
    assert scene.pushes() == []
    scene.clock.advance(1)
    scene.take(scene.observe(scene.sender.states()))
    assert len(scene.pushes()) == 1


def test_a_duplicate_never_eats_budget(scene: Scene) -> None:
    scene.subscribe()
    statement = scene.sender.states()
    scene.take(*(scene.observe(statement) for _ in range(35)))
    scene.take(*scene.observe_new(29))
    assert len(scene.pushes()) == 30


def test_two_clients_have_budgets_of_their_own(scene: Scene) -> None:
    scene.subscribe()
    scene.take(*scene.observe_new(31))
    other = scene.subscribe()
    scene.take(scene.observe(scene.sender.states()))
    assert [str(push.subscription_id) for push in scene.pushes()][30:] == [other.subscription_id]


def test_two_subscriptions_of_a_client_share_its_budget(scene: Scene) -> None:
    client_id = uuid4().bytes * 2
    scene.subscribe(client_id=client_id)
    scene.subscribe(client_id=client_id)
    scene.take(*scene.observe_new(16))
    assert len(scene.pushes()) == 30


@pytest.mark.parametrize(("size", "fits"), [(MAX_DATA_SIZE, True), (MAX_DATA_SIZE + 1, False)])
def test_data_that_fits_no_channel_stays_behind(scene: Scene, size: int, *, fits: bool) -> None:
    scene.subscribe()
    scene.take(scene.observe(scene.sender.states(data=bytes(size))))
    [push] = scene.pushes()
    assert (push.data is not None, push.truncated) == (fits, not fits)


def test_a_statement_without_data_is_not_truncated(scene: Scene) -> None:
    scene.subscribe()
    scene.take(scene.observe(scene.sender.states(data=None)))
    [push] = scene.pushes()
    assert (push.data, push.truncated) == (None, False)


def test_a_rule_for_calls_makes_a_call(scene: Scene) -> None:
    scene.subscribe(notify_type=NotifyType.FCM, push_type=PushType.VOIP)
    scene.take(scene.observe(scene.sender.states()))
    assert [push.push_type for push in scene.pushes()] == [PushType.VOIP]


def test_a_large_statement_comes_by_way_of_s3(scene: Scene) -> None:
    scene.subscribe()
    raw = encode(scene.sender.states(data=bytes(900_000)))
    boto3.client("s3").put_object(Bucket="oversize", Key="large", Body=raw)
    assert scene.take(StatementMessage(receipt=uuid4(), observed_at=scene.clock(), location="large")) == set()
    assert len(scene.pushes()) == 1


def test_only_what_failed_comes_again(scene: Scene) -> None:
    scene.subscribe()
    lost = StatementMessage(receipt=uuid4(), observed_at=scene.clock(), location="not-there")
    assert scene.take(scene.observe(scene.sender.states()), lost, "{}", scene.observe(scene.sender.states())) == {1, 2}
    assert len(scene.pushes()) == 2


def test_a_row_that_cannot_be_read_holds_up_its_own_statement_only(scene: Scene) -> None:
    scene.subscribe()
    broken, other = scene.subscribe(OTHER), uuid4().bytes * 2
    broken.update(actions=[Subscription.notify_type.set("pigeon")])
    rule = rule_key(1, scene.sender.key, other)
    Rule(scene.subscribe(OTHER).subscription_id, rule, sender_topic=scene.sender.key + other, push_type="loud").save()
    messages = [scene.observe(scene.sender.states(topic)) for topic in (TOPIC, OTHER, other)]
    assert scene.take(*messages) == {1, 2}
    assert len(scene.pushes()) == 1


def test_a_row_of_another_shape_than_its_model_holds_up_its_own_statement_only(scene: Scene) -> None:
    scene.subscribe()
    broken = scene.subscribe(OTHER)
    boto3.client("dynamodb").update_item(
        TableName=Subscription.Meta.table_name,
        Key={"subscription_id": {"S": broken.subscription_id}},
        UpdateExpression="SET generation = :word",
        ExpressionAttributeValues={":word": {"S": "first"}},
    )
    messages = [scene.observe(scene.sender.states(topic)) for topic in (TOPIC, OTHER)]
    assert scene.take(*messages) == {1}
    assert len(scene.pushes()) == 1
