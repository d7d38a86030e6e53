import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from uuid import uuid4

import boto3
import pytest

from api.direct import DirectPush
from api.room import Room
from api.settings import DirectPushSettings
from clarion.tables import Subscription
from local import keys, tls
from local.apns import Apns
from local.apns_trouble import troubled_token
from local.fcm import Fcm
from local.provider import StandIn, Trouble

BUNDLE = "io.pcf.polkadotapp"
PUSH_ID = "0f" * 16
MESSAGE = "0xc0ffee"
ANDROID = "dQ:APA91bH_" + "x" * 60


@contextmanager
def running[Server: StandIn](server: Server) -> Iterator[Server]:
    """In a thread of its own, as the transport blocks the one it is called in."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def there(coroutine: Any) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, loop).result()

    there(server.__aenter__())
    try:
        yield server
    finally:
        there(server.__aexit__(None, None, None))
        there(asyncio.sleep(0))
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class Providers:
    """Both of Apple's environments and Firebase, each a real HTTP/2 server."""

    def __init__(self, stack: ExitStack, localhost: tls.Localhost) -> None:
        self.key, self.account = keys.generate_apns_key(), keys.generate_service_account()
        self.production, self.sandbox = (
            stack.enter_context(running(Apns(localhost.server_context(), known=[self.key], topics=[BUNDLE])))
            for _ in range(2)
        )
        self.fcm = stack.enter_context(running(Fcm(localhost.server_context(), account=self.account)))
        self.ca_file = str(localhost.ca_file)


@pytest.fixture(scope="module")
def providers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Providers]:
    with ExitStack() as stack:
        yield Providers(stack, tls.issue(tmp_path_factory.mktemp("tls")))


@pytest.fixture(scope="module")
def pushing(providers: Providers, room: Room) -> Room:
    secrets = boto3.client("secretsmanager")
    key = {"key_id": providers.key.key_id, "team_id": providers.key.team_id, "private_key": providers.key.private_key}
    secrets.create_secret(Name="apns", SecretString=json.dumps(key))
    secrets.create_secret(Name="fcm", SecretString=providers.account.as_json(providers.fcm.token_uri))
    direct = DirectPushSettings(
        apns_secret_id="apns",
        fcm_secret_id="fcm",
        bundle_id=BUNDLE,
        apns_url=providers.production.url,
        apns_sandbox_url=providers.sandbox.url,
        fcm_url=providers.fcm.url,
        ca_file=providers.ca_file,
        pushes_per_minute=3,
    )
    settings = room.settings.model_copy(update={"direct_push": direct})
    return replace(room, settings=settings, direct_push=DirectPush.open(direct, secrets))


@pytest.fixture
def caller(new_client: Callable[[], Any], pushing: Room) -> Any:
    client = new_client()
    client.room = pushing
    return client


def push(caller: Any, token: str, **more: Any) -> Any:
    return caller("POST", "/v1/notify", {"deviceToken": token, "pushId": PUSH_ID, "message": MESSAGE} | more)


def test_an_iphone_gets_the_alert_that_it_knows(caller: Any, providers: Providers) -> None:
    token = uuid4().hex * 2
    answer = push(caller, token)
    assert answer.status == 200
    told = answer.json
    assert (told["success"], told["platform"], told["sent"], told["failed"]) == (True, "ios", 1, 0)
    received = providers.production.received.since(0)[-1]
    assert received.token == token
    assert received.payload == {
        "aps": {"alert": {"title": "Polkadot App"}, "mutable-content": 1},
        "pushId": PUSH_ID,
        "message": MESSAGE,
    }
    assert received.headers["apns-topic"] == BUNDLE


def test_a_call_has_no_alert(caller: Any, providers: Providers) -> None:
    assert push(caller, uuid4().hex * 2, voip=True).json["success"]
    received = providers.production.received.since(0)[-1]
    assert received.payload["aps"] == {}
    assert received.headers["apns-topic"] == f"{BUNDLE}.voip"
    assert received.headers["apns-push-type"] == "voip"


@pytest.mark.parametrize(("voip", "ttl"), [(True, "60s"), (False, "2419200s")])
def test_an_android_phone_gets_the_data_that_it_knows(caller: Any, providers: Providers, voip: Any, ttl: str) -> None:
    told = push(caller, ANDROID, voip=voip).json
    received = providers.fcm.received.since(0)[-1]
    assert (told["success"], told["platform"], told["messageId"]) == (True, "android", received.push_id)
    message = received.payload["message"]
    assert message["data"] == {"pushType": "chat", "pushId": PUSH_ID, "message": MESSAGE}
    assert (message["android"]["priority"].lower(), message["android"]["ttl"]) == ("high", ttl)


def test_a_token_of_apples_other_environment_is_tried_there(caller: Any, providers: Providers) -> None:
    before = providers.sandbox.received.count
    answer = push(caller, troubled_token(Trouble(failure="BadDeviceToken")))
    assert providers.sandbox.received.count == before + 1
    told = answer.json
    assert (answer.status, told["success"], told["failed"]) == (200, False, 1)
    assert [error["environment"] for error in told["errors"]] == ["production", "development"]
    assert told["errors"][0]["status"] == 400
    assert told["errors"][0]["response"] == {"reason": "BadDeviceToken"}


def test_a_refusal_of_firebase_is_told_as_it_is(caller: Any) -> None:
    token = "UNREGISTERED-" + "x" * 60
    told = push(caller, token).json
    assert told["errors"] == [{"device": token, "status": 404, "response": {"reason": "UNREGISTERED"}}]


@pytest.mark.parametrize("bundle", [{"bundlerId": "com.evil"}, {}])
def test_only_our_own_app_can_be_set_up_wrongly(caller: Any, bundle: dict[str, str]) -> None:
    answer = push(caller, troubled_token(Trouble(failure="TopicDisallowed")), **bundle)
    if bundle:
        assert (answer.status, answer.json["errors"][0]["response"]) == (200, {"reason": "TopicDisallowed"})
    else:
        assert (answer.status, answer.json["type"]) == (503, "urn:clarion:problem:unavailable")


def test_a_call_may_be_left_open(caller: Any) -> None:
    assert push(caller, ANDROID, voip=None).json["success"]


def test_a_provider_that_finds_a_token_dead_changes_no_subscription(
    caller: Any, new_client: Callable[[], Any], register: Callable[..., str]
) -> None:
    token = troubled_token(Trouble(failure="Unregistered"), device=77)
    sid = register(new_client(), notificationType="apns", token=token)
    assert not push(caller, token).json["success"]
    assert Subscription.get(sid).status == "active"


def test_a_client_has_only_so_many_pushes_a_minute(caller: Any) -> None:
    at = caller.room.now()
    caller.room = replace(caller.room, now=lambda: at)
    statuses = [push(caller, ANDROID).status for _ in range(4)]
    assert statuses == [200, 200, 200, 429]


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
    ],
)
def test_a_bad_push_is_a_bad_request(caller: Any, changes: dict[str, str], field: str) -> None:
    answer = push(caller, **({"token": ANDROID} | changes))
    assert (answer.status, answer.json["type"]) == (400, "urn:clarion:problem:bad-request")
    assert answer.json["errors"][0]["field"] == field


def test_the_payload_that_a_provider_finds_too_large_is_its_refusal(caller: Any) -> None:
    told = push(caller, uuid4().hex * 2, message="00" * 4096).json
    assert told["errors"][0]["status"] == 413
    assert told["errors"][0]["response"] == {"reason": "PayloadTooLarge"}
