import json
import time
from collections.abc import AsyncIterator, Iterator
from typing import cast
from uuid import uuid4

import httpx
import pytest
import pytest_asyncio

from clarion import base64url
from clarion.networks import Payload
from clarion.sealing import seal
from local import tls
from local.page import serving
from local.webpush import PushService
from tests.local.application_server import ApplicationServer, encrypt
from tests.local.chromium import DevTools, Target, headless
from tests.web_app import NOTIFICATIONS, WebApp, subscribing

pytestmark = pytest.mark.asyncio(loop_scope="module")

PATIENCE_S = 60
"""What a busy machine may take."""
SERVER = ApplicationServer()
STATEMENT: dict[str, str | None] = {"data": b"hello, world".hex(), "topic": "aa" * 32, "sender_pubkey": "bb" * 32}
FULL: dict[str, object] = {"title": "Polkadot App", "statement": STATEMENT}


def payload(**changes: str | None) -> dict[str, object]:
    return FULL | {"statement": STATEMENT | changes}


UNREADABLE = {"title": "New message", "body": "Open the app to read it.", "data": None}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def devtools() -> AsyncIterator[DevTools]:
    async with headless() as devtools:
        yield devtools


@pytest.fixture
def origin() -> Iterator[str]:
    """Each test has one of its own, and so a service worker and notifications of its own."""
    with serving() as origin:
        yield origin


@pytest_asyncio.fixture(loop_scope="module")
async def page(devtools: DevTools) -> AsyncIterator[Target]:
    page = await devtools.new_page()
    await page.call("Page.enable")
    yield page
    await page.call("Page.close")


@pytest.fixture
def app(devtools: DevTools, page: Target, origin: str) -> WebApp:
    return WebApp(devtools, page, origin, applicationServerKey=SERVER.public_key)


async def test_a_full_push_is_shown_with_its_message(app: WebApp) -> None:
    await app.open()
    shown = await app.push(json.dumps(FULL))
    assert shown == {"title": "Polkadot App", "body": "hello, world", "data": STATEMENT}


@pytest.mark.parametrize(
    ("data", "body"),
    [
        (b"\xff\x00\x01", "An encrypted message of 3 bytes"),
        (b"bell \x07", "An encrypted message of 6 bytes"),
        (b"", "An encrypted message of 0 bytes"),
        ("grüß dich".encode(), "grüß dich"),
    ],
)
async def test_only_what_is_text_is_shown_as_text(app: WebApp, data: bytes, body: str) -> None:
    await app.open()
    assert (await app.push(json.dumps(payload(data=data.hex()))))["body"] == body


async def test_a_truncated_push_is_shown_with_the_statement_to_fetch(app: WebApp) -> None:
    await app.open()
    truncated = STATEMENT | {"data": None, "hash": "cc" * 32}
    shown = await app.push(json.dumps({"title": "Polkadot App", "statement": truncated}))
    assert shown == {"title": "Polkadot App", "body": "A message too large for a push", "data": truncated}


@pytest.mark.parametrize(
    "payload",
    [
        "",
        "{",
        "[]",
        "null",
        json.dumps({"title": "Polkadot App", "statement": {"data": "00", "sender_pubkey": "bb"}}),
        json.dumps({"title": "Polkadot App"}),
        json.dumps(FULL | {"title": ""}),
        json.dumps(payload(data="0")),
        json.dumps(payload(data=None)),
        json.dumps(payload(sender_pubkey="BB")),
        json.dumps({"clarion": {"purpose": "wake_up", "subscription_id": "an-id"}}),
    ],
)
async def test_what_is_no_payload_is_shown_as_well(app: WebApp, payload: str) -> None:
    await app.open()
    assert await app.push(payload) == UNREADABLE


async def test_what_was_sealed_for_another_key_is_shown_by_its_title(app: WebApp) -> None:
    await app.open()
    sealed = seal(Payload(json.dumps(FULL).encode(), truncated=False), b"\x09" + bytes(31), uuid4())
    assert await app.push(cast("bytes", sealed.body).decode()) == UNREADABLE | {"title": "Polkadot App"}


async def test_a_push_that_comes_twice_is_shown_once(app: WebApp) -> None:
    await app.open()
    assert await app.push(json.dumps(FULL)) == await app.push(json.dumps(FULL))


async def test_a_verification_is_shown_and_its_code_opened_in_the_page(app: WebApp) -> None:
    await app.open()
    verification = {"purpose": "verification", "subscription_id": "an-id", "code": "a-code"}
    shown = await app.push(json.dumps({"clarion": verification}))
    assert shown == {
        "title": "Confirm this browser",
        "body": "Click to receive messages here.",
        "data": verification,
    }
    await app.click_notification()
    assert json.loads(await app.page.until("document.querySelector('#opened').textContent")) == verification


async def test_a_clicked_notification_is_closed_and_opened_in_the_page(app: WebApp) -> None:
    await app.open()
    await app.push(json.dumps(FULL))
    await app.click_notification()
    opened = await app.page.until("document.querySelector('#opened').textContent")
    assert json.loads(opened) == STATEMENT
    await app.page.until(f"{NOTIFICATIONS.rstrip()}.then((shown) => shown.length === 0)")


async def test_the_page_shows_the_subscription_by_which_a_push_reaches_it(
    app: WebApp, localhost: tls.Localhost
) -> None:
    async with PushService(localhost.server_context()) as service:
        browser = service.subscribe(SERVER.public_key)
        await app.page.call("Page.addScriptToEvaluateOnNewDocument", source=subscribing(browser.as_json()))
        await app.open()
        await app.page.evaluate("document.querySelector('#subscribe').click()")
        await app.until_status("Subscribed.")
        assert await app.page.evaluate("subscribedWith") == {
            "userVisibleOnly": True,
            "applicationServerKey": SERVER.public_key,
        }
        subscription = json.loads(await app.page.evaluate("document.querySelector('#subscription').textContent"))

        context = localhost.client_context()
        async with httpx.AsyncClient(
            http2=True, http1=False, trust_env=False, verify=context, timeout=PATIENCE_S
        ) as client:
            body = encrypt(subscription, json.dumps(FULL).encode())
            authorization = SERVER.authorization(service.url, time.time())
            headers = {"content-encoding": "aes128gcm", "ttl": "60", "authorization": authorization}
            assert (await client.post(subscription["endpoint"], content=body, headers=headers)).status_code == 201
        [message] = browser.messages
        assert (await app.push(message.decode()))["body"] == "hello, world"


@pytest.mark.parametrize(
    ("key", "ended"), [(SERVER.public_key, False), (ApplicationServer().public_key, True)], ids=["same", "another"]
)
async def test_a_subscription_made_with_another_key_is_ended_first(app: WebApp, key: str, ended: bool) -> None:
    existing = f"""
        window.ended = false;
        PushManager.prototype.getSubscription = async () => ({{
            options: {{ applicationServerKey: Uint8Array.from({list(base64url.decode(key))}).buffer }},
            unsubscribe: async () => {{ window.ended = true; }},
        }});
    """
    await app.page.call("Page.addScriptToEvaluateOnNewDocument", source=existing + subscribing({"endpoint": "its"}))
    await app.open()
    await app.page.evaluate("document.querySelector('#subscribe').click()")
    await app.until_status("Subscribed.")
    assert await app.page.evaluate("ended") == ended


async def test_the_page_says_why_it_could_not_subscribe(app: WebApp) -> None:
    refusing = (
        "PushManager.prototype.subscribe = () => Promise.reject(new DOMException('no push service', 'AbortError'))"
    )
    await app.page.call("Page.addScriptToEvaluateOnNewDocument", source=refusing)
    await app.open()
    await app.page.evaluate("document.querySelector('#subscribe').click()")
    await app.until_status("AbortError: no push service")
