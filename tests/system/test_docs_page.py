"""The API's interactive page, at the address and with the bearer token that `make run` prints."""

import re
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest
import pytest_asyncio
import sr25519

from local.device import Device, topic_of
from local.run import guide
from local.system import System
from tests.docs_page import DocsPage, ShownAnswer
from tests.local.chromium import DevTools, headless

pytestmark = [pytest.mark.system, pytest.mark.asyncio(loop_scope="session")]

WIDTHS = (1280, 400)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def devtools() -> AsyncIterator[DevTools]:
    async with headless() as devtools:
        yield devtools


@pytest_asyncio.fixture(loop_scope="session", params=WIDTHS)
async def page(request: pytest.FixtureRequest, devtools: DevTools, system: System) -> DocsPage:
    return await opened(devtools, system, request.param)


async def opened(devtools: DevTools, system: System, width: int) -> DocsPage:
    page = DocsPage(await devtools.new_page())
    [address] = re.findall(r"http://\S+/docs", guide(system))
    await page.open(address, width)
    return page


def printed_token(system: System) -> str:
    [token] = re.findall(r"export TOKEN='(\S+)'", guide(system))
    return str(token)


async def test_a_sender_who_is_whitelisted_on_the_page_wakes_the_phone(page: DocsPage, system: System) -> None:
    await page.authorize(printed_token(system))
    sender, topic = Device("a sender named on the page"), topic_of("the page")
    rule = {"sender_pubkey": sender.public_key.hex(), "topic": topic.hex()}

    registered = await page.execute("registerSubscription", {"platform": "apns", "token": uuid4().hex * 2})
    subscription = registered.body["subscription_id"]
    replaced = await page.execute("replaceRules", {"subscription_id": subscription, "rules": [rule]})
    listed = await page.execute("listSubscriptions")
    hello = sender.statement(topic, data=b"hello")
    await system.store.inject(hello)
    await system.push_of(hello)
    removed = await page.execute("removeSubscriptions", {"subscription_ids": [subscription]})

    assert (registered.status, replaced.status, removed.status) == (201, 204, 204)
    assert {each["subscription_id"]: each["rules"] for each in listed.body}[subscription] == [rule]


async def test_whoever_has_a_key_signs_in_on_the_page(page: DocsPage) -> None:
    keypair = sr25519.pair_from_seed(uuid4().bytes * 2)
    client_id = keypair[0].hex()

    asked = await page.execute("askForChallenge", {"client_id": client_id})
    signature = sr25519.sign(keypair, asked.body["message"].encode()).hex()
    signed = {"client_id": client_id, "challenge": asked.body["challenge"], "signature": signature}
    await page.authorize((await page.execute("signIn", signed)).body["token"])

    assert await page.execute("listSubscriptions") == ShownAnswer(200, [])


async def test_a_refusal_is_shown_as_problem_details(page: DocsPage) -> None:
    refused = await page.execute("listSubscriptions")

    assert refused.status == 401
    assert refused.body["type"] == "urn:clarion:problem:unauthenticated"


async def test_nothing_is_wider_than_the_screen(devtools: DevTools, system: System) -> None:
    page = await opened(devtools, system, max(WIDTHS))
    await page.execute("listSubscriptions")

    assert await page.overflows(WIDTHS) == dict.fromkeys(WIDTHS, 0)
