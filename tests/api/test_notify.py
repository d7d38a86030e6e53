import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from api.worker import ApiWorker
from clarion.tables import Subscription
from local.apns_trouble import troubled_token
from local.provider import InjectedFault
from tests.api.proving import new_token

BUNDLE = "io.pcf.polkadotapp"
PUSH_ID = "0f" * 16
MESSAGE = "0xc0ffee"
ANDROID = "dQ:APA91bH_" + "x" * 60


@pytest.fixture
def caller(new_client: Callable[[], Any], pushing: Callable[..., ApiWorker]) -> Any:
    client = new_client()
    client.worker = pushing(pushes_per_minute=3)
    return client


def push(caller: Any, token: str, **more: Any) -> Any:
    return caller("POST", "/v1/notify", {"deviceToken": token, "pushId": PUSH_ID, "message": MESSAGE} | more)


def test_an_iphone_gets_the_alert_that_it_knows(caller: Any, providers: Any) -> None:
    token = new_token()
    answer = push(caller, token)
    assert answer.status == 200
    answered = answer.json
    assert (answered["success"], answered["platform"], answered["sent"], answered["failed"]) == (True, "ios", 1, 0)
    received = providers.production.received.since(0)[-1]
    assert received.token == token
    assert received.payload == {
        "aps": {"alert": {"title": "Polkadot App"}, "mutable-content": 1},
        "pushId": PUSH_ID,
        "message": MESSAGE,
    }
    assert received.headers["apns-topic"] == BUNDLE


@pytest.mark.parametrize("text", ["\ud800", "x" * 10_000])
@pytest.mark.parametrize("name", ["deviceToken", "pushId", "message", "bundlerId", "platform", "voip"])
def test_text_that_no_push_could_carry_is_refused_by_its_field(caller: Any, name: str, text: str) -> None:
    answer = push(caller, **{"token": new_token(), name: text})
    assert answer.status == 400
    assert [error["field"] for error in answer.json["errors"]] == [name]


@pytest.mark.parametrize("title", ["\ud800", "x" * 5_000, {"\ud800": 1}])
def test_the_title_of_a_direct_push_is_the_deployments(caller: Any, providers: Any, title: Any) -> None:
    assert push(caller, new_token(), title=title).json["success"]
    received = providers.production.received.since(0)[-1]
    assert received.payload["aps"]["alert"] == {"title": "Polkadot App"}


def test_a_call_has_no_alert(caller: Any, providers: Any) -> None:
    assert push(caller, new_token(), voip=True).json["success"]
    received = providers.production.received.since(0)[-1]
    assert received.payload["aps"] == {}
    assert received.headers["apns-topic"] == f"{BUNDLE}.voip"
    assert received.headers["apns-push-type"] == "voip"


def test_apple_keeps_an_alert_for_four_weeks_and_never_a_call(caller: Any, providers: Any) -> None:
    now = time.time()
    for voip, kept in [(False, now + 28 * 24 * 3600), (True, 0)]:
        push(caller, new_token(), voip=voip)
        expiration = int(providers.production.received.since(0)[-1].headers["apns-expiration"])
        assert abs(expiration - kept) < 60


@pytest.mark.parametrize(("voip", "ttl"), [(True, "60s"), (False, "2419200s")])
def test_an_android_phone_gets_the_data_that_it_knows(caller: Any, providers: Any, voip: Any, ttl: str) -> None:
    answered = push(caller, ANDROID, voip=voip).json
    received = providers.fcm.received.since(0)[-1]
    assert (answered["success"], answered["platform"], answered["messageId"]) == (True, "android", received.push_id)
    message = received.payload["message"]
    assert message["data"] == {"pushType": "chat", "pushId": PUSH_ID, "message": MESSAGE}
    assert (message["android"]["priority"].lower(), message["android"]["ttl"]) == ("high", ttl)


def test_a_token_of_apples_other_environment_is_tried_there(caller: Any, providers: Any) -> None:
    before = providers.sandbox.received.count
    answer = push(caller, troubled_token(InjectedFault(failure="BadDeviceToken")))
    reasons = [received.reason for received in providers.sandbox.received.since(before)]
    assert reasons.count("BadDeviceToken") == 1
    answered = answer.json
    assert (answer.status, answered["success"], answered["failed"]) == (200, False, 1)
    assert [error["environment"] for error in answered["errors"]] == ["production", "development"]
    assert answered["errors"][0]["status"] == 400
    assert answered["errors"][0]["response"] == {"reason": "BadDeviceToken"}


def test_a_refusal_of_firebase_is_passed_on_as_it_is(caller: Any) -> None:
    token = "UNREGISTERED-" + "x" * 60
    answered = push(caller, token).json
    assert answered["errors"] == [{"device": token, "status": 404, "response": {"reason": "UNREGISTERED"}}]


@pytest.mark.parametrize("bundle", [{"bundlerId": "com.evil"}, {}])
def test_only_our_own_app_can_be_set_up_wrongly(caller: Any, bundle: dict[str, str]) -> None:
    answer = push(caller, troubled_token(InjectedFault(failure="TopicDisallowed")), **bundle)
    if bundle:
        assert (answer.status, answer.json["errors"][0]["response"]) == (200, {"reason": "TopicDisallowed"})
    else:
        assert (answer.status, answer.json["type"]) == (503, "urn:clarion:problem:unavailable")


def test_a_call_may_be_left_open(caller: Any) -> None:
    assert push(caller, ANDROID, voip=None).json["success"]


def test_a_provider_that_finds_a_token_dead_changes_no_subscription(
    caller: Any, new_client: Callable[[], Any], register: Callable[..., str]
) -> None:
    token = troubled_token(InjectedFault(failure="Unregistered"), device=77)
    sid = register(new_client(), notificationType="apns", token=token)
    assert not push(caller, token).json["success"]
    assert Subscription.get(sid).status == "active"


def test_a_client_has_only_so_many_pushes_a_minute(caller: Any) -> None:
    at = caller.worker.now()
    caller.worker = replace(caller.worker, now=lambda: at)
    statuses = [push(caller, ANDROID).status for _ in range(4)]
    assert statuses == [200, 200, 200, 429]


def test_a_token_is_pushed_to_only_so_often_a_minute_whoever_pushes(
    new_client: Callable[[], Any], pushing: Callable[..., ApiWorker]
) -> None:
    base = pushing(pushes_per_token_per_minute=2)
    worker = replace(base, now=lambda: 60_000 * 29_000_000 + 45_000)
    token = new_token()
    answers = []
    for device in (token, token.upper(), token, new_token()):
        client = new_client()
        client.worker = worker
        answers.append(push(client, device))
    assert [answer.status for answer in answers] == [200, 200, 429, 200]
    refused = answers[2]
    assert (refused.json["type"], refused.headers["Retry-After"]) == ("urn:clarion:problem:too-many-requests", "15")
    assert token not in refused.text


def test_direct_push_can_be_switched_off(client: Any) -> None:
    answer = push(client, ANDROID)
    assert (answer.status, answer.json["type"]) == (403, "urn:clarion:problem:direct-push-off")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"deviceToken": "short"}, "deviceToken"),
        ({"deviceToken": "a" * 327}, "deviceToken"),
        ({"deviceToken": "ab" * 31 + "/."}, "deviceToken"),
        ({"platform": "ios", "deviceToken": "ab" * 31 + "/3"}, "body"),
        ({"pushId": "0f" * 15}, "pushId"),
        ({"platform": "windows"}, "platform"),
        ({"bundlerId": "a\r\nb"}, "bundlerId"),
        ({"message": "hello"}, "message"),
        ({"message": "00" * 4097}, "message"),
        ({"voip": "perhaps"}, "voip"),
        ({"voip": 0}, "voip"),
    ],
)
def test_a_bad_push_is_a_bad_request(caller: Any, changes: dict[str, str], field: str) -> None:
    answer = push(caller, **({"token": ANDROID} | changes))
    assert (answer.status, answer.json["type"]) == (400, "urn:clarion:problem:bad-request")
    assert answer.json["errors"][0]["field"] == field


def test_the_payload_that_a_provider_finds_too_large_is_its_refusal(caller: Any) -> None:
    answered = push(caller, new_token(), message="00" * 4096).json
    assert answered["errors"][0]["status"] == 413
    assert answered["errors"][0]["response"] == {"reason": "PayloadTooLarge"}
