"""A rule written just before its statement counts, although the index of the rules lags behind."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import boto3

from clarion.decisions import Wanted
from clarion.messages import EnvelopeMessage, MatchMessage
from clarion.networks import Rule
from clarion.networks.statements.rules import ALERT, CALL
from clarion.tables import RuleRow, Subscription, rule_key
from tests.match.ledger import look_again
from tests.match.meter import meter
from tests.match.scene import NOT_SHOWN_YET, OTHER, PAGE, TOPIC, Scene


def subscribe_unseen(scene: Scene, *topics: bytes, **others: Any) -> str:
    """Subscribe by rules that the index doesn't show yet."""
    subscription = scene.subscribe(*topics, **others)
    for rule in RuleRow.query(subscription.subscription_id):
        rule.update(actions=[RuleRow.key.set(NOT_SHOWN_YET)])
    return subscription.subscription_id


def naming(message: EnvelopeMessage, *names: str) -> EnvelopeMessage:
    return message.model_copy(update={"changed": names})


def pushed(scene: Scene) -> list[str]:
    return sorted(str(push.subscription_id) for push in scene.pushes())


@contextmanager
def before_call(scene: Scene, operation: str, number: int, change: Any) -> Iterator[None]:
    """Have `change` come right before the call of that number, from 1."""
    calls = 0

    def count(**_: object) -> None:
        nonlocal calls
        calls += 1
        if calls == number:
            change()

    events = scene.clients.dynamodb.meta.events
    events.register_first(f"before-call.dynamodb.{operation}", count)
    try:
        yield
    finally:
        events.unregister(f"before-call.dynamodb.{operation}", count)


def move(scene: Scene, subscription_id: str, before: bytes, after: bytes) -> None:
    """As a PUT of a few rules does."""
    scene.add_rule(subscription_id, Rule(scene.key(after)))
    RuleRow(subscription_id, rule_key(1, scene.key(before))).delete()
    Subscription(subscription_id).update(actions=[Subscription.revision.add(1)])


def test_whose_rules_changed_lately_is_read_from_the_tables_where_the_index_lags(scene: Scene) -> None:
    crowd = scene.subscribe().subscription_id
    fresh = subscribe_unseen(scene)
    scene.take(naming(scene.observe(scene.sender.states()), fresh))
    assert pushed(scene) == sorted([crowd, fresh])


def test_what_the_index_still_shows_of_a_changed_rule_does_not_count(scene: Scene) -> None:
    changed = scene.subscribe(condition=ALERT).subscription_id
    removed = scene.subscribe().subscription_id
    Subscription(removed).update(actions=[Subscription.generation.set(2)])
    RuleRow(changed, rule_key(1, scene.key())).update(
        actions=[RuleRow.key.set(NOT_SHOWN_YET), RuleRow.condition.set(CALL)]
    )
    scene.take(naming(scene.observe(scene.sender.states()), changed, removed))
    assert [(str(push.subscription_id), push.wanted) for push in scene.pushes()] == [(changed, Wanted.CALL)]


def test_of_a_fan_out_each_who_is_named_gets_one_push_from_the_page_that_it_belongs_to(scene: Scene) -> None:
    crowd = [scene.subscribe().subscription_id for _ in range(2 * PAGE)]
    fresh = [subscribe_unseen(scene) for _ in range(3)]
    waiting: list[MatchMessage] = [naming(scene.observe(scene.sender.states()), *fresh, *crowd[:3])]
    while waiting:
        assert scene.take(*waiting) == set()
        waiting = scene.again()
    assert pushed(scene) == sorted([*crowd, *fresh])


def test_what_nobody_wants_is_unmatched_at_once(scene: Scene) -> None:
    with meter.running() as bill:
        scene.take(*scene.observe_new(1))
    assert (bill.sent, bill.requests["PutRecordBatch"]) == (0, 1)


def test_a_second_look_is_at_those_alone_that_it_names(scene: Scene) -> None:
    scene.subscribe()
    fresh = subscribe_unseen(scene)
    with meter.running() as bill:
        scene.take(look_again(scene.observe(scene.sender.states()), fresh))
    assert pushed(scene) == [fresh]
    assert bill.requests["Query"] == 0


def test_a_second_look_pushes_nothing_that_the_first_has_pushed_and_reports_nothing(scene: Scene) -> None:
    name = scene.subscribe().subscription_id
    [message] = scene.observe_new(1)
    scene.take(message)
    with meter.running() as bill:
        scene.take(look_again(message, name))
    assert pushed(scene) == [name]
    assert bill.requests["PutRecordBatch"] == 0


def test_a_first_look_that_comes_after_the_second_pushes_nothing_again(scene: Scene) -> None:
    name = scene.subscribe().subscription_id
    [message] = scene.observe_new(1)
    scene.take(look_again(message, name))
    scene.take(message)
    assert pushed(scene) == [name]


def test_both_looks_in_one_batch_make_one_push(scene: Scene) -> None:
    name = scene.subscribe().subscription_id
    [message] = scene.observe_new(1)
    scene.take(message, look_again(message, name))
    assert pushed(scene) == [name]


def test_each_look_passes_its_own_claim_when_it_is_retried(scene: Scene) -> None:
    name = subscribe_unseen(scene)
    look = look_again(scene.observe(scene.sender.states()), name)
    scene.take(look)
    scene.elsewhere().take(look)
    assert pushed(scene) == [name] * 2


def test_a_rule_that_moves_between_the_readings_of_its_subscription_and_of_its_rules_counts(scene: Scene) -> None:
    """Of two topics, each is read when the rule is under the other one."""
    name = subscribe_unseen(scene, TOPIC)
    statement = scene.observe(scene.sender.states(OTHER, TOPIC))

    def away() -> None:
        RuleRow(name, rule_key(1, scene.key())).delete()

    def back() -> None:
        scene.add_rule(name, Rule(scene.key(OTHER)), seen=False)
        Subscription(name).update(actions=[Subscription.revision.add(1)])

    with before_call(scene, "BatchGetItem", 2, away), before_call(scene, "BatchGetItem", 3, back):
        scene.take(look_again(statement, name))
    assert pushed(scene) == [name]


def test_a_generation_that_is_replaced_and_erased_between_the_two_readings_counts(scene: Scene) -> None:
    name = subscribe_unseen(scene)

    def flip() -> None:
        scene.add_rule(name, Rule(scene.key()), generation=2, seen=False)
        Subscription(name).update(actions=[Subscription.generation.set(2), Subscription.revision.add(1)])
        RuleRow(name, rule_key(1, scene.key())).delete()

    with before_call(scene, "BatchGetItem", 2, flip):
        scene.take(look_again(scene.observe(scene.sender.states()), name))
    assert pushed(scene) == [name]


def test_who_is_gone_by_then_gets_no_push(scene: Scene) -> None:
    gone = str(uuid4())
    unsubscribed = subscribe_unseen(scene)

    def end() -> None:
        Subscription(unsubscribed).delete()

    with before_call(scene, "BatchGetItem", 2, end):
        scene.take(look_again(scene.observe(scene.sender.states()), gone, unsubscribed))
    assert pushed(scene) == []


def test_a_second_look_at_a_large_statement_reads_it_where_it_lies(scene: Scene) -> None:
    name = subscribe_unseen(scene)
    [message] = scene.observe_new(1)
    assert message.raw
    boto3.client("s3").put_object(Bucket="oversize", Key="looked-at", Body=message.raw)
    large = message.model_copy(update={"raw": None, "location": "looked-at"})
    scene.take(look_again(large, name))
    assert pushed(scene) == [name]


def test_what_a_replay_brought_is_pushed_as_such(scene: Scene) -> None:
    scene.subscribe()
    live, replayed = scene.observe_new(2)
    scene.take(live, replayed.model_copy(update={"replayed_since": 7}))
    assert {push.receipt: push.replayed_since for push in scene.pushes()} == {live.receipt: None, replayed.receipt: 7}
