import math
import tracemalloc
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import pytest

from api.networks.xmtp.codes import CallError
from api.networks.xmtp.notifications_pb2 import SubscribeWithMetadataRequest
from api.networks.xmtp.service import XmtpCall, subscribe_with_metadata
from clarion import subscriptions
from clarion.addresses import WebhookAddress
from clarion.channels import Channel
from clarion.decisions import Environment, SubscriptionStatus
from clarion.endings import Death, declare_dead
from clarion.networks import XMTP
from clarion.networks.xmtp.installations import Installation, bucket_of, subscription_id_of
from clarion.networks.xmtp.rules import TopicCondition, key_of, pack, read
from clarion.networks.xmtp.sender_hmac import PERIOD_S, period_at
from clarion.rulesets import Owner
from clarion.subscription_events import RuleRef, RulesChanged, SubscriptionChanged
from clarion.subscriptions import Registration
from clarion.tables import RuleRow, Subscription, Token

GROUP, OTHER, WELCOME = (f"/xmtp/mls/1/{name}/proto" for name in ("g-00ff", "g-0100", "w-aabb"))
CONVERSATION = "/xmtp/0/m-abc/proto"
DAY_MS, PERIOD_MS = 86_400_000, PERIOD_S * 1000


def key(filling: int, size: int = 42) -> bytes:
    return bytes([filling]) * size


def named(topic: str, keys: dict[int, bytes] | None = None, *, silent: bool = False) -> dict[str, Any]:
    """A subscription in JSON."""
    shown = [
        {"thirtyDayPeriodsSinceEpoch": period, "key": b64encode(one).decode()} for period, one in (keys or {}).items()
    ]
    return {"topic": topic, "hmacKeys": shown, "isSilent": silent}


def sid_of(phone: Any) -> str:
    return subscription_id_of(phone.client_id, phone.installation)


def row_of(phone: Any) -> Any:
    return Subscription.get(sid_of(phone), consistent_read=True)


def topics_of(phone: Any) -> dict[str, TopicCondition]:
    """What is in force for the phone."""
    read_rules = phone.worker.rule_sets.read(sid_of(phone), Owner(XMTP, phone.client_id))
    return {one[1:].decode(): read(condition) for one, condition in read_rules[1].items()}


def metadata(phone: Any, *subscriptions: dict[str, Any]) -> Any:
    return phone("SubscribeWithMetadata", {"subscriptions": subscriptions})


def test_an_installation_registers_subscribes_unsubscribes_and_goes(phone: Any) -> None:
    assert phone.register().json["installationId"] == "install1"
    assert phone("Subscribe", {"topics": [GROUP, WELCOME]}).json == {}
    assert topics_of(phone) == {GROUP: TopicCondition(), WELCOME: TopicCondition()}
    assert phone("Unsubscribe", {"topics": [GROUP]}).json == {}
    assert topics_of(phone).keys() == {WELCOME}
    assert phone("DeleteInstallation").json == {}
    assert not list(Subscription.batch_get([sid_of(phone)]))
    assert not list(Installation.batch_get([sid_of(phone)]))


def test_a_registration_is_valid_for_thirty_days_and_renewed_by_another(registered: Any, clock: Any) -> None:
    first = int(registered.register().json["validUntil"])
    assert first == (clock.now // 1000) * 1000 + 30 * DAY_MS
    assert Installation.get(sid_of(registered)).valid_until == first // 1000
    clock.now += DAY_MS
    assert int(registered.register().json["validUntil"]) == first + DAY_MS
    assert Installation.get(sid_of(registered)).valid_until == (first + DAY_MS) // 1000


@pytest.mark.parametrize(
    ("mechanism", "channel", "stored"),
    [
        ({"apnsDeviceToken": "0x" + "AB" * 32}, Channel.APNS, "ab" * 32),
        ({"firebaseDeviceToken": "dQ:APA91bH_XYZ-0123"}, Channel.FCM, "dQ:APA91bH_XYZ-0123"),
        (
            {"customToken": "any\ntext"},
            Channel.WEBHOOK,
            '{"client":"CLIENT","installation_id":"install1","token":"any\\ntext"}',
        ),
    ],
)
def test_each_mechanism_is_a_channel(phone: Any, mechanism: dict[str, str], channel: Channel, stored: str) -> None:
    assert phone("RegisterInstallation", {"deliveryMechanism": mechanism}).status == 200
    row = row_of(phone)
    assert (row.network, row.channel, row.token) == (XMTP, channel, stored.replace("CLIENT", phone.client_id.hex()))
    assert (row.app, row.environment) == (None, None)


@pytest.mark.parametrize(
    "mechanism",
    [
        {"apnsDeviceToken": "ab"},
        {"apnsDeviceToken": ""},
        {"apnsDeviceToken": "zz" * 32},
        {"firebaseDeviceToken": "short"},
        {"firebaseDeviceToken": "ü" * 40},
        {"customToken": ""},
        {"customToken": "x" * 1025},
        {"customToken": "é" * 513},
    ],
)
def test_a_token_that_is_none_is_refused_without_being_quoted(phone: Any, mechanism: dict[str, str]) -> None:
    reply = phone("RegisterInstallation", {"deliveryMechanism": mechanism})
    assert (reply.status, reply.code) == (400, "invalid_argument")
    assert reply.json["message"] == "the token is none of its delivery mechanism"


@pytest.mark.parametrize("mechanism", [{}, {"deliveryMechanism": {}}, {"deliveryMechanism": None}])
def test_a_missing_mechanism_is_named_as_the_reference_does(phone: Any, mechanism: dict[str, Any]) -> None:
    reply = phone("RegisterInstallation", mechanism)
    assert (reply.status, reply.headers["Content-Type"]) == (400, "application/json")
    assert reply.json == {"code": "invalid_argument", "message": "missing delivery mechanism"}


def test_app_and_environment_come_from_headers_or_from_the_deployment(phone: Any) -> None:
    token = uuid4().hex * 2
    assert phone.register(token, clarion_app="tablet", clarion_environment="sandbox").status == 200
    assert (row_of(phone).app, row_of(phone).environment) == ("tablet", "sandbox")
    settings = phone.worker.settings.model_copy(update={"environment": Environment.SANDBOX})
    phone.worker = replace(phone.worker, settings=settings)
    assert phone.register(token).status == 200
    assert (row_of(phone).app, row_of(phone).environment) == (None, "sandbox")


@pytest.mark.parametrize("headers", [{"clarion_app": "robot"}, {"clarion_app": ""}, {"clarion_environment": "moon"}])
def test_an_app_or_environment_that_is_not_there_is_refused(phone: Any, headers: dict[str, str]) -> None:
    assert phone.register(**headers).code == "invalid_argument"
    assert not list(Subscription.batch_get([sid_of(phone)]))


def test_a_channel_that_the_deployment_lacks_is_refused_in_words_of_the_service(phone: Any) -> None:
    apps = {"apns": frozenset({"first"})}
    phone.worker = replace(phone.worker, settings=phone.worker.settings.model_copy(update={"apps": apps}))
    reply = phone("RegisterInstallation", {"deliveryMechanism": {"customToken": "t"}})
    assert reply.code == "invalid_argument"
    assert "the delivery mechanism must be one that this deployment has: apns" in reply.json["message"]


@pytest.mark.parametrize("installation", ["", "x" * 257, "é" * 129])
@pytest.mark.parametrize(
    "method", ["RegisterInstallation", "DeleteInstallation", "Subscribe", "SubscribeWithMetadata", "Unsubscribe"]
)
def test_an_installation_needs_a_name(phone: Any, installation: str, method: str) -> None:
    mechanism = {"apnsDeviceToken": "ab" * 32}
    reply = phone(method, {"installationId": installation, "deliveryMechanism": mechanism})
    assert (reply.status, reply.code) == (400, "invalid_argument")


def test_names_of_installations_are_the_clients_own(registered: Any, new_phone: Callable[[], Any]) -> None:
    registered("Subscribe", {"topics": [GROUP]})
    stranger = new_phone()
    assert stranger.installation == registered.installation
    assert stranger("Unsubscribe", {"topics": [GROUP]}).status == 200
    assert stranger("Subscribe", {"topics": [OTHER]}).status == 200
    assert topics_of(registered).keys() == {GROUP}
    assert topics_of(stranger).keys() == {OTHER}
    assert stranger("DeleteInstallation").status == 200
    assert topics_of(registered).keys() == {GROUP}
    assert stranger.register().status == 200
    assert topics_of(stranger) == {}


def test_a_token_that_another_client_holds_stays_there(registered: Any, new_phone: Callable[[], Any]) -> None:
    token, stranger = row_of(registered).token, new_phone()
    reply = stranger.register(token)
    assert (reply.status, reply.code) == (409, "already_exists")
    assert not {sid_of(registered), registered.client_id.hex()} & set(reply.json["message"].split())
    assert stranger.register().status == 200
    assert stranger.register(token).code == "already_exists"
    assert row_of(registered).token == token


def test_two_clients_of_one_installation_and_custom_token_never_meet(phone: Any, new_phone: Callable[[], Any]) -> None:
    mechanism = {"deliveryMechanism": {"customToken": "the same"}}
    stranger = new_phone()
    assert [one("RegisterInstallation", mechanism).status for one in (phone, stranger)] == [200, 200]
    addresses = [WebhookAddress.parse(row_of(one).token) for one in (phone, stranger)]
    assert [one.client for one in addresses] == [phone.client_id.hex(), stranger.client_id.hex()]
    assert stranger("DeleteInstallation").status == 200
    assert row_of(phone).status == SubscriptionStatus.ACTIVE


def test_a_token_moves_to_a_newer_installation_of_its_client(registered: Any, emitted: Any) -> None:
    older, token = sid_of(registered), row_of(registered).token
    registered("Subscribe", {"topics": [GROUP]})
    registered.installation = "install2"
    emitted.events.clear()
    assert registered.register(token).status == 200
    assert [(str(event.subscription_id), event.status) for event in emitted.events] == [
        (older, "removed"),
        (sid_of(registered), "active"),
    ]
    assert not list(Subscription.batch_get([older]))
    assert not list(Installation.batch_get([older]))
    assert topics_of(registered) == {}


@pytest.mark.parametrize("method", ["Subscribe", "SubscribeWithMetadata"])
def test_topics_of_an_installation_whose_token_has_moved_wait_for_its_registration(
    registered: Any, method: str
) -> None:
    older, token = registered.installation, row_of(registered).token
    registered.installation = "install2"
    registered.register(token)
    registered.installation = older
    topics = {"Subscribe": {"topics": [GROUP]}, "SubscribeWithMetadata": {"subscriptions": [named(GROUP)]}}
    assert registered(method, topics[method]).status == 200
    assert row_of(registered).status == SubscriptionStatus.PENDING
    assert registered.register().status == 200
    assert row_of(registered).status == SubscriptionStatus.ACTIVE
    assert topics_of(registered).keys() == {GROUP}


def test_an_ended_installation_that_makes_room_for_another_leaves_nothing_behind(registered: Any) -> None:
    ended = row_of(registered)
    declare_dead(registered.worker.connection, ended, Death("Unregistered", at=1))
    settings = registered.worker.settings.model_copy(update={"subscriptions_per_client": 1})
    registered.worker = replace(registered.worker, settings=settings)
    registered.installation = "install2"
    assert registered.register().status == 200
    assert not list(Subscription.batch_get([ended.subscription_id]))
    assert not list(Installation.batch_get([ended.subscription_id]))


def test_a_new_token_keeps_topics_and_frees_the_old_one(registered: Any, new_phone: Callable[[], Any]) -> None:
    metadata(registered, named(GROUP, silent=True))
    old = row_of(registered).token
    mechanism = {"firebaseDeviceToken": f"token:{uuid4()}"}
    assert registered("RegisterInstallation", {"deliveryMechanism": mechanism}).status == 200
    assert topics_of(registered) == {GROUP: TopicCondition(silent=True)}
    assert row_of(registered).channel == Channel.FCM
    assert new_phone().register(old).status == 200


def test_an_installation_whose_token_died_lives_again_without_topics(registered: Any) -> None:
    registered("Subscribe", {"topics": [GROUP]})
    row = row_of(registered)
    declare_dead(registered.worker.connection, row, Death("Unregistered", at=1))
    reply = registered("Subscribe", {"topics": [GROUP]})
    assert (reply.status, reply.code) == (400, "failed_precondition")
    assert "register it again" in reply.json["message"]
    assert registered("Unsubscribe", {"topics": [GROUP]}).status == 200
    assert registered.register(row.token).status == 200
    revived = row_of(registered)
    assert (revived.status, revived.status_reason, revived.ttl) == (SubscriptionStatus.ACTIVE, None, None)
    assert revived.revision > row.revision
    assert topics_of(registered) == {}
    assert registered("Subscribe", {"topics": [GROUP]}).status == 200


def test_an_installation_began_with_its_first_registration_until_it_ends(registered: Any, clock: Any) -> None:
    first = row_of(registered)
    clock.now += DAY_MS
    registered.register()
    again = row_of(registered)
    assert (again.began_at, again.created_at) == (first.began_at, clock.now)
    declare_dead(registered.worker.connection, again, Death("Unregistered", at=1))
    registered.register()
    assert row_of(registered).began_at == clock.now


def test_a_subscription_that_moved_is_returned_as_it_is_stored(registered: Any, clock: Any) -> None:
    row = row_of(registered)
    declare_dead(registered.worker.connection, row, Death("Unregistered", at=1))
    dead, owner = row_of(registered), Owner(XMTP, registered.client_id)
    other = Registration(*owner, Channel.FCM, f"token:{uuid4()}", "robot", subscription_id=row.subscription_id)
    moved = subscriptions.move(registered.worker.connection, dead, other, now=clock.now)
    assert isinstance(moved, Subscription)
    found = {name: value for name, value in moved.attribute_values.items() if value is not None}
    assert found == row_of(registered).attribute_values
    assert found.items() >= {("channel", "fcm"), ("status", "active"), ("app", "robot")}
    assert found.keys().isdisjoint({"ttl", "status_reason"})


def test_a_providers_answer_about_an_earlier_registration_ends_nothing(registered: Any, clock: Any) -> None:
    row = row_of(registered)
    clock.now += 2000
    assert registered.register(row.token).status == 200
    late = Death("Unregistered", at=clock.now, since=clock.now - 1000)
    assert declare_dead(registered.worker.connection, row, late) == []


def test_what_is_left_of_a_deleted_installation_never_comes_back(registered: Any, queue_of_cleanup: Any) -> None:
    """Its rules are erased later, and the next installation of the name has its id."""
    registered("Subscribe", {"topics": [GROUP]})
    before = row_of(registered)
    registered("DeleteInstallation")
    assert any(sid_of(registered) in body for body in queue_of_cleanup())
    assert registered.register().status == 200
    assert RuleRow.count(sid_of(registered), consistent_read=True) == 1
    assert topics_of(registered) == {}
    assert row_of(registered).generation > before.revision


def test_subscribing_leaves_keys_and_silence_alone(registered: Any, clock: Any) -> None:
    now = period_at(clock.now // 1000)
    metadata(registered, named(GROUP, {now: key(1)}, silent=True))
    registered("Subscribe", {"topics": [GROUP, OTHER]})
    assert topics_of(registered) == {GROUP: TopicCondition({now: key(1)}, silent=True), OTHER: TopicCondition()}


def test_subscribing_drops_the_keys_that_no_message_can_need_any_more(registered: Any, clock: Any) -> None:
    now = period_at(clock.now // 1000)
    both = {now - 1: key(1), now: key(2)}
    metadata(registered, named(GROUP, both, silent=True), named(OTHER, both))
    clock.now += PERIOD_MS
    registered("Subscribe", {"topics": [GROUP]})
    assert topics_of(registered) == {GROUP: TopicCondition({now: key(2)}, silent=True), OTHER: TopicCondition(both)}


def test_keys_replace_those_of_their_periods_and_go_when_nothing_needs_them(registered: Any, clock: Any) -> None:
    now = period_at(clock.now // 1000)
    metadata(registered, named(GROUP, {now - 1: key(1), now: key(2), now + 1: key(3)}))
    metadata(registered, named(GROUP, {now: key(4)}, silent=True))
    kept = TopicCondition({now - 1: key(1), now: key(4), now + 1: key(3)}, silent=True)
    assert topics_of(registered) == {GROUP: kept}
    clock.now += PERIOD_MS
    metadata(registered, named(GROUP, {now + 2: key(5)}))
    assert topics_of(registered) == {GROUP: TopicCondition({now: key(4), now + 1: key(3), now + 2: key(5)})}


def test_keys_of_no_use_are_not_kept(registered: Any, clock: Any) -> None:
    now = period_at(clock.now // 1000)
    metadata(registered, named(GROUP, {0: key(1), now: b"", now + 1: key(1, 41), now + 2: key(2), 2**32 - 1: key(3)}))
    assert topics_of(registered) == {GROUP: TopicCondition()}
    metadata(registered, named(CONVERSATION, {now: key(1, 32)}))
    assert topics_of(registered)[CONVERSATION] == TopicCondition({now: key(1, 32)})


def test_a_topic_that_is_named_twice_gets_the_keys_of_both_and_the_last_word(registered: Any, clock: Any) -> None:
    now = period_at(clock.now // 1000)
    metadata(registered, named(GROUP, {now: key(1)}, silent=True), named(GROUP, {now + 1: key(2)}))
    assert topics_of(registered) == {GROUP: TopicCondition({now: key(1), now + 1: key(2)})}


def test_keys_are_due_when_the_newest_of_the_first_comes_of_age_or_older_ones_are_given(
    registered: Any, clock: Any
) -> None:
    def due() -> float | None:
        return Installation.get(sid).keys_due

    def turn(period: int) -> int:
        return period * PERIOD_S + bucket_of(registered.installation) * 3600

    sid, now = sid_of(registered), period_at(clock.now // 1000)
    metadata(registered, named(WELCOME, silent=True))
    assert due() is None
    metadata(registered, named(GROUP, {now: key(2), now + 1: key(3), now + 9: key(4)}))
    assert due() == turn(now + 1)
    metadata(registered, named(OTHER, {now - 1: key(1), now: key(2)}))
    assert due() == turn(now)
    metadata(registered, named(GROUP, {now + 1: key(3)}))
    registered.register()
    assert due() == turn(now)


def test_keys_that_answer_a_refresh_of_their_period_are_due_no_sooner(registered: Any, clock: Any) -> None:
    now = period_at(clock.now // 1000)
    asked, due = Installation.asked_at.set(now * PERIOD_S), Installation.keys_due.set((now + 1) * PERIOD_S)
    Installation(sid_of(registered)).update([asked, due])
    metadata(registered, named(GROUP, {now: key(1)}))
    assert Installation.get(sid_of(registered)).keys_due == (now + 1) * PERIOD_S


@pytest.mark.parametrize(
    "topic", ["", "/xmtp/mls/1/x-00/proto", "/xmtp/0/invite-0xab/proto", "/xmtp/0/contact-0xab/proto", "weather", "ü\0"]
)
def test_topics_that_no_push_comes_from_are_passed_over(registered: Any, topic: str) -> None:
    assert registered("Subscribe", {"topics": [topic, GROUP]}).status == 200
    assert metadata(registered, named(topic)).status == 200
    assert topics_of(registered).keys() == {GROUP}
    assert registered("Unsubscribe", {"topics": [topic]}).status == 200


def test_a_topic_has_only_so_many_bytes(registered: Any) -> None:
    topic = "/xmtp/mls/1/g-" + "0" * 498
    assert registered("Subscribe", {"topics": [topic]}).status == 200
    for method, more in (
        ("Subscribe", {"topics": [topic + "0"]}),
        ("Unsubscribe", {"topics": [topic + "0"]}),
        ("SubscribeWithMetadata", {"subscriptions": [named(topic + "0")]}),
    ):
        assert registered(method, more).code == "invalid_argument"


def test_a_topic_takes_only_so_many_keys_in_a_call(registered: Any) -> None:
    in_json = metadata(registered, named(GROUP, {period: key(1) for period in range(17)}))
    assert in_json.code == "invalid_argument"
    many = SubscribeWithMetadataRequest(installation_id=registered.installation)
    subscription = many.subscriptions.add(topic=GROUP)
    for period in range(17):
        subscription.hmac_keys.add(thirty_day_periods_since_epoch=period)
    path = "/notifications.v1.Notifications/SubscribeWithMetadata"
    reply = registered.send(path, many.SerializeToString(), content_type="application/proto")
    assert reply.json == in_json.json
    assert "at most 16 keys" in reply.json["message"]
    assert topics_of(registered) == {}


@pytest.mark.parametrize("spelled", ["hmacKeys", "hmac_keys"])
def test_a_malformed_key_in_json_is_refused_and_the_stored_one_stays(registered: Any, clock: Any, spelled: str) -> None:
    now = period_at(clock.now // 1000)
    metadata(registered, named(GROUP, {now: key(1)}))
    malformed = {"topic": GROUP, spelled: [{"thirtyDayPeriodsSinceEpoch": now, "key": "!!!"}]}
    reply = metadata(registered, malformed)
    assert (reply.status, reply.code) == (400, "invalid_argument")
    assert topics_of(registered) == {GROUP: TopicCondition({now: key(1)})}


def test_changes_are_recorded_with_digests_in_place_of_keys(registered: Any, clock: Any, emitted: Any) -> None:
    [registration] = emitted.events
    assert isinstance(registration, SubscriptionChanged)
    assert (registration.network, registration.status, registration.channel) == (XMTP, "active", Channel.APNS)
    assert registration.subscription_id == UUID(sid_of(registered))
    emitted.events.clear()
    now = period_at(clock.now // 1000)
    metadata(registered, named(GROUP, {now: key(1)}))
    registered("Subscribe", {"topics": [GROUP, OTHER]})
    registered("Unsubscribe", {"topics": [OTHER, WELCOME]})
    registered("DeleteInstallation")
    added, plain, removed, gone = emitted.events
    assert all(isinstance(event, RulesChanged) for event in (added, plain, removed))
    condition = pack(TopicCondition({now: key(1)}))
    [secret] = added.rules
    assert (secret.key, secret.condition) == (key_of(GROUP), None)
    assert secret.condition_digest
    assert condition.hex().encode() not in added.to_line()
    assert key(1).hex().encode() not in added.to_line()
    assert [(event.change, event.rules) for event in (plain, removed)] == [
        ("added", (RuleRef(key=key_of(OTHER)),)),
        ("removed", (RuleRef(key=key_of(OTHER)),)),
    ]
    assert (gone.status, gone.revision) == ("removed", removed.revision + 1)


def test_a_later_installation_of_the_name_is_a_later_change(registered: Any, emitted: Any) -> None:
    """The lake orders changes by their revision."""
    registered("Subscribe", {"topics": [GROUP]})
    registered("DeleteInstallation")
    registered.register()
    revisions = [event.revision for event in emitted.events]
    assert revisions == sorted(set(revisions))


def limited(phone: Any, **limits: int) -> None:
    settings = phone.worker.settings.model_copy(update=limits)
    rule_sets = phone.worker.rule_sets
    rule_sets._limit = settings.rules_per_subscription
    phone.worker = replace(phone.worker, settings=settings)


def test_a_client_has_only_so_many_installations(registered: Any) -> None:
    limited(registered, subscriptions_per_client=1)
    registered.installation = "install2"
    reply = registered.register()
    assert (reply.status, reply.code) == (429, "resource_exhausted")
    registered.installation = "install1"
    assert registered.register().status == 200


def test_an_installation_has_only_so_many_topics(registered: Any) -> None:
    before = registered.worker.rule_sets._limit
    limited(registered, rules_per_subscription=1)
    try:
        reply = registered("Subscribe", {"topics": [GROUP, OTHER]})
        assert (reply.status, reply.code) == (429, "resource_exhausted")
        assert metadata(registered, named(GROUP), named(OTHER)).code == "resource_exhausted"
        assert topics_of(registered) == {}
        assert registered("Subscribe", {"topics": [GROUP]}).status == 200
    finally:
        registered.worker.rule_sets._limit = before


def test_a_call_has_only_so_many_topics(registered: Any) -> None:
    limited(registered, rules_per_request=1, rules_per_subscription=10_000)
    for method, more in (
        ("Subscribe", {"topics": [GROUP, OTHER]}),
        ("Unsubscribe", {"topics": [GROUP, OTHER]}),
        ("SubscribeWithMetadata", {"subscriptions": [named(GROUP), named(OTHER)]}),
    ):
        assert registered(method, more).code == "invalid_argument"


def test_topics_are_counted_before_anything_is_made_of_them(registered: Any) -> None:
    many = SubscribeWithMetadataRequest.FromString(b"\x0a\x08install1" + b"\x12\x00" * 1_000_000)
    call = XmtpCall(registered.worker, registered.client_id, math.inf, {})
    tracemalloc.start()
    try:
        with pytest.raises(CallError, match="at most"):
            subscribe_with_metadata(call, many)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


def test_a_client_has_only_so_many_calls_in_ten_seconds(registered: Any, clock: Any) -> None:
    clock.now += 10_000
    limited(registered, requests_per_ten_seconds=2, rules_per_subscription=10_000)
    replies = [registered("Subscribe", {"topics": [GROUP]}) for _ in range(3)]
    assert [reply.status for reply in replies] == [200, 200, 429]
    assert replies[-1].code == "resource_exhausted"
    assert int(replies[-1].headers["Retry-After"]) > 0


def topics(count: int) -> Sequence[str]:
    return [f"/xmtp/mls/1/g-{number:04x}/proto" for number in range(count)]


def test_large_changes_come_into_force_at_once_and_are_charged(registered: Any, clock: Any) -> None:
    now = period_at(clock.now // 1000)
    silent = [named(topic, {now: key(1)}, silent=True) for topic in topics(150)]
    assert metadata(registered, *silent).status == 200
    assert all(one == TopicCondition({now: key(1)}, silent=True) for one in topics_of(registered).values())
    assert metadata(registered, *(named(topic, {now + 1: key(2)}) for topic in topics(150))).status == 200
    both = TopicCondition({now: key(1), now + 1: key(2)})
    assert topics_of(registered) == dict.fromkeys(topics(150), both)
    limited(registered, rules_per_minute=1, rules_per_subscription=10_000)
    reply = registered("Unsubscribe", {"topics": topics(150)})
    assert (reply.status, reply.code) == (429, "resource_exhausted")
    assert len(topics_of(registered)) == 150


def test_the_token_of_an_installation_is_found_by_it_alone(registered: Any) -> None:
    held = [token for token in Token.scan() if token.subscription_id == sid_of(registered)]
    assert [(token.holder, token.client_id) for token in held] == [(XMTP, registered.client_id)]
    registered("DeleteInstallation")
    assert not [token for token in Token.scan() if token.subscription_id == sid_of(registered)]
