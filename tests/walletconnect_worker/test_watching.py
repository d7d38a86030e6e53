"""Wallets watch an account's subscriptions, and are told what others change."""

import boto3
import pytest

from clarion.networks.walletconnect.envelope import topic_of
from clarion.networks.walletconnect.needs import REQUESTS_REFUSED
from clarion.networks.walletconnect.server_keys import ServerKeys
from clarion.networks.walletconnect.topics import TopicKind, followed
from clarion.networks.walletconnect.watchers import PLACES, Watcher, watchers_of
from tests.walletconnect_worker import stage as stage_of_keys
from tests.walletconnect_worker.stage import (
    ALL_APPS,
    APP,
    FIRST_TYPE,
    NOW,
    OTHER_APP,
    SECOND_TYPE,
    Phone,
    Stage,
    claims_of,
    opened,
)
from walletconnect import watch_requests

ALL = None
DAY = 86_400
RESPONSE, CHANGED = "notify_watch_subscriptions_response", "notify_subscriptions_changed"


def second_phone(stage: Stage, of: Phone) -> Phone:
    """Of the same account, with an identity key of its own."""
    phone = Phone(clock=stage.clock, wallet=of.wallet.with_identity_key(b"2" * 32))
    stage.key_servers.register(
        phone.wallet, statement=stage.key_servers.known[of.wallet.identity_public_key]["p"]["statement"]
    )
    return phone


def test_a_watcher_is_shown_all_subscriptions(stage: Stage) -> None:
    phone = stage.subscribed()
    stage.subscribed(app=OTHER_APP)
    [answer] = stage.handle(phone.watch(app=ALL))
    claims = claims_of(answer, phone.watch_key(), phone, RESPONSE)
    assert (answer.tag, answer.ttl, answer.topic) == (4011, 300, topic_of(phone.watch_key()))
    assert [one["appDomain"] for one in claims["sbs"]] == [APP, OTHER_APP]
    assert claims["sub"] == phone.wallet.subject


def test_who_watches_one_app_is_shown_that_one(stage: Stage) -> None:
    phone = stage.subscribed()
    stage.subscribed(app=OTHER_APP)
    [answer] = stage.handle(phone.watch())
    listed = claims_of(answer, phone.watch_key(), phone, RESPONSE)["sbs"]
    assert [one["appDomain"] for one in listed] == [APP]


def test_a_watcher_is_told_what_another_phone_changes(stage: Stage) -> None:
    phone = stage.phone()
    other = second_phone(stage, phone)
    stage.handle(other.watch(app=ALL))
    _, changed = stage.handle(phone.subscribe(FIRST_TYPE))
    claims = claims_of(changed, other.watch_key(), other, CHANGED)
    assert (changed.tag, changed.ttl, changed.topic) == (4012, 300, topic_of(other.watch_key()))
    assert opened(changed, other.watch_key())["method"] == "wc_notifySubscriptionsChanged"
    assert [one["scope"] for one in claims["sbs"]] == [[FIRST_TYPE]]


def test_others_are_told_once_the_wallet_has_its_answer(stage: Stage) -> None:
    """A client that has heard of its subscription's end no longer reads the answer."""
    phone = stage.phone()
    other = second_phone(stage, phone)
    stage.handle(other.watch(app=ALL))
    stage.relay.failing_topics = {topic_of(phone.response_key())}
    command = stage.record(phone.subscribe())
    before = len(stage.relay.published)
    assert len(stage.worker.handle([command])) == 1
    assert stage.relay.published[before:] == []
    stage.relay.failing_topics = set()
    stage.worker.handle([command])
    assert [one.tag for one in stage.relay.published[before:]] == [4001, 4012]


def test_nobody_is_told_what_it_has_changed_itself(stage: Stage) -> None:
    phone = stage.phone()
    stage.handle(phone.watch(app=ALL))
    assert [one.tag for one in stage.handle(phone.subscribe())] == [4001]


def test_wallets_of_the_first_version_are_told_of_their_own_changes(stage: Stage) -> None:
    phone = stage.phone()
    stage.handle(phone.watch(app=ALL))
    assert [one.tag for one in stage.handle(phone.subscribe(mjv="0"))] == [4001, 4012]


@pytest.mark.parametrize(("app", "told"), [(APP, True), (OTHER_APP, False), (ALL, True)])
def test_a_watcher_of_an_app_is_told_of_that_one(stage: Stage, app: str | None, told: bool) -> None:
    phone = stage.phone()
    other = second_phone(stage, phone)
    stage.handle(other.watch(app=f"did:web:{app}" if app else None))
    assert (4012 in [one.tag for one in stage.handle(phone.subscribe())]) is told


def test_who_watches_all_apps_is_answered_with_all_of_them(stage: Stage) -> None:
    phone = stage.subscribed(app=OTHER_APP)
    stage.handle(phone.watch(app=ALL))
    first = Phone(clock=stage.clock, wallet=phone.wallet)
    [answer] = stage.handle(first.subscribe())
    listed = claims_of(answer, first.response_key(), first, "notify_subscription_response")["sbs"]
    assert [one["appDomain"] for one in listed] == [APP, OTHER_APP]


def test_nobody_watches_for_longer_than_a_day(stage: Stage) -> None:
    phone = stage.phone()
    other = second_phone(stage, phone)
    stage.handle(other.watch(app=ALL))
    stage.clock.now += DAY
    assert [one.tag for one in stage.handle(phone.subscribe())] == [4001]


def test_a_wallet_watches_what_it_asked_for_last(stage: Stage) -> None:
    phone = stage.phone()
    stage.handle(phone.watch(app=ALL))
    stage.handle(phone.watch())
    assert [row.app for row in watchers_of(phone.wallet.account, NOW)] == [APP]


@pytest.mark.parametrize("first", [APP, ALL])
def test_an_older_request_does_not_replace_what_a_wallet_watches(stage: Stage, first: str | None) -> None:
    """It came late, or is shown again by whoever carries it."""
    phone = stage.phone()
    older = phone.watch(app=first and f"did:web:{first}")
    stage.clock.now += 1
    assert len(stage.handle(phone.watch(app=ALL))) == 1
    stage.clock.now += 1
    [answer] = stage.handle(older)
    assert "result" in opened(answer, phone.watch_key())
    assert [(row.app, row.iat) for row in watchers_of(phone.wallet.account, NOW)] == [("*", NOW + 1)]


def test_a_request_that_is_overtaken_while_it_is_handled_replaces_nothing(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has read what was watched before the younger one was saved."""
    phone = stage.phone()
    older = phone.watch(app=ALL)
    stage.clock.now += 1
    assert len(stage.handle(phone.watch(app=ALL))) == 1
    readings = iter([list[Watcher]()])
    monkeypatch.setattr(watch_requests, "watchers_of", lambda *args: next(readings, None) or watchers_of(*args))
    assert len(stage.handle(older)) == 1
    assert [row.iat for row in watchers_of(phone.wallet.account, NOW)] == [NOW + 1]


def test_a_wallet_that_has_another_identity_key_watches_once(stage: Stage) -> None:
    """Its topic is the same, and so it would be told twice."""
    phone = stage.phone()
    stage.handle(phone.watch(app=ALL))
    again = second_phone(stage, phone)
    again.private = phone.private
    stage.handle(again.watch(app=ALL))
    assert [row.identity_key for row in watchers_of(phone.wallet.account, NOW)] == [again.wallet.key_did]
    assert [one.tag for one in stage.handle(again.subscribe())] == [4001]


def test_nobody_watches_for_longer_than_its_key_may_sign(stage: Stage) -> None:
    phone = stage.phone()
    stage.key_servers.register(phone.wallet, statement=ALL_APPS, exp="2027-01-15T08:01:00Z")
    stage.handle(phone.watch(app=ALL))
    assert [row.ttl for row in watchers_of(phone.wallet.account, NOW)] == [NOW + 60]


def test_an_account_has_so_many_watchers_and_no_more(stage: Stage) -> None:
    phone = stage.phone()
    for place in PLACES:
        key = f"did:key:{place}"
        Watcher(
            phone.wallet.account.lower(), place, response_key=b"k" * 32, identity_key=key, app="*", ttl=NOW + 1
        ).save()
    [refused] = stage.handle(phone.watch(app=ALL))
    assert opened(refused, phone.watch_key())["error"] == {"code": -1, "message": "too_many_watchers"}
    stage.clock.now += 1
    [answer] = stage.handle(phone.watch(app=ALL))
    assert "result" in opened(answer, phone.watch_key())


def test_an_app_that_nobody_has_cannot_be_watched(stage: Stage) -> None:
    phone = stage.phone()
    [refused] = stage.handle(phone.watch(app="did:web:nobody.example.com"))
    assert opened(refused, phone.watch_key())["error"]["message"] == "unknown_app"


def test_a_key_for_one_app_does_not_watch_all(stage: Stage) -> None:
    phone = stage.phone()
    stage.key_servers.register(phone.wallet)
    [refused] = stage.handle(phone.watch(app=ALL))
    assert opened(refused, phone.watch_key())["error"]["message"] == "app_not_allowed"
    stage.clock.now += 1
    [answer] = stage.handle(phone.watch())
    assert "result" in opened(answer, phone.watch_key())


def test_a_wallet_watches_by_new_keys_at_once_and_by_the_former_ones_no_longer(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker still remembers the former ones when the first message to the new ones comes."""
    phone, former = stage.phone(), stage_of_keys.KEYS
    stage.handle(phone.watch(app=ALL))
    new = ServerKeys.generate()
    boto3.client("secretsmanager").put_secret_value(SecretId="walletconnect-server", SecretString=new.text)
    followed(new.watch_topic, TopicKind.SERVER, "", 0).save()
    followed(former.watch_topic, TopicKind.SERVER, "", 0).save()
    late = phone.watch(app=ALL)
    monkeypatch.setattr(stage_of_keys, "KEYS", new)
    stage.clock.now += 1
    [answer] = stage.handle(phone.watch(app=ALL))
    assert "result" in opened(answer, phone.watch_key())
    assert stage.handle(late) == []
    assert stage.worker.outbox.counts[REQUESTS_REFUSED] == 1


def test_others_are_told_of_an_update_and_of_a_delete(stage: Stage) -> None:
    phone = stage.subscribed()
    other = second_phone(stage, phone)
    stage.handle(other.watch(app=ALL))
    for command, scopes in ((phone.update(SECOND_TYPE), [[SECOND_TYPE]]), (phone.delete(), [])):
        _, changed = stage.handle(command)
        listed = claims_of(changed, other.watch_key(), other, CHANGED)["sbs"]
        assert [one["scope"] for one in listed] == scopes
