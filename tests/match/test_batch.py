"""Statements in, push messages out, through the real tables and queues of one worker."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from uuid import uuid4

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders

from clarion.channels import Channel
from clarion.decisions import SubscriptionStatus, Wanted
from clarion.messages import MatchMessage, RemainderMessage
from clarion.metrics import Metric
from clarion.networks import Rule
from clarion.networks.statements.codec import encode
from clarion.networks.statements.payload import MAX_DATA_SIZE
from clarion.networks.statements.rules import CALL
from clarion.tables import WINDOW_PART, PushRecord, RateLimit, RuleRow, Subscription
from match.worker import RESERVE, MatchWorker
from tests.match.ledger import look_again
from tests.match.scene import OTHER, PAGE, TOPIC, Scene, Sender, lake_events, received, statement_of


def test_a_wanted_statement_becomes_one_push(scene: Scene) -> None:
    subscription = scene.subscribe()
    message = scene.observe(scene.sender.states(data=b"sealed"))
    assert scene.take(message) == set()
    [push] = scene.pushes()
    assert str(push.subscription_id) == subscription.subscription_id
    assert push.client_id == subscription.client_id
    body = statement_of(push)
    assert (push.receipt, body.topic, body.data, body.truncated) == (message.receipt, TOPIC, b"sealed", False)


@pytest.mark.parametrize("channel", Channel)
def test_a_push_goes_to_the_queue_of_its_channel(scene: Scene, channel: Channel) -> None:
    scene.subscribe(channel=channel)
    scene.take(scene.observe(scene.sender.states()))
    assert len(scene.queues.drain(channel)) == 1


def test_a_subscription_gets_one_push_for_its_first_matching_topic(scene: Scene) -> None:
    scene.subscribe(TOPIC, OTHER)
    scene.take(scene.observe(scene.sender.states(OTHER, TOPIC, OTHER)))
    assert [statement_of(push).topic for push in scene.pushes()] == [OTHER]


def test_every_subscription_that_wants_a_statement_gets_it(scene: Scene) -> None:
    wanting = {scene.subscribe().subscription_id for _ in range(3)}
    scene.take(scene.observe(scene.sender.states()))
    assert {str(push.subscription_id) for push in scene.pushes()} == wanting


@pytest.mark.parametrize(
    "unfit",
    [
        {"status": SubscriptionStatus.INVALID},
        {"status": SubscriptionStatus.PENDING},
        {"generation": 2, "rules_generation": 1},
        {"generation": 1, "rules_generation": 2},
    ],
    ids=["invalid", "pending", "left-over rules", "rules not in force yet"],
)
def test_only_rules_in_force_of_active_subscriptions_count(scene: Scene, unfit: dict[str, Any]) -> None:
    scene.subscribe(**unfit)
    scene.take(scene.observe(scene.sender.states()))
    assert scene.pushes() == []


def test_a_rule_set_that_was_replaced_a_moment_ago_is_read_from_the_tables_where_the_index_lags(scene: Scene) -> None:
    scene.subscribe()
    replaced = scene.subscribe(generation=2, rules_generation=1)
    scene.add_rule(replaced.subscription_id, Rule(scene.key(), CALL), generation=2, seen=False)
    scene.take(scene.observe(scene.sender.states()))
    pushes = {str(push.subscription_id): push for push in scene.pushes()}
    assert len(pushes) == 2
    assert pushes[replaced.subscription_id].wanted is Wanted.CALL


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
    assert len(RateLimit.get(scene.pair(subscription.client_id), WINDOW_PART).admitted) == 14


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


def test_two_subscriptions_of_a_client_share_its_budget_of_statements(scene: Scene) -> None:
    client_id = uuid4().bytes * 2
    scene.subscribe(client_id=client_id)
    scene.subscribe(OTHER, client_id=client_id)
    for topic in (TOPIC, OTHER):
        scene.take(*(scene.observe(scene.sender.states(topic)) for _ in range(16)))
    assert len(scene.pushes()) == 30


@pytest.mark.parametrize(("size", "fits"), [(MAX_DATA_SIZE, True), (MAX_DATA_SIZE + 1, False)])
def test_data_that_fits_no_channel_stays_behind(scene: Scene, size: int, *, fits: bool) -> None:
    scene.subscribe()
    scene.take(scene.observe(scene.sender.states(data=bytes(size))))
    [push] = map(statement_of, scene.pushes())
    assert (push.data is not None, push.truncated) == (fits, not fits)


def test_a_statement_without_data_is_not_truncated(scene: Scene) -> None:
    scene.subscribe()
    scene.take(scene.observe(scene.sender.states(data=None)))
    [push] = map(statement_of, scene.pushes())
    assert (push.data, push.truncated) == (None, False)


def test_a_rule_for_calls_makes_a_call(scene: Scene) -> None:
    scene.subscribe(channel=Channel.FCM, condition=CALL)
    scene.take(scene.observe(scene.sender.states()))
    assert [push.wanted for push in scene.pushes()] == [Wanted.CALL]


def test_of_several_rules_for_calls_and_alerts_the_call_wins_under_the_first_topic(scene: Scene) -> None:
    subscription = scene.subscribe(OTHER, channel=Channel.FCM)
    scene.add_rule(subscription.subscription_id, Rule(scene.key(), CALL))
    scene.take(scene.observe(scene.sender.states(OTHER, TOPIC)), scene.observe(scene.sender.states(TOPIC, OTHER)))
    found = {(statement_of(push).topic, push.wanted) for push in scene.pushes()}
    assert found == {(OTHER, Wanted.CALL), (TOPIC, Wanted.CALL)}


def test_a_large_statement_comes_by_way_of_s3(scene: Scene) -> None:
    scene.subscribe()
    raw = encode(scene.sender.states(data=bytes(900_000)))
    boto3.client("s3").put_object(Bucket="oversize", Key="large", Body=raw)
    assert scene.take(scene.lost("large")) == set()
    assert len(scene.pushes()) == 1


def test_only_what_failed_comes_again(scene: Scene) -> None:
    scene.subscribe()
    lost = scene.lost()
    assert scene.take(scene.observe(scene.sender.states()), lost, "{}", scene.observe(scene.sender.states())) == {1, 2}
    assert len(scene.pushes()) == 2


def counted(metric: Metric, capsys: pytest.CaptureFixture[str]) -> list[list[float]]:
    """By each invocation since the last look."""
    return [json.loads(line)[metric] for line in capsys.readouterr().out.splitlines() if '"_aws"' in line]


def set_raw(subscription: Subscription, **attributes: Any) -> None:
    """Whatever the model allows."""
    boto3.client("dynamodb").update_item(
        TableName=Subscription.Meta.table_name,
        Key={"subscription_id": {"S": subscription.subscription_id}},
        AttributeUpdates={
            name: {"Value": value, "Action": "PUT"} if value else {"Action": "DELETE"}
            for name, value in attributes.items()
        },
    )


def a_word_outside_its_vocabulary(scene: Scene) -> str:
    broken = scene.subscribe(OTHER)
    broken.update(actions=[Subscription.channel.set("pigeon")])
    return broken.subscription_id


def a_row_of_another_shape_than_its_model(scene: Scene) -> str:
    broken = scene.subscribe(OTHER)
    set_raw(broken, generation={"S": "first"})
    return broken.subscription_id


def a_row_without_a_client(scene: Scene) -> str:
    broken = scene.subscribe(OTHER)
    set_raw(broken, client_id=None)
    return broken.subscription_id


def a_name_that_is_no_uuid(scene: Scene) -> str:
    name = f"a-name-{uuid4()}"
    return scene.subscribe(OTHER, subscription_id=name).subscription_id


@pytest.mark.parametrize(
    "make",
    [
        a_word_outside_its_vocabulary,
        a_row_of_another_shape_than_its_model,
        a_row_without_a_client,
        a_name_that_is_no_uuid,
    ],
    ids=lambda make: make.__name__,
)
def test_whose_row_cannot_be_read_is_left_out_and_all_others_get_their_pushes(
    scene: Scene,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    make: Callable[[Scene], str],
) -> None:
    scene.subscribe()
    broken = make(scene)
    others = {scene.subscribe(OTHER).subscription_id, scene.subscribe(OTHER, rules_generation=2).subscription_id}
    in_doubt = scene.subscribe(OTHER, generation=2, rules_generation=1)
    scene.add_rule(in_doubt.subscription_id, Rule(scene.key(OTHER)), generation=2, seen=False)
    messages = [scene.observe(scene.sender.states(topic)) for topic in (TOPIC, OTHER)]
    assert scene.take(*messages) == set()
    reached = {str(push.subscription_id) for push in scene.pushes() if statement_of(push).topic == OTHER}
    assert in_doubt.subscription_id in reached
    assert broken not in reached
    assert len(reached & others) == 1
    logged = [vars(record) for record in caplog.records]
    assert [line["subscription_id"] for line in logged if line["msg"] == "receiver unreadable"] == [broken]
    assert counted(Metric.RECEIVERS_UNREADABLE, capsys) == [[1]]


def test_a_page_with_a_row_that_cannot_be_read_goes_on_to_the_next(scene: Scene) -> None:
    for _ in range(2 * PAGE):
        scene.subscribe()
    first = min(rule.subscription_id for rule in RuleRow.by_key.query(scene.key()))
    Subscription(first).update(actions=[Subscription.channel.set("pigeon")])
    assert scene.take(*scene.observe_new(1)) == set()
    while waiting := scene.again():
        assert scene.take(*waiting) == set()
    assert len(scene.pushes()) == 2 * PAGE - 1


def test_who_is_left_unread_by_a_throttle_for_long_gets_it_later_and_others_at_once(scene: Scene) -> None:
    late, at_once = scene.subscribe(), scene.subscribe(OTHER)
    events = scene.clients.dynamodb.meta.events

    def leave_one(parsed: dict[str, Any], **_: object) -> None:
        """Of the same subscription each time."""
        for name, rows in parsed["Responses"].items():
            for row in [one for one in rows if one.get("subscription_id") == {"S": late.subscription_id}]:
                rows.remove(row)
                parsed["UnprocessedKeys"] = {name: {"Keys": [{"subscription_id": row["subscription_id"]}]}}

    messages = [scene.observe(scene.sender.states(topic)) for topic in (TOPIC, OTHER)]
    events.register("after-call.dynamodb.BatchGetItem", leave_one)
    try:
        assert scene.take(*messages) == {0}
    finally:
        events.unregister("after-call.dynamodb.BatchGetItem", leave_one)
    assert [str(push.subscription_id) for push in scene.pushes()] == [at_once.subscription_id]


def test_who_cannot_be_read_for_the_network_is_not_left_out(scene: Scene) -> None:
    scene.subscribe()
    events = scene.clients.dynamodb.meta.events

    def refuse(**_: object) -> Any:
        return AWSResponse("", 400, HTTPHeaders(), None), {"Error": {"Code": "AccessDenied", "Message": "as planned"}}

    messages = scene.observe_new(1)
    events.register_first("before-call.dynamodb.BatchGetItem", refuse)
    try:
        assert scene.take(*messages) == {0}
    finally:
        events.unregister("before-call.dynamodb.BatchGetItem", refuse)
    assert scene.take(*messages) == set()
    assert len(scene.pushes()) == 1


def test_a_statement_that_fails_is_counted_once_in_each_invocation(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    scene.subscribe()
    lost = scene.lost()
    assert scene.take(lost, *scene.observe_new(1), lost) == {0, 2}
    assert scene.take(lost) == {0}
    assert counted(Metric.ENVELOPES_FAILED, capsys) == [[2], [1]]


def test_a_subscription_of_a_channel_that_is_deployed_no_more_is_passed_over(scene: Scene) -> None:
    phone = scene.subscribe()
    scene.subscribe(channel=Channel.FCM)
    deployed = {channel: url for channel, url in scene.settings.push_queues.items() if channel is not Channel.FCM}
    settings = scene.settings.model_copy(update={"push_queues": deployed})
    scene.worker = MatchWorker.open(settings, scene.clients, scene.clock)
    assert scene.take(*scene.observe_new(1)) == set()
    assert [str(push.subscription_id) for push in scene.pushes()] == [phone.subscription_id]


# ---- faults that are not the statement's ------------------------------------------------------------------------------


@contextmanager
def refusing(scene: Scene, channel: Channel) -> Iterator[None]:
    """The channel's queue takes nothing."""
    events, url = scene.clients.sqs.meta.events, scene.settings.push_queues[channel]

    def refuse(params: dict[str, Any], **_: object) -> Any:
        if json.loads(params["body"])["QueueUrl"] == url:
            return AWSResponse("", 403, HTTPHeaders(), None), {"Error": {"Code": "AccessDenied", "Message": ""}}
        return None

    events.register_first("before-call.sqs.SendMessageBatch", refuse)
    try:
        yield
    finally:
        events.unregister("before-call.sqs.SendMessageBatch", refuse)


@pytest.mark.parametrize("second", [False, True], ids=["first look", "second look"])
def test_only_the_pushes_that_their_queue_refused_come_again(scene: Scene, *, second: bool) -> None:
    phone, tablet = scene.subscribe(), scene.subscribe(channel=Channel.FCM)
    ids = (phone.subscription_id, tablet.subscription_id)
    [first] = scene.observe_new(1)
    message: MatchMessage = look_again(first, *ids) if second else first
    with refusing(scene, Channel.FCM):
        assert scene.take(message) == set()
        [again] = scene.again()
        assert isinstance(again, RemainderMessage)
        assert again.subscription_ids == (tablet.subscription_id,)
        assert [str(push.subscription_id) for push in scene.pushes()] == [phone.subscription_id]
        assert scene.take(again) == {0}
    assert scene.take(again) == set()
    assert [str(push.subscription_id) for push in scene.pushes()] == [tablet.subscription_id]
    assert scene.again() == []


def test_what_was_queued_and_lost_is_pushed_again_to_whoever_still_has_a_rule(scene: Scene) -> None:
    phone, tablet = scene.subscribe(), scene.subscribe(channel=Channel.FCM)
    [message] = scene.observe_new(1)
    scene.take(message)
    assert len(scene.pushes()) == 2
    tablet.update([Subscription.generation.set(2)])
    lost = RemainderMessage(**message.observation, subscription_ids=(phone.subscription_id, tablet.subscription_id))
    assert scene.take(lost) == set()
    assert [str(push.subscription_id) for push in scene.pushes()] == [phone.subscription_id]


def test_what_comes_again_in_part_after_its_expiry_leaves_what_was_decided_of_the_envelope(scene: Scene) -> None:
    phone = scene.subscribe()
    message = scene.observe(scene.sender.states(expires_at=scene.clock() // 1000 + 60))
    scene.take(message)
    # Other tests of the file share the lake.
    lake_events()
    scene.clock.advance(61)
    lost = RemainderMessage(**message.observation, subscription_ids=(phone.subscription_id,))
    assert scene.take(lost) == set()
    assert (len(scene.pushes()), lake_events()) == (1, [])


def test_a_page_whose_queue_refused_some_goes_on_and_repeats_only_those(scene: Scene) -> None:
    phones = {scene.subscribe().subscription_id for _ in range(PAGE)}
    tablets = {scene.subscribe(channel=Channel.FCM).subscription_id for _ in range(PAGE)}
    with refusing(scene, Channel.FCM):
        scene.take(*scene.observe_new(1))
    while waiting := scene.again():
        assert scene.take(*waiting) == set()
    assert Counter(str(push.subscription_id) for push in scene.pushes()) == Counter(phones | tablets)


def test_what_has_not_begun_when_time_runs_out_comes_again_and_the_rest_is_sent(scene: Scene) -> None:
    senders = [replace(scene, sender=Sender()) for _ in range(4)]
    for sender in senders:
        sender.subscribe()
    messages = [message for sender in senders for message in sender.observe_new(1)]
    records = [received(str(number), message.to_json()) for number, message in enumerate(messages)]
    claimed: list[str] = []

    def claim(params: dict[str, Any], **_: object) -> None:
        if params["TableName"] == PushRecord.Meta.table_name:
            claimed.append(params["Item"]["receipt"]["S"])

    events = scene.clients.dynamodb.meta.events
    events.register_first("before-parameter-build.dynamodb.PutItem", claim)
    try:
        late = scene.worker.handle(records, lambda: RESERVE - (len(claimed) >= 2))
    finally:
        events.unregister("before-parameter-build.dynamodb.PutItem", claim)
    assert len(claimed) == len(late) == 2
    assert {str(push.receipt) for push in scene.pushes()} == {*claimed}
    assert set(scene.worker.handle([record for record in records if record["messageId"] in late])) == set()
    assert len(scene.pushes()) == 2
