"""What is not served, and whether whoever asked is told."""

from collections.abc import Callable

import pytest

from clarion.networks.walletconnect.buckets import LISTS_OF_ACCOUNT, SUBSCRIBE_OF_CLIENT, UPDATE_OF_TOPIC, take
from clarion.networks.walletconnect.envelope import seal, topic_of
from clarion.networks.walletconnect.subscriptions import find_notify_subscription
from clarion.networks.walletconnect.tags import NOOP
from tests.walletconnect_worker.stage import (
    APP,
    FIRST_TYPE,
    NOW,
    OTHER_APP,
    SECOND_TYPE,
    Phone,
    Stage,
    keys_of,
    opened,
)

type Forge = Callable[[Stage, Phone], str]
"""A token for a subscription that is not to be had."""

FORGERIES: dict[str, tuple[Forge, str]] = {
    "for another audience": (
        lambda _, phone: phone.token("notify_subscription", scp="", aud=phone.wallet.key_did),
        "invalid_token: wrong_aud",
    ),
    "for another app": (
        lambda _, phone: phone.token("notify_subscription", scp="", app=f"did:web:{OTHER_APP}"),
        "invalid_token: wrong_app",
    ),
    "for another act": (lambda _, phone: phone.token("notify_update", scp=""), "invalid_token: wrong_act"),
    "from the future": (
        lambda _, phone: phone.token("notify_subscription", scp="", now=NOW + 61),
        "invalid_token: not_yet_valid",
    ),
    "changed": (
        lambda _, phone: phone.token("notify_subscription", scp="")[:-4] + "AAAA",
        "invalid_token: bad_signature",
    ),
    "no token": (lambda _stage, _phone: "a.b.c", "invalid_token: malformed"),
    "with types that are none": (
        lambda _, phone: phone.token("notify_subscription", scp="news offers"),
        "invalid_scope",
    ),
    "with too many types": (
        lambda _, phone: phone.token(
            "notify_subscription", scp=" ".join(f"{number:08x}{FIRST_TYPE[8:]}" for number in range(101))
        ),
        "invalid_scope",
    ),
    "by a key server that is not on the list": (
        lambda _, phone: phone.token("notify_subscription", scp="", ksu="https://keys.evil.example.com"),
        "unknown_key_server",
    ),
    "by an unregistered key": (
        lambda _, phone: Phone(clock=phone.clock, wallet=phone.wallet.with_identity_key(b"u" * 32)).token(
            "notify_subscription", scp=""
        ),
        "unknown_identity",
    ),
    "for another account": (
        lambda stage, phone: phone.token("notify_subscription", scp="", sub=stage.phone(b"o" * 32).wallet.subject),
        "invalid_identity: CacaoAccountMismatch",
    ),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_wallet_is_told_why_it_is_refused(stage: Stage, name: str) -> None:
    forge, text = FORGERIES[name]
    phone = stage.phone()
    command = phone.first("notify_subscription", "subscriptionAuth", forge(stage, phone), keys_of(APP).subscribe)
    [answer] = stage.handle(command)
    assert (answer.tag, answer.topic) == (4001, topic_of(phone.response_key()))
    assert opened(answer, phone.response_key())["error"] == {"code": -1, "message": text}
    assert find_notify_subscription(APP, phone.wallet.account) is None


def test_a_key_for_another_app_is_refused(stage: Stage) -> None:
    phone = stage.phone()
    stage.key_servers.register(phone.wallet, domain=OTHER_APP)
    [answer] = stage.handle(phone.subscribe())
    assert opened(answer, phone.response_key())["error"]["message"] == "app_not_allowed"


def test_a_key_for_this_app_is_enough(stage: Stage) -> None:
    phone = stage.phone()
    stage.key_servers.register(phone.wallet, domain=APP)
    stage.handle(phone.subscribe())
    assert stage.row(phone).is_active


def test_nobody_hears_of_what_came_on_a_topic_that_is_nobody_s(stage: Stage) -> None:
    phone = stage.phone(sym_key=b"k" * 32)
    assert stage.handle(phone.update()) == []


def test_a_request_is_served_where_it_belongs_alone(stage: Stage) -> None:
    phone = stage.subscribed()
    token = phone.token("notify_subscription", scp="")
    assert stage.handle(phone.later("notify_subscription", "subscriptionAuth", token)) == []


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b'{"id": 1, "params": {}}', b'{"id": true, "params": {"updateAuth": ""}}']
)
def test_what_is_no_request_is_not_answered(stage: Stage, content: bytes) -> None:
    phone = stage.subscribed()
    command = phone.update().model_copy(update={"message": seal(content, phone.sym_key)})
    assert [one for one in stage.handle(command) if "result" in opened(one, phone.sym_key)] == []


@pytest.mark.parametrize("message", ["", "no base64", "AAAA", "AQ=="])
def test_what_cannot_be_opened_is_not_answered(stage: Stage, message: str) -> None:
    phone = stage.phone()
    assert stage.handle(phone.subscribe().model_copy(update={"message": message})) == []
    assert stage.handle(stage.subscribed().update().model_copy(update={"message": message})) == []


def test_a_message_that_only_keeps_the_mailbox_is_passed_over(stage: Stage) -> None:
    phone = stage.subscribed()
    assert stage.handle(phone.update().model_copy(update={"tag": NOOP})) == []


def test_a_topic_has_so_many_requests_and_no_more(stage: Stage) -> None:
    phone = stage.subscribed()
    assert take(UPDATE_OF_TOPIC, topic_of(phone.sym_key), stage.clock.ms, UPDATE_OF_TOPIC.most)
    assert stage.handle(phone.update(FIRST_TYPE)) == []
    assert stage.row(phone).types == {FIRST_TYPE, SECOND_TYPE}


def test_an_account_has_so_many_requests_that_list_its_subscriptions_and_no_more(stage: Stage) -> None:
    """Whoever signs for it, and whatever agreement keys it makes up."""
    phone = stage.subscribed()
    assert take(LISTS_OF_ACCOUNT, phone.wallet.account.lower(), stage.clock.ms, LISTS_OF_ACCOUNT.most - 2)
    assert len(stage.handle(phone.watch(app=None))) == 1
    again = Phone(clock=stage.clock, wallet=phone.wallet)
    assert stage.handle(again.watch(app=None, nonce="another"), phone.update(FIRST_TYPE)) == []
    stage.clock.now += 10
    assert len(stage.handle(phone.update(FIRST_TYPE))) == 1


def test_who_leaves_is_never_refused_for_too_many_requests(stage: Stage) -> None:
    phone = stage.subscribed()
    assert take(UPDATE_OF_TOPIC, topic_of(phone.sym_key), stage.clock.ms, UPDATE_OF_TOPIC.most)
    assert len(stage.handle(phone.delete())) == 1
    assert not stage.row(phone).is_active


def test_what_is_not_authentic_takes_none_of_the_topic_s_requests(stage: Stage) -> None:
    phone = stage.subscribed()
    assert take(UPDATE_OF_TOPIC, topic_of(phone.sym_key), stage.clock.ms, UPDATE_OF_TOPIC.most - 1)
    assert len(stage.handle(phone.later("notify_update", "updateAuth", "a.b.c"))) == 1
    stage.handle(phone.update(FIRST_TYPE))
    assert stage.row(phone).types == {FIRST_TYPE}


def test_a_request_that_fails_takes_its_tokens_once(stage: Stage) -> None:
    phone = stage.phone()
    sender, command = phone.private.public_key().public_bytes_raw().hex(), phone.subscribe()
    assert take(SUBSCRIBE_OF_CLIENT, sender, stage.clock.ms, SUBSCRIBE_OF_CLIENT.most - 1)
    stage.relay.failing = 1
    assert len(stage.worker.handle([stage.record(command)])) == 1
    assert len(stage.handle(command, receives=2)) == 1


def test_a_request_that_comes_again_is_answered_though_its_topic_has_no_more(stage: Stage) -> None:
    phone = stage.subscribed()
    command = phone.update(FIRST_TYPE)
    answers = stage.handle(command)
    assert take(UPDATE_OF_TOPIC, topic_of(phone.sym_key), stage.clock.ms, UPDATE_OF_TOPIC.most - 1)
    assert stage.handle(command) == answers != []


def test_a_sender_s_requests_are_counted_before_they_are_authentic(stage: Stage) -> None:
    """Nobody makes us ask key servers without end."""
    phone = stage.phone()
    sender = phone.private.public_key().public_bytes_raw().hex()
    assert take(SUBSCRIBE_OF_CLIENT, sender, stage.clock.ms, SUBSCRIBE_OF_CLIENT.most)
    assert stage.handle(phone.subscribe()) == []
    assert stage.key_servers.requests == []


def test_nothing_of_a_request_is_logged(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    phone = stage.subscribed(profile="document")
    stage.handle(
        phone.delete(sub="because of my ex-husband"), stage.phone().subscribe(ksu="https://secret.example.com")
    )
    logged = " ".join(str(vars(record)) for record in caplog.records)
    assert "unknown_key_server" in logged
    assert not any(word in logged for word in ("husband", "secret", "eyJ", phone.wallet.account))
