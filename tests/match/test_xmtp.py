"""XMTP's envelopes on their way through match: whose message it is, and what its sender says of it."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import uuid4

import boto3
import pytest

from clarion.decisions import NotificationDecision, OwnMessages, Wanted
from clarion.messages import EnvelopeMessage, RemainderMessage
from clarion.metrics import decided
from clarion.networks import XMTP, Rule
from clarion.networks.xmtp.payload import TopicBody
from clarion.networks.xmtp.rules import key_of
from clarion.networks.xmtp.sender_hmac import PERIOD_S, period_at
from clarion.networks.xmtp.topics import group_topic
from clarion.tables import RateLimit, Subscription
from tests.match.meter import meter
from tests.match.scene import NOW, Scene
from tests.xmtp import WELCOMES, Inbox, envelope

AT = NOW // 1000
ROLLOVER = (period_at(AT) + 1) * PERIOD_S


@pytest.fixture
def group(scene: Scene) -> bytes:
    """A group of this test's own."""
    return uuid4().bytes


@pytest.fixture
def alix(group: bytes) -> Inbox:
    return Inbox(b"alix", group)


@pytest.fixture
def bo(group: bytes) -> Inbox:
    return Inbox(b"bo", group)


def install(scene: Scene, inbox: Inbox, *, silent: bool = False, at: int = AT) -> Subscription:
    return scene.subscribe_to(XMTP, [inbox.rule(at, silent=silent)])


def show(scene: Scene, inbox: Inbox, data: bytes = b"sealed", **others: Any) -> EnvelopeMessage:
    return scene.show(XMTP, inbox.message(scene.clock() // 1000, data, **others))


def woken(scene: Scene) -> dict[str, Wanted]:
    """Since the last look, by subscription."""
    return {str(push.subscription_id): push.wanted for push in scene.pushes()}


@pytest.fixture
def lake() -> Iterator[None]:
    lines()
    yield
    lines()


def lines() -> list[dict[str, Any]]:
    """What came to the lake since the last look."""
    s3 = boto3.client("s3")
    found: list[str] = []
    for each in s3.list_objects_v2(Bucket="lake").get("Contents", ()):
        found += s3.get_object(Bucket="lake", Key=each["Key"])["Body"].read().decode().splitlines()
        s3.delete_object(Bucket="lake", Key=each["Key"])
    return [json.loads(line) for line in found]


def test_a_friend_s_message_wakes_all_installations_of_an_inbox_as_each_wants_it(
    scene: Scene, alix: Inbox, bo: Inbox, group: bytes
) -> None:
    phone, tablet = install(scene, alix), install(scene, alix, silent=True)
    message = show(scene, bo)
    assert scene.take(message) == set()
    pushes = {str(push.subscription_id): push for push in scene.pushes()}
    assert {name: push.wanted for name, push in pushes.items()} == {
        phone.subscription_id: Wanted.ALERT,
        tablet.subscription_id: Wanted.BACKGROUND,
    }
    body = pushes[phone.subscription_id].body
    assert isinstance(body, TopicBody)
    assert (body.topic, body.kind, body.should_push) == (group_topic(group), "v3-conversation", True)
    assert pushes[phone.subscription_id].expires_at == AT + 24 * 3600


def test_an_own_message_wakes_the_friend_and_none_of_one_s_own_installations(
    scene: Scene, alix: Inbox, bo: Inbox, lake: None
) -> None:
    own, friend = [install(scene, alix) for _ in range(2)], install(scene, bo)
    scene.take(show(scene, alix))
    assert woken(scene) == {friend.subscription_id: Wanted.ALERT}
    events = {event["subscription_id"]: event for event in lines() if event["event"] == "notification"}
    assert [events[one.subscription_id]["decision"] for one in own] == ["own_message"] * 2
    assert events[friend.subscription_id]["network"] == XMTP


def delivering(scene: Scene, *apps: str) -> Scene:
    """As it goes on when the deployment has these apps, and no others, deliver own messages."""
    own = dict.fromkeys(apps, OwnMessages.DELIVER)
    return replace(scene, settings=scene.settings.model_copy(update={"first_app": "first", "own_messages": own}))


def of_app(scene: Scene, inbox: Inbox, app: str) -> Subscription:
    row = install(scene, inbox)
    row.app = app
    row.save()
    return row


@pytest.mark.parametrize("in_doubt", [False, True], ids=["by the index", "by the tables"])
def test_whether_own_messages_are_delivered_changes_at_once_in_both_directions(
    scene: Scene, alix: Inbox, lake: None, *, in_doubt: bool
) -> None:
    phone, tablet = install(scene, alix), install(scene, alix, silent=True)
    names = {phone.subscription_id, tablet.subscription_id}
    both = {phone.subscription_id: Wanted.ALERT, tablet.subscription_id: Wanted.BACKGROUND}
    turns: list[tuple[Scene, dict[str, Wanted], tuple[str, bool | None]]] = [
        (scene, {}, ("own_message", None)),
        (delivering(scene, "first"), both, ("queued", True)),
        (scene, {}, ("own_message", None)),
    ]
    for there, pushes, recorded in turns:
        message = show(there, alix, uuid4().bytes)
        there.take(message.model_copy(update={"changed": tuple(names)}) if in_doubt else message)
        assert woken(there) == pushes
        found = [(event["decision"], event.get("own")) for event in lines() if event["event"] == "notification"]
        assert found == [recorded] * 2


def test_own_messages_are_delivered_to_the_clients_of_the_app_that_asks_for_them(
    scene: Scene, alix: Inbox, bo: Inbox, lake: None
) -> None:
    scene = delivering(scene, "robot")
    install(scene, alix)
    robot, friends_robot = of_app(scene, alix, "robot"), of_app(scene, bo, "robot")
    scene.take(show(scene, alix))
    assert woken(scene).keys() == {robot.subscription_id, friends_robot.subscription_id}
    own = {event["subscription_id"]: event.get("own") for event in lines() if event["event"] == "notification"}
    assert (own[robot.subscription_id], own[friends_robot.subscription_id]) == (True, None)


def test_an_own_reaction_wakes_nobody_even_where_own_messages_are_delivered(
    scene: Scene, alix: Inbox, lake: None
) -> None:
    scene = delivering(scene, "first")
    install(scene, alix)
    scene.take(show(scene, alix, should_push=False))
    assert woken(scene) == {}
    assert [(event["decision"], event["own"]) for event in lines() if event["event"] == "notification"] == [
        ("not_pushable", True)
    ]


def test_to_deliver_own_messages_costs_no_request_more(scene: Scene, alix: Inbox, bo: Inbox) -> None:
    install(scene, alix)
    scene = delivering(scene, "first")
    bills = []
    for sender in (alix, bo):
        with meter.running() as bill:
            scene.take(show(scene, sender))
        bills.append((bill.reads, bill.writes))
    assert bills[0] == bills[1]


def test_a_reaction_wakes_nobody_and_costs_no_write(
    scene: Scene, alix: Inbox, bo: Inbox, capsys: pytest.CaptureFixture[str]
) -> None:
    install(scene, alix)
    install(scene, alix, silent=True)
    with meter.running() as bill:
        scene.take(show(scene, bo, should_push=False))
    assert (woken(scene), bill.writes) == ({}, 0)
    assert f'"{decided(NotificationDecision.NOT_PUSHABLE)}":[2.0]' in capsys.readouterr().out


def test_what_was_lost_is_decided_anew_by_the_keys_and_for_those_alone_who_are_named(
    scene: Scene, alix: Inbox, bo: Inbox, lake: None
) -> None:
    own, friend, _ = install(scene, alix), install(scene, bo, silent=True), install(scene, bo)
    names = (own.subscription_id, friend.subscription_id)
    lost = RemainderMessage(**show(scene, alix).observation, subscription_ids=names)
    for _ in range(2):
        scene.take(lost)
        assert woken(scene) == {friend.subscription_id: Wanted.BACKGROUND}
        events = {event["subscription_id"]: event["decision"] for event in lines() if event["event"] == "notification"}
        assert events == dict(zip(names, ("own_message", "queued"), strict=True))


@pytest.mark.parametrize("taken_at", [ROLLOVER - 1, ROLLOVER])
@pytest.mark.parametrize("sent_in", [period_at(ROLLOVER) - 1, period_at(ROLLOVER)])
def test_at_a_rollover_own_messages_stay_own(scene: Scene, alix: Inbox, bo: Inbox, taken_at: int, sent_in: int) -> None:
    scene.clock.advance(taken_at - AT)
    install(scene, alix, at=taken_at)
    friend = install(scene, bo, at=taken_at)
    scene.take(show(scene, alix, period=sent_in))
    assert woken(scene) == {friend.subscription_id: Wanted.ALERT}


def test_who_has_handed_over_no_keys_is_woken_by_own_messages_as_well(scene: Scene, alix: Inbox, group: bytes) -> None:
    plain = scene.subscribe_to(XMTP, [Rule(key_of(group_topic(group)))])
    scene.take(show(scene, alix))
    assert woken(scene) == {plain.subscription_id: Wanted.ALERT}


def test_a_welcome_wakes_who_subscribed_to_the_installation_s_topic(scene: Scene) -> None:
    subscription = scene.subscribe_to(XMTP, [Rule(key_of(WELCOMES))])
    scene.take(scene.show(XMTP, envelope(WELCOMES, uuid4().bytes, AT)))
    assert woken(scene) == {subscription.subscription_id: Wanted.ALERT}


def test_the_same_message_from_two_nodes_is_pushed_once(scene: Scene, alix: Inbox, bo: Inbox) -> None:
    phone = install(scene, alix)
    scene.take(scene.show(XMTP, bo.message(AT)), scene.show(XMTP, bo.message(AT + 1)))
    assert [str(push.subscription_id) for push in scene.pushes()] == [phone.subscription_id]


def test_no_pace_of_a_topic_is_refused(scene: Scene, alix: Inbox, bo: Inbox) -> None:
    install(scene, alix)
    scene.take(*(show(scene, bo, str(number).encode()) for number in range(50)))
    assert len(scene.pushes()) == 50
    # A pair's scope is longer than a subscription's, which is a UUID.
    assert not [row for row in RateLimit.scan() if len(row.scope) > 16]


def test_no_key_of_a_subscriber_reaches_a_log_or_an_event(
    scene: Scene, alix: Inbox, bo: Inbox, capsys: pytest.CaptureFixture[str], lake: None
) -> None:
    install(scene, alix)
    scene.take(show(scene, alix), show(scene, bo), scene.show(XMTP, b"\xff"))
    written = json.dumps(lines()) + capsys.readouterr().out
    assert "own_message" in written
    for key in alix.keys(period_at(AT)).values():
        assert key.hex() not in written
        assert repr(key) not in written
