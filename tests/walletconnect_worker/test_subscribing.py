"""Wallets subscribe, update and delete, by both protocols."""

import pytest

from clarion.clock import now_ms
from clarion.networks.walletconnect.envelope import agreed_key, topic_of
from clarion.networks.walletconnect.jwt import subscription_hash
from clarion.networks.walletconnect.projects import Project
from clarion.networks.walletconnect.subscriptions import find_notify_subscription
from clarion.networks.walletconnect.topics import find_topic
from clarion.networks.walletconnect.watchers import subscribed_app
from tests.walletconnect_worker.stage import (
    APP,
    FIRST_TYPE,
    NOW,
    OTHER_APP,
    PROJECT,
    SECOND_TYPE,
    Stage,
    claims_of,
    keys_of,
    opened,
    x25519_of,
)

DAY = 86_400
SAME = b"w" * 32
"""The wallet of who names none."""


def test_a_subscriber_is_answered_with_the_subscription_and_its_key(stage: Stage) -> None:
    phone = stage.phone()
    [answer] = stage.handle(phone.subscribe(SECOND_TYPE, FIRST_TYPE))
    claims = claims_of(answer, phone.response_key(), phone, "notify_subscription_response")
    row = stage.row(phone)
    assert (answer.tag, answer.ttl, answer.prompt) == (4001, 30 * DAY, False)
    assert claims["sbs"] == [
        {
            "appDomain": APP,
            "appAuthenticationKey": claims["iss"],
            "symKey": row.sym_key.hex(),
            "account": phone.wallet.account,
            "scope": [SECOND_TYPE, FIRST_TYPE],
            "expiry": NOW + 30 * DAY,
            "unreadNotificationCount": 0,
        }
    ]
    assert (claims["sub"], claims["app"], claims["mjv"]) == (phone.wallet.subject, f"did:web:{APP}", "1")


def test_the_relay_is_followed_on_the_topic_of_a_subscription(stage: Stage) -> None:
    phone = stage.subscribed()
    topic = find_topic(topic_of(phone.sym_key))
    assert topic is not None
    assert (topic.kind, topic.ref) == ("subscription", f"{APP} {phone.wallet.account.lower()}")


def test_a_document_s_wallet_computes_the_key_from_the_answer(stage: Stage) -> None:
    phone = stage.phone(profile="document")
    [answer] = stage.handle(phone.subscribe())
    claims = claims_of(answer, phone.response_key(), phone, "notify_subscription_response")
    assert agreed_key(phone.private, x25519_of(claims["sub"])) == stage.row(phone).sym_key


def test_a_second_subscription_keeps_the_key_of_the_first(stage: Stage) -> None:
    """Other phones of the account have it."""
    first = stage.subscribed()
    second = stage.subscribed(SAME, FIRST_TYPE)
    assert second.sym_key == first.sym_key
    assert stage.row(second).types == {FIRST_TYPE}


def test_an_update_replaces_the_scope(stage: Stage) -> None:
    phone = stage.subscribed()
    [answer] = stage.handle(phone.update(SECOND_TYPE))
    claims = claims_of(answer, phone.sym_key, phone, "notify_update_response")
    assert answer.topic == topic_of(phone.sym_key)
    assert [one["scope"] for one in claims["sbs"]] == [[SECOND_TYPE]]
    assert stage.row(phone).types == {SECOND_TYPE}


def test_a_document_s_update_is_answered_with_the_hash_of_its_token(stage: Stage) -> None:
    phone = stage.subscribed(profile="document")
    command = phone.update(SECOND_TYPE)
    [answer] = stage.handle(command)
    token = phone.token("notify_update", scp=SECOND_TYPE)
    assert claims_of(answer, phone.sym_key, phone, "notify_update_response")["sub"] == subscription_hash(token)


def test_an_empty_scope_is_one(stage: Stage) -> None:
    phone = stage.subscribed()
    stage.handle(phone.update())
    assert stage.row(phone).types == frozenset()


def test_what_is_deleted_is_no_longer_followed_or_listed(stage: Stage) -> None:
    phone = stage.subscribed()
    [answer] = stage.handle(phone.delete())
    assert claims_of(answer, phone.sym_key, phone, "notify_delete_response")["sbs"] == []
    assert not stage.row(phone).is_active
    assert find_topic(topic_of(phone.sym_key)) is None


def test_a_document_s_delete_says_why_and_is_answered_with_the_subscription_s_hash(stage: Stage) -> None:
    phone = stage.subscribed(profile="document")
    before = stage.row(phone).hash
    [answer] = stage.handle(phone.delete(sub="too loud " * 1000))
    assert claims_of(answer, phone.sym_key, phone, "notify_delete_response")["sub"] == before
    assert (stage.row(phone).end_reason or "").startswith("too loud")
    assert len(stage.row(phone).end_reason or "") == 200


def test_who_subscribes_again_gets_another_key(stage: Stage) -> None:
    phone = stage.subscribed()
    stage.handle(phone.delete())
    stage.clock.now += 1
    again = stage.subscribed()
    assert again.sym_key != phone.sym_key
    assert stage.row(again).is_active


def test_what_is_deleted_expires_unless_its_wallet_subscribes_again(stage: Stage) -> None:
    phone = stage.subscribed()
    assert stage.row(phone).ttl is None
    stage.handle(phone.delete())
    assert stage.row(phone).ttl == NOW + 30 * DAY
    stage.clock.now += 1
    stage.subscribed()
    assert stage.row(phone).ttl is None


def test_a_subscription_is_of_one_app(stage: Stage) -> None:
    phone = stage.subscribed()
    other = stage.subscribed(app=OTHER_APP)
    assert phone.sym_key != other.sym_key
    [answer] = stage.handle(phone.update(FIRST_TYPE))
    listed = claims_of(answer, phone.sym_key, phone, "notify_update_response")["sbs"]
    assert [one["appDomain"] for one in listed] == [APP]


def test_what_is_older_than_the_last_change_does_nothing(stage: Stage) -> None:
    phone = stage.subscribed()
    stage.clock.now += 10
    stage.handle(phone.update(FIRST_TYPE))
    late = phone.update(SECOND_TYPE, now=stage.clock.now - 1)
    assert stage.handle(late) == []
    assert stage.row(phone).types == {FIRST_TYPE}


def test_an_older_subscription_does_not_undo_a_delete(stage: Stage) -> None:
    phone = stage.subscribed()
    older = phone.subscribe()
    stage.clock.now += 1
    stage.handle(phone.delete())
    assert stage.handle(older) == []
    assert not stage.row(phone).is_active


def test_two_changes_of_one_second_both_count(stage: Stage) -> None:
    phone = stage.subscribed()
    stage.handle(phone.update(FIRST_TYPE))
    stage.handle(phone.delete())
    assert not stage.row(phone).is_active


def test_a_replayed_message_does_not_undo_a_delete_of_the_same_second(stage: Stage) -> None:
    phone = stage.phone()
    subscribe = phone.subscribe()
    stage.handle(subscribe)
    phone.sym_key = stage.row(phone).sym_key
    stage.handle(phone.delete())
    stage.handle(subscribe)
    assert not stage.row(phone).is_active


def test_a_token_in_another_envelope_does_nothing(stage: Stage) -> None:
    phone = stage.subscribed()
    token = phone.token("notify_update", scp=FIRST_TYPE)
    first, second = (phone.later("notify_update", "updateAuth", token) for _ in range(2))
    assert len(stage.handle(first)) == 1
    assert stage.handle(second) == []


def test_a_command_that_comes_again_is_answered_with_the_same_bytes(stage: Stage) -> None:
    phone = stage.phone()
    command = phone.subscribe()
    record = stage.record(command)
    stage.worker.handle([record])
    stage.worker.handle([record])
    first, second = stage.relay.published
    assert first == second


def test_nobody_has_subscribed_by_a_forged_token(stage: Stage) -> None:
    phone, forger = stage.phone(), stage.phone(b"f" * 32)
    command = phone.subscribe()
    token = phone.token("notify_subscription", key=forger.wallet.identity_key, scp=FIRST_TYPE)
    forged = phone.first("notify_subscription", "subscriptionAuth", token, keys_of(APP).subscribe)
    assert command.topic == forged.topic
    [answer] = stage.handle(forged)
    assert opened(answer, phone.response_key())["error"]["message"] == "invalid_identity: CacaoAccountMismatch"
    assert find_notify_subscription(APP, phone.wallet.account) is None


def test_an_expired_token_is_as_if_never_received(stage: Stage) -> None:
    phone = stage.phone()
    assert stage.handle(phone.subscribe(now=NOW - 300)) == []
    assert find_notify_subscription(APP, phone.wallet.account) is None


def test_a_token_is_judged_by_when_it_came_however_late_it_is_handled(stage: Stage) -> None:
    phone = stage.phone(profile="document")
    record = stage.record(phone.subscribe())
    stage.clock.now += 3600
    assert stage.worker.handle([record]) == []
    assert stage.row(phone).is_active


def test_its_topic_is_added_when_it_is_written_however_late_that_is(stage: Stage) -> None:
    """Ingest reads what was added within the last minute."""
    before = now_ms()
    phone = stage.subscribed()
    topic = find_topic(topic_of(phone.sym_key))
    assert topic is not None
    assert before <= topic.added_at <= now_ms()


def test_a_document_s_wallet_names_types_by_their_names_too(stage: Stage) -> None:
    types = {FIRST_TYPE: {"name": "Promotions", "description": "", "image_url": ""}}
    Project(PROJECT).update([Project.types.set(types)])
    phone = stage.subscribed(b"w" * 32, "Promotions", SECOND_TYPE, profile="document")
    assert stage.row(phone).types == {FIRST_TYPE, SECOND_TYPE}


def test_a_document_s_wallet_is_refused_a_type_that_there_is_not(stage: Stage) -> None:
    phone = stage.phone(profile="document")
    [refused] = stage.handle(phone.subscribe("news"))
    assert opened(refused, phone.response_key())["error"]["message"] == "invalid_scope"


def test_an_account_has_so_many_subscriptions_and_no_more(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("walletconnect.subscription_changes.MAX_APPS", 3)
    phone = stage.phone()
    for number in range(3):
        subscribed_app(phone.wallet.account, f"{number}.example.com").save()
    [refused] = stage.handle(phone.subscribe())
    assert opened(refused, phone.response_key())["error"]["message"] == "too_many_subscriptions"
    subscribed_app(phone.wallet.account, "0.example.com").delete()
    stage.clock.now += 1
    [answer] = stage.handle(phone.subscribe())
    assert "result" in opened(answer, phone.response_key())
