"""The page of `make run`, as a newcomer uses it: send by the button, see the push on the phone, cause each trouble."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from local.live.page import live_page
from local.live.senders import LONGEST
from local.system import System
from tests.local.chromium import headless
from tests.page.live_tab import LiveTab

pytestmark = [pytest.mark.system, pytest.mark.asyncio(loop_scope="session")]

SENDERS = {
    "message": ["Bob's iPhone", "Carol's Android phone", "Carol's browser"],
    "call": ["Bob's iPhone"],
    "xmtp": ["Alix's iPhone", "Alix's robot"],
    "zulip": ["Zulip on an iPhone"],
    "walletconnect": ["A wallet on an iPhone"],
}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def tab(system: System) -> AsyncIterator[LiveTab]:
    async with live_page(system) as address, headless() as devtools:
        tab = LiveTab(await devtools.new_page())
        await tab.open(address)
        yield tab


@pytest.mark.parametrize("sender", SENDERS)
async def test_what_is_sent_by_the_button_is_seen_on_each_phone(tab: LiveTab, sender: str) -> None:
    text = f"hello by {sender}"
    await tab.send(sender, text)
    for phone in SENDERS[sender]:
        await tab.until_phone_shows(phone, text)


@pytest.mark.parametrize("sender", SENDERS)
@pytest.mark.parametrize("text", ["x" * LONGEST, "\N{GRINNING FACE}" * (LONGEST // 2)], ids=["letters", "faces"])
async def test_no_text_ends_a_sender(tab: LiveTab, sender: str, text: str) -> None:
    """One that the network does not take is refused to who wrote it; the next arrives."""
    await tab.send(sender, text)
    await tab.tab.until("!['', 'sending …'].includes(document.querySelector('#send-answer').textContent)")
    after = f"after {len(text)} by {sender}"
    await tab.send(sender, after)
    await tab.until_text("#send-answer", "sent")
    await tab.until_phone_shows(SENDERS[sender][0], after)


async def test_the_steps_of_what_was_sent_are_those_of_why(tab: LiveTab) -> None:
    """Ingest's line `observed` waits for company, so that it may reach the lake after those of the push."""
    known = await tab.keys()
    await tab.send("message", "why this?")
    await tab.until_phone_shows("Bob's iPhone", "why this?")
    await tab.click_new(known, "statements", "delivered: ")
    for what in ("observed", "matched", "queued", "delivered"):
        await tab.until_text("#why-parts td", what)
    await tab.press("Escape")


@pytest.mark.parametrize(
    ("trouble", "word"),
    [("dead-token", "token_gone"), ("forged-signature", "bad_signature"), ("flood", "rate_limited")],
)
async def test_what_a_trouble_comes_to_is_drawn_on_the_way(tab: LiveTab, trouble: str, word: str) -> None:
    await tab.switch(trouble)
    await tab.until_text("#rail .chip", word)
    await tab.switch(trouble)


async def test_what_is_sent_while_a_node_is_gone_comes_by_the_other(tab: LiveTab, system: System) -> None:
    await tab.switch("node-gone")
    await tab.send("xmtp", "by the other node")
    await tab.until_phone_shows("Alix's iPhone", "by the other node")
    await tab.switch("node-gone")
    await system.until_followed()


async def test_what_is_sent_while_the_providers_are_down_comes_once_they_are_back(tab: LiveTab) -> None:
    await tab.switch("provider-down")
    await tab.send("message", "through the outage")
    await tab.until_text("#rail .chip", "retry")
    await tab.switch("provider-down")
    for phone in SENDERS["message"]:
        await tab.until_phone_shows(phone, "through the outage")
