"""The page by which a browser gets pushes, at the address that `make run` prints."""

import json
import re
from collections.abc import AsyncIterator
from urllib.parse import parse_qsl

import pytest
import pytest_asyncio

from clarion_client import rule
from local.device import Device, topic_of
from local.run import guide
from local.system import System
from tests.local.chromium import headless
from tests.web_app import WebApp

pytestmark = [pytest.mark.system, pytest.mark.asyncio(loop_scope="session")]


@pytest_asyncio.fixture(loop_scope="session")
async def app(system: System) -> AsyncIterator[WebApp]:
    [(origin, query)] = re.findall(r"(http://localhost:\d+)/\?(\S+)", guide(system))
    async with headless() as devtools:
        page = await devtools.new_page()
        await page.call("Page.enable")
        yield WebApp(devtools, page, origin, **dict(parse_qsl(query, keep_blank_values=True)))


async def test_a_browser_that_registers_on_the_page_shows_a_sealed_push(app: WebApp, system: System) -> None:
    [token] = re.findall(r"export TOKEN='(\S+)'", guide(system))
    sender, topic = Device("a sender to the page"), topic_of("the browser's page")

    await app.open()
    await app.page.evaluate(f"document.querySelector('#bearer').value = {json.dumps(token)}")
    await app.page.evaluate("document.querySelector('#subscribe').click()")
    subscription = await app.page.until(
        "/Subscription (.*) is active/.exec(document.querySelector('#status').textContent)?.[1]"
    )
    async with system.api_of(Device("Bob")) as bob:
        await bob.replace_rules(subscription, [rule(sender.public_key, topic)])
        await system.store.inject(sender.statement(topic, data=b"hello, browser"))
        shown = await app.notification()
        await bob.remove_subscriptions(subscription)

    content = {"data": b"hello, browser".hex(), "topic": topic.hex(), "sender_pubkey": sender.public_key.hex()}
    assert shown == {"title": "Polkadot App", "body": "hello, browser", "data": content}
    endpoint = json.loads(await app.page.evaluate("document.querySelector('#subscription').textContent"))["endpoint"]
    [payload] = [push.payload for push in system.webpush.received if push.token == endpoint]
    assert payload.keys() == {"title", "clarion"}
