import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from local import keys, tls
from local.browser import BrowserSubscription
from local.http2 import Misbehaviour
from local.provider import InjectedFault, Options
from local.webpush import STATUS, PushService
from tests.local.application_server import ApplicationServer, encrypt
from tests.standins import NOW

PATIENCE_S = 60
"""What a busy machine may take."""
CONTENT = {"title": "Polkadot App", "data": "00ff", "topic": "aa" * 32, "sender": "bb" * 32}
HEADERS = {"content-encoding": "aes128gcm", "ttl": "60"}
SERVER, STRANGER = ApplicationServer(), ApplicationServer()
DAY = 24 * 3600


@pytest.fixture
async def service(localhost: tls.Localhost, clock: Any) -> AsyncIterator[PushService]:
    async with PushService(localhost.server_context(), options=Options(now=clock)) as service:
        yield service


@pytest.fixture
def browser(service: PushService) -> BrowserSubscription:
    return service.subscribe(SERVER.public_key)


@pytest.fixture
async def client(service: PushService, localhost: tls.Localhost, clock: Any) -> AsyncIterator[httpx.AsyncClient]:
    context = localhost.client_context()
    async with httpx.AsyncClient(
        http2=True, http1=False, trust_env=False, verify=context, timeout=PATIENCE_S
    ) as client:
        client.headers["authorization"] = SERVER.authorization(service.url, clock())
        yield client


async def push(
    client: httpx.AsyncClient, browser: BrowserSubscription, content: Any = CONTENT, **headers: str
) -> httpx.Response:
    body = encrypt(browser.as_json(), json.dumps(content).encode())
    changes = {name.replace("_", "-"): value for name, value in headers.items()}
    return await client.post(browser.endpoint, content=body, headers=HEADERS | changes)


def verdict(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["reason"]


async def test_a_message_reaches_the_browser_and_is_recorded(
    service: PushService, client: httpx.AsyncClient, browser: BrowserSubscription
) -> None:
    response = await push(client, browser, urgency="high", topic="a-topic_of-32-characters-1234567")
    assert (response.http_version, response.status_code, response.content) == ("HTTP/2", 201, b"")
    assert response.headers["location"].startswith(f"{service.url}/message/")
    assert response.headers["ttl"] == "60"
    assert [json.loads(message) for message in browser.messages] == [CONTENT]
    [received] = service.received
    assert received.accepted
    assert (received.token, received.payload) == (browser.endpoint, CONTENT)
    assert received.push_id == response.headers["location"]
    assert received.headers.items() >= {**HEADERS, "urgency": "high"}.items()
    assert "authorization" not in received.headers
    assert browser.endpoint not in repr(received)


async def test_a_message_may_have_4096_bytes_and_no_more(
    client: httpx.AsyncClient, browser: BrowserSubscription
) -> None:
    largest, larger = (encrypt(browser.as_json(), bytes(size)) for size in (3993, 3994))
    response = await client.post(browser.endpoint, content=largest, headers=HEADERS)
    assert (response.status_code, len(largest)) == (201, 4096)
    assert verdict(await client.post(browser.endpoint, content=larger, headers=HEADERS)) == (413, "BodyTooLarge")
    assert browser.messages == [bytes(3993)]


@pytest.mark.parametrize("urgency", ["very-low", "low", "normal", "high"])
async def test_each_urgency_is_accepted(client: httpx.AsyncClient, browser: BrowserSubscription, urgency: str) -> None:
    assert (await push(client, browser, urgency=urgency)).status_code == 201


async def test_a_message_is_held_for_four_weeks_at_most(
    client: httpx.AsyncClient, browser: BrowserSubscription, clock: Any
) -> None:
    browser.disconnect()
    assert (await push(client, browser, ttl="9999999999")).headers["ttl"] == str(28 * DAY)
    browser.connect(clock() + 28 * DAY)
    assert browser.messages == []


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({"content_encoding": "aesgcm"}, "BadContentEncoding"),
        ({"ttl": ""}, "BadTtl"),
        ({"ttl": "-1"}, "BadTtl"),
        ({"ttl": "1.5"}, "BadTtl"),
        ({"urgency": "urgent"}, "BadUrgency"),
        ({"urgency": "High"}, "BadUrgency"),
        ({"topic": ""}, "BadTopic"),
        ({"topic": "x" * 33}, "BadTopic"),
        ({"topic": "a.b"}, "BadTopic"),
        ({"topic": "YQ=="}, "BadTopic"),
    ],
)
async def test_a_wrong_header_is_refused(
    client: httpx.AsyncClient, browser: BrowserSubscription, headers: dict[str, str], reason: str
) -> None:
    assert verdict(await push(client, browser, **headers)) == (400, reason)
    assert browser.messages == []


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({"ttl": "60"}, "BadContentEncoding"),
        ({"content-encoding": "aes128gcm"}, "BadTtl"),
        ([*HEADERS.items(), ("ttl", "61")], "DuplicateHeaders"),
    ],
)
async def test_each_header_comes_once(
    client: httpx.AsyncClient, browser: BrowserSubscription, headers: Any, reason: str
) -> None:
    assert verdict(await client.post(browser.endpoint, content=b"x", headers=headers)) == (400, reason)


async def test_a_message_has_content(client: httpx.AsyncClient, browser: BrowserSubscription) -> None:
    assert verdict(await client.post(browser.endpoint, headers=HEADERS)) == (400, "EmptyBody")


async def test_what_the_browser_cannot_decrypt_is_accepted_and_lost(
    service: PushService, client: httpx.AsyncClient, browser: BrowserSubscription
) -> None:
    body = encrypt(service.subscribe(SERVER.public_key).as_json(), b"{}")
    assert (await client.post(browser.endpoint, content=body, headers=HEADERS)).status_code == 201
    assert [(received.accepted, received.payload) for received in service.received] == [(True, None)]
    assert browser.messages == []


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"aud": "https://fcm.googleapis.com"}, "BadAudience"),
        ({"aud": None}, "BadToken"),
        ({"exp": None}, "BadToken"),
        ({"exp": "later"}, "BadToken"),
        ({"exp": int(NOW)}, "ExpiredToken"),
        ({"exp": int(NOW) + DAY + 1}, "TokenLivesTooLong"),
        ({"sub": None}, "BadToken"),
        ({"sub": "push@clarion.example"}, "BadSubject"),
        ({"sub": "mailto:"}, "BadSubject"),
        ({"sub": "mailto:Clarion <push@clarion.example>"}, "BadSubject"),
        ({"sub": "https://"}, "BadSubject"),
    ],
)
async def test_a_wrong_token_is_refused(
    service: PushService,
    client: httpx.AsyncClient,
    browser: BrowserSubscription,
    changes: dict[str, Any],
    reason: str,
) -> None:
    authorization = SERVER.authorization(service.url, NOW, **changes)
    assert verdict(await push(client, browser, authorization=authorization)) == (403, reason)
    assert [received.accepted for received in service.received] == [False]
    assert browser.messages == []


@pytest.mark.parametrize(
    "changes", [{"exp": int(NOW) + 1}, {"exp": int(NOW) + DAY}, {"sub": "https://clarion.example/contact"}]
)
async def test_a_right_token_is_accepted(
    service: PushService, client: httpx.AsyncClient, browser: BrowserSubscription, changes: dict[str, Any]
) -> None:
    authorization = SERVER.authorization(service.url, NOW, **changes)
    assert (await push(client, browser, authorization=authorization)).status_code == 201


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("", (401, "MissingAuthorization")),
        ("bearer {token}", (401, "MissingAuthorization")),
        ("WebPush {token}", (401, "MissingAuthorization")),
        ("vapid t={token}", (403, "BadAuthorization")),
        ("vapid k={key}", (403, "BadAuthorization")),
        ("vapid t={token}, k={key}, k={key}", (403, "BadAuthorization")),
        ("vapid t={token} k={key}", (403, "BadAuthorization")),
        ("vapid t={token}, k={key}==", (403, "BadAuthorization")),
        ("vapid t=no.jwt.this, k={key}", (403, "BadToken")),
        ("vapid t={token}, k=AAAA", (403, "BadToken")),
        ("vapid t={token}, k={strange_key}", (403, "BadToken")),
        ("vapid t={strange_token}, k={key}", (403, "BadToken")),
        ("vapid t={strange_token}, k={strange_key}", (403, "KeyMismatch")),
    ],
)
async def test_whoever_does_not_prove_the_subscriptions_key_is_refused(
    service: PushService,
    client: httpx.AsyncClient,
    browser: BrowserSubscription,
    pattern: str,
    expected: tuple[int, str],
) -> None:
    authorization = pattern.format(
        token=SERVER.token(service.url, NOW),
        key=SERVER.public_key,
        strange_token=STRANGER.token(service.url, NOW),
        strange_key=STRANGER.public_key,
    )
    response = await push(client, browser, authorization=authorization)
    assert verdict(response) == expected
    assert ("www-authenticate" in response.headers) == (expected[0] == 401)


async def test_the_parameters_may_come_in_any_order(
    service: PushService, client: httpx.AsyncClient, browser: BrowserSubscription
) -> None:
    authorization = f"Vapid k={SERVER.public_key},t={SERVER.token(service.url, NOW)}"
    assert (await push(client, browser, authorization=authorization)).status_code == 201


async def test_a_token_expires(client: httpx.AsyncClient, browser: BrowserSubscription, clock: Any) -> None:
    clock.advance(3599)
    assert (await push(client, browser)).status_code == 201
    clock.advance(1)
    assert verdict(await push(client, browser)) == (403, "ExpiredToken")


async def test_pushes_to_an_ended_subscription_are_refused(
    client: httpx.AsyncClient, service: PushService, browser: BrowserSubscription
) -> None:
    browser.end()
    assert verdict(await push(client, browser)) == (410, "ExpiredSubscription")
    browser.end("UnknownSubscription")
    assert verdict(await push(client, browser)) == (404, "UnknownSubscription")
    assert browser.messages == []


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("POST", "/push/of-nobody", (404, "UnknownSubscription")),
        ("POST", "/message/1", (404, "BadPath")),
        ("GET", "/push/of-nobody", (405, "MethodNotAllowed")),
    ],
)
async def test_there_is_nothing_elsewhere(
    service: PushService, client: httpx.AsyncClient, method: str, path: str, expected: tuple[int, str]
) -> None:
    assert verdict(await client.request(method, f"{service.url}{path}")) == expected


async def test_a_browser_that_is_away_gets_the_newest_message_of_a_topic(
    service: PushService, client: httpx.AsyncClient, browser: BrowserSubscription, clock: Any
) -> None:
    browser.disconnect()
    for number in range(3):
        assert (await push(client, browser, {"number": number}, topic="counted")).status_code == 201
    assert (await push(client, browser, {"number": 3}, ttl="0")).status_code == 201
    clock.advance(59)
    browser.connect(clock())
    assert [json.loads(message) for message in browser.messages] == [{"number": 2}]
    assert len(service.received) == 4


@pytest.mark.parametrize("reason", STATUS)
async def test_a_subscription_can_ask_for_any_refusal(
    service: PushService, client: httpx.AsyncClient, reason: str
) -> None:
    browser = service.subscribe(SERVER.public_key, InjectedFault(reason))
    assert verdict(await push(client, browser)) == (STATUS[reason], reason)


async def test_a_subscription_can_ask_for_trouble_that_passes(service: PushService, client: httpx.AsyncClient) -> None:
    trouble = InjectedFault("ServiceUnavailable", delay=0.01, retry_after=30, times=1)
    browser = service.subscribe(SERVER.public_key, trouble)
    responses = [await push(client, browser) for _ in range(2)]
    assert [response.status_code for response in responses] == [503, 201]
    assert [response.headers.get("retry-after") for response in responses] == ["30", None]
    assert [received.payload for received in service.received] == [CONTENT, CONTENT]
    assert len(browser.messages) == 1


@pytest.mark.parametrize(
    "misbehaviour", [Misbehaviour.RESET_CONNECTION, Misbehaviour.GO_AWAY, Misbehaviour.RESET_STREAM]
)
async def test_a_subscription_can_ask_for_a_broken_connection(
    service: PushService, client: httpx.AsyncClient, browser: BrowserSubscription, misbehaviour: Misbehaviour
) -> None:
    with pytest.raises(httpx.TransportError):
        await push(client, service.subscribe(SERVER.public_key, InjectedFault(misbehaviour)))
    assert (await push(client, browser)).status_code == 201


@pytest.mark.parametrize(
    "key",
    ["", "AAAA", f"{SERVER.public_key}=", SERVER.public_key[:-4], "B" + "A" * 86],
    ids=["none", "short", "padded", "cut", "no point"],
)
def test_nobody_subscribes_with_what_is_no_key(service: PushService, key: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the words are of several libraries
        service.subscribe(key)


def test_as_a_program_it_makes_subscriptions_and_says_what_it_has_received(tmp_path: Path) -> None:
    keys.generate(tmp_path)
    arguments = [sys.executable, "-m", "local.webpush", "--keys", str(tmp_path)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout
        url = program.stdout.readline().strip()
        context = tls.Localhost.within(tmp_path).client_context()
        with httpx.Client(
            base_url=url, http2=True, http1=False, trust_env=False, verify=context, timeout=PATIENCE_S
        ) as client:
            refused = client.post("/_stand-in/subscriptions", json={"applicationServerKey": "none"})
            assert verdict(refused) == (400, "BadApplicationServerKey")
            made = client.post("/_stand-in/subscriptions", json={"applicationServerKey": SERVER.public_key})
            subscription = made.json()
            assert made.status_code == 201
            headers = HEADERS | {"authorization": SERVER.authorization(url, time.time())}
            body = encrypt(subscription, json.dumps(CONTENT).encode())
            assert client.post(subscription["endpoint"], content=body, headers=headers).status_code == 201
            [received] = client.get("/_stand-in/received").json()["pushes"]
            assert (received["token"], received["payload"]) == (subscription["endpoint"], CONTENT)
        program.terminate()
        assert program.wait(PATIENCE_S) == 0
