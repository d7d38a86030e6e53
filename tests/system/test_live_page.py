"""The page of `make run`, as a newcomer uses it: send by the button, see the push on the phone, cause each trouble."""

from collections.abc import AsyncIterator
from statistics import median

import pytest
import pytest_asyncio

from bench.latency import Senders
from bench.page import measure
from local.device import Device
from local.live.page import live_page
from local.live.phones import xmtp_text
from local.live.senders import LONGEST, token_of
from local.scenes import shown_by_phones
from local.system import System
from tests.local.chromium import headless
from tests.page.live_tab import LiveTab

pytestmark = [pytest.mark.system, pytest.mark.asyncio(loop_scope="session")]

LATE_S = 10
"""On a machine with much else to do."""
SENDERS = {
    "message": ["Bob's iPhone", "Carol's Android phone", "Carol's browser"],
    "call": ["Bob's iPhone"],
    "xmtp": ["Alix's iPhone", "Alix's robot"],
    "zulip": ["Zulip on an iPhone"],
    "walletconnect": ["A wallet on an iPhone"],
    "simplex": ["Erin's iPhone"],
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


async def test_at_a_thousand_items_a_minute_the_page_keeps_up(tab: LiveTab, system: System) -> None:
    """For ten seconds, through the whole stack: `make bench-page` measures a minute, and how late each item is shown."""
    before = int(await tab.text("[data-station=phone] .stop"))
    lag = await measure(Senders(system, each_per_second=2.5), tab, rate=1000 / 60, seconds=10)
    count = len(lag.submitted)
    assert count == 167
    await tab.tab.until(f"document.querySelector('[data-station=phone] .stop').textContent >= {before + count}")
    assert median(mark.lag_s for mark in lag.marks if mark.word == "delivered") < LATE_S
    assert (await tab.text("#connection"), await tab.text("#notes")) == ("live", "")


async def test_the_steps_of_what_was_sent_are_those_of_why(tab: LiveTab) -> None:
    """Ingest's line `observed` waits for company, so that it may reach the lake after those of the push."""
    known = await tab.keys()
    await tab.send("message", "why this?")
    await tab.until_phone_shows("Bob's iPhone", "why this?")
    await tab.click_new(known, "statements", "delivered: ")
    for what in ("observed", "matched", "queued", "delivered"):
        await tab.until_text("#why-parts td", what)
    await tab.press("Escape")


async def test_a_phone_without_the_app_is_never_written_to_again(tab: LiveTab, system: System) -> None:
    """Neither that of a statement's receiver, nor one that SimpleX's code was pushed to. New ones come as long as it is on."""
    await tab.switch("dead-token")
    await tab.until_text("#rail .chip", "token_gone")
    for phone in ("A phone without the app", "A phone without SimpleX"):
        await tab.until_phone_refuses(phone, "Unregistered")
    await tab.switch("dead-token")
    dead = [push.token for push in system.apns.received if push.token.startswith("dead41001")]
    assert len(dead) == len(set(dead)) >= 2
    async with system.api_of(Device("without the app, number 1")) as api:
        [subscription] = await api.list_subscriptions()
    assert subscription["status"] == "invalid"


async def test_what_is_forged_is_dropped_and_shown_on_no_phone(tab: LiveTab, system: System) -> None:
    await tab.switch("forged-signature")
    await tab.until_text("#rail .chip", "bad_signature")
    await tab.send("message", "the true Alice")
    await tab.until_phone_shows("Bob's iPhone", "the true Alice")
    await tab.switch("forged-signature")
    assert not any(b"not from Alice".hex() in str(push.payload) for push in system.apns.received)


async def test_of_a_flood_thirty_pass_and_other_senders_still_get_through(tab: LiveTab, system: System) -> None:
    await tab.switch("flood")
    await tab.until_text("#rail .chip", "rate_limited")
    await tab.send("message", "between the flood")
    await tab.send("simplex", "past the flood")
    await tab.until_phone_shows("Bob's iPhone", "between the flood")
    await tab.until_phone_shows("Erin's iPhone", "past the flood")
    await tab.switch("flood")
    flooded = shown_by_phones(push for push in system.apns.received if push.token == token_of("Dave"))
    assert len(flooded) == 30


async def test_what_is_sent_while_a_node_is_gone_comes_by_the_other_once(tab: LiveTab, system: System) -> None:
    await tab.switch("node-gone")
    await tab.send("xmtp", "by the other node")
    await tab.until_phone_shows("Alix's iPhone", "by the other node")
    await tab.switch("node-gone")
    await system.until_followed()
    pushes = shown_by_phones(push for push in system.apns.received if push.token == token_of("Alix"))
    assert [xmtp_text(push) for push in pushes].count("by the other node") == 1


async def test_what_is_written_while_a_simplex_server_is_gone_comes_once_it_is_back(tab: LiveTab) -> None:
    await tab.switch("smp-server-gone")
    await tab.send("simplex", "held by the contact")
    await tab.until_text("#send-answer", "sending …")
    await tab.switch("smp-server-gone")
    await tab.until_text("#send-answer", "sent")
    await tab.until_phone_shows("Erin's iPhone", "held by the contact")


async def test_what_is_sent_while_the_providers_are_down_comes_once_they_are_back(tab: LiveTab) -> None:
    """SimpleX's phone is pushed what is newest then."""
    await tab.switch("provider-down")
    await tab.send("message", "through the outage")
    await tab.send("simplex", "sealed through the outage")
    await tab.until_text("#rail .chip", "retry")
    await tab.switch("provider-down")
    for phone in SENDERS["message"]:
        await tab.until_phone_shows(phone, "through the outage")
    await tab.until_phone_shows("Erin's iPhone", "sealed through the outage")
