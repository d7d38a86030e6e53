"""What a person sees of the live page: on a wide screen and on a phone's, in light and in dark, and at 1,000 a minute."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import batched
from pathlib import Path

import pytest
import pytest_asyncio

from clarion.channels import Channel
from clarion.clock import now_ms
from clarion.decisions import EnvelopeDecision, NotificationDecision, PushDecision
from console.page.app import ActionError
from console.page.server import serving
from tests.local.chromium import headless
from tests.page import examples
from tests.page.live_tab import LiveTab
from tests.page.made_up import MadeUpPage, trail

pytestmark = pytest.mark.asyncio(loop_scope="module")

LEAST_PIXELS = 12
AA_TEXT = 4.5
"""https://www.w3.org/TR/WCAG22/#contrast-minimum"""
SCREENSHOTS = Path(__file__).parents[2] / ".build" / "live-page"
HOSTILE = "<img src=x onerror='seized=1'><script>seized=1</script>\n\nevent: about" + "W" * 200


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tab() -> AsyncIterator[LiveTab]:
    async with headless() as devtools:
        yield LiveTab(await devtools.new_page())


@asynccontextmanager
async def opened(tab: LiveTab, page: MadeUpPage, width: int = 1280, scheme: str = "light") -> AsyncIterator[None]:
    async with serving(page.backend) as address:
        await tab.open(address, width, scheme)
        yield
        await tab.tab.call("Page.navigate", url="about:blank")


def local_page() -> MadeUpPage:
    pushes = [examples.push(1, "Hello!"), examples.push(2, "gone", reason="Unregistered")]
    return MadeUpPage(controls=examples.controls(), phones=pushes, status=examples.status())


def deployed_page() -> MadeUpPage:
    status = examples.status(alarms=[examples.ALARM], troubles=["1 alarm"])
    return MadeUpPage(local=False, status=status, history=examples.history())


def fill(page: MadeUpPage) -> None:
    """Something of everything, over the last minutes."""
    for number in range(60):
        at = now_ms() - 4_000 * number
        match number % 6:
            case 0:
                page.put(trail(number, at=at, decision=EnvelopeDecision.BAD_SIGNATURE))
            case 1:
                page.put(trail(number, at=at, notification=NotificationDecision.RATE_LIMITED))
            case 2:
                page.put(trail(number, at=at, pushes={Channel.APNS: PushDecision.RETRY}))
            case _:
                page.put(trail(number, at=at))


def keep(name: str, screenshot: bytes) -> None:
    """For people to look at."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    (SCREENSHOTS / name).write_bytes(screenshot)


@pytest.mark.parametrize(
    ("width", "scheme"), [(width, scheme) for width in (1280, 800, 400) for scheme in ("light", "dark")]
)
@pytest.mark.parametrize("kind", ["local", "deployed"])
async def test_all_can_be_read_and_nothing_is_cut_off(tab: LiveTab, kind: str, width: int, scheme: str) -> None:
    page = local_page() if kind == "local" else deployed_page()
    fill(page)
    async with opened(tab, page, width, scheme):
        await tab.until_text(".item .chip", "delivered")
        await tab.until_text("#status-parts", "Queues")
        await tab.tab.until("document.querySelectorAll('.uplot').length === 2")
        keep(f"{kind}-{width}-{scheme}.png", await tab.screenshot())
        texts = await tab.texts()
        overflow = await tab.overflow()
        findings = await tab.findings()

    assert len(texts) > 50
    assert [shown for shown in texts if shown["pixels"] < LEAST_PIXELS] == []
    assert [shown for shown in texts if shown["contrast"] < AA_TEXT] == []
    assert overflow == 0
    assert findings == []


@pytest.mark.parametrize("width", [400, 1600])
async def test_a_strangers_words_neither_run_nor_widen_the_page(tab: LiveTab, width: int) -> None:
    controls = examples.controls()
    controls["senders"][0]["title"] = controls["troubles"][0]["title"] = controls["phones"][0]["name"] = HOSTILE
    controls["phones"][0]["network"] = controls["troubles"][0]["answer"] = controls["senders"][0]["button"] = HOSTILE
    alarm = {**examples.ALARM, "name": HOSTILE, "runbook": HOSTILE, "todo": HOSTILE}
    status = examples.status(alarms=[alarm], tasks=[{"name": HOSTILE, "renewed_seconds": 1}])
    page = MadeUpPage(controls=controls, phones=[examples.push(1, HOSTILE, HOSTILE, reason=None)], status=status)
    page.put(trail(1, reason=HOSTILE, network="statements"))
    async with opened(tab, page, width):
        await tab.until_text("#phone-cards li", HOSTILE)
        await tab.until_text("#status-parts", HOSTILE)
        await tab.click(".item")
        await tab.until_text("#why-parts td", HOSTILE.strip())
        assert await tab.tab.evaluate("typeof seized") == "undefined"
        assert await tab.tab.evaluate("document.querySelectorAll('main img, script:not([src])').length") == 0
        assert await tab.overflow() == 0


async def test_no_script_runs_on_the_page_however_it_came_there(tab: LiveTab) -> None:
    async with opened(tab, local_page()):
        await tab.tab.evaluate(
            "document.body.append(Object.assign(document.createElement('script'), {text: 'seized = 1'}))"
        )
        assert await tab.tab.evaluate("typeof seized") == "undefined"


async def test_the_button_sends_what_was_written_as_whom_was_chosen(tab: LiveTab) -> None:
    page = local_page()
    async with opened(tab, page):
        await tab.send("zulip", "over there")
        await tab.until_text("#send-answer", "sent")
    assert page.asked == [("send", {"sender": "zulip", "text": "over there"})]


async def test_by_which_network_a_sender_writes_and_to_whom_is_said(tab: LiveTab) -> None:
    async with opened(tab, local_page()):
        await tab.until_text("#sender-way", "Polkadot's statement store, to Bob's iPhone")
        await tab.send("simplex", "hello")
        await tab.until_text("#sender-way", "SimpleX, to Erin's iPhone")


async def test_a_sender_whose_phones_are_not_there_yet_cannot_send(tab: LiveTab) -> None:
    """Nor can anybody before the page knows of any."""
    for page in (MadeUpPage(controls=examples.controls(ready=False)), MadeUpPage()):
        async with opened(tab, page):
            await tab.until_text("#send-button", "being registered")
            assert await tab.tab.evaluate("document.querySelector('#send-button').disabled") is True


async def test_a_page_whose_program_has_ended_says_so(tab: LiveTab) -> None:
    async with serving(local_page().backend) as address:
        await tab.open(address, 1280, "light")
        await tab.until_text("#connection", "live")
    await tab.until_text("#faults", "The program does not answer")
    assert await tab.tab.evaluate("document.querySelector('#connection').textContent") == "disconnected, trying again"
    await tab.tab.call("Page.navigate", url="about:blank")


async def test_a_switch_says_what_the_system_does_and_is_asked_for(tab: LiveTab) -> None:
    page = local_page()
    async with opened(tab, page):
        page.put(trail(1, decision=EnvelopeDecision.BAD_SIGNATURE))
        await tab.until_text("#switches", "the token and its subscription end")
        await tab.until_text("#switches .chip", "1 bad_signature")
        await tab.switch("flood")
    assert page.asked == [("switch", {"trouble": "flood", "on": True})]


async def test_all_steps_of_an_item_are_reached_by_the_keyboard_alone(tab: LiveTab) -> None:
    page = deployed_page()
    page.put(trail(1))
    async with opened(tab, page):
        await tab.until_there(".item")
        await tab.tab.evaluate("document.body.focus()")
        for key in ("Tab", "Enter", "Tab", "Enter"):
            await tab.press(key)
        await tab.until_text("#why-parts", "the provider took the push")
        assert "observed" not in await tab.text("#why h2")
        await tab.press("Escape")
        await tab.tab.until("!document.querySelector('#why').open")


async def test_an_open_panel_gets_the_steps_that_come_after_the_click(tab: LiveTab) -> None:
    page = deployed_page()
    decided, *later = trail(1)
    page.put([decided])
    async with opened(tab, page):
        await tab.click(".item")
        await tab.until_text("#why-parts td", "matched")
        page.put(later)
        await tab.until_text("#why-parts td", "delivered")
        await tab.until_text("#why-parts p", "the provider took the push")


async def test_a_panel_whose_steps_cannot_be_read_tries_again(tab: LiveTab) -> None:
    page = deployed_page()
    page.put(trail(1))
    async with opened(tab, page):
        await tab.until_there(".item")
        page.why_fails = True
        await tab.click(".item")
        await tab.until_text("#why-parts p", "it is tried again")
        page.why_fails = False
        await tab.until_text("#why-parts td", "delivered")


async def test_a_hidden_tab_costs_nothing_and_misses_nothing_once_it_is_seen_again(tab: LiveTab) -> None:
    page = deployed_page()
    page.put(trail(1))
    async with opened(tab, page):
        await tab.until_there(".item")
        await tab.hide(hidden=True)
        await tab.until_text("#connection", "paused while hidden")
        reads = -1
        while reads != page.reads:
            reads = page.reads
            await asyncio.sleep(1)
        page.put(trail(2))
        await tab.hide(hidden=False)
        await tab.tab.until("document.querySelectorAll('.item').length === 2")
        assert await tab.text("#connection") == "live"


async def test_a_reload_loses_nothing(tab: LiveTab) -> None:
    page, count = deployed_page(), 1_500
    async with opened(tab, page):
        for some in batched(range(count), 3, strict=False):
            for number in some:
                page.put(trail(number, decision=EnvelopeDecision.UNMATCHED))
            await asyncio.sleep(0)
        shown = f"document.querySelector('[data-station=source] .stop')?.textContent === '{count}'"
        await tab.tab.until(shown)
        await tab.tab.call("Page.reload")
        await tab.tab.until("performance.getEntriesByType('navigation')[0]?.type === 'reload'")
        await tab.tab.until(shown)


async def test_a_reading_that_fails_is_said_and_the_page_is_no_longer_wholly_live(tab: LiveTab) -> None:
    page = deployed_page()
    async with opened(tab, page):
        page.fault = ValueError("odd")
        await tab.until_text("#connection", "live in part")
        await tab.until_text("#faults", "items cannot be read: ValueError")
        page.fault = None
        page.put(trail(1))
        await tab.until_there(".item")
        await tab.tab.until("document.querySelector('#connection').textContent === 'live'")


async def test_what_of_the_lake_is_not_shown_is_said(tab: LiveTab) -> None:
    async with opened(tab, MadeUpPage(local=False, lake={"passed_over": 7, "unreadable": 2})):
        await tab.until_text("#notes", "Only part is shown: 7 files")
        await tab.until_text("#notes", "2 lines of the lake could not be read")


async def test_everything_that_can_be_used_has_a_name(tab: LiveTab) -> None:
    page = local_page()
    fill(page)
    async with opened(tab, page):
        await tab.until_there(".item")
        await tab.tab.call("Accessibility.enable")
        nodes = (await tab.tab.call("Accessibility.getFullAXTree"))["nodes"]
        used = {"button", "combobox", "textbox", "switch", "link"}
        named = [(node["role"]["value"], node["name"]["value"]) for node in nodes if node["role"]["value"] in used]
    assert {role for role, _ in named} >= used - {"link"}
    assert [role for role, name in named if not name] == []


@pytest.mark.parametrize("kind", ["local", "deployed"])
async def test_a_screen_reader_finds_all_that_the_page_is_made_of(tab: LiveTab, kind: str) -> None:
    page = local_page() if kind == "local" else deployed_page()
    fill(page)
    async with opened(tab, page):
        await tab.until_there(".item")
        await tab.until_text("#status-parts", "Queues")
        await tab.tab.until("document.querySelectorAll('.uplot').length === 2")
        await tab.click(".item")
        await tab.until_there("#why-parts table")
        assert await tab.findings() == []
        charts = "[...document.querySelectorAll('figure [role=img]')].map((each) => each.ariaLabel)"
        assert [words.partition(":")[0] for words in await tab.tab.evaluate(charts)] == ["Chart"] * 2


@pytest.mark.parametrize("width", [400, 1280])
async def test_each_senders_title_fits_the_list(tab: LiveTab, width: int) -> None:
    """A button as wide as each title is no wider than the list, without its arrow."""
    async with opened(tab, local_page(), width):
        await tab.until_there("#sender option")
        too_wide = await tab.tab.evaluate(
            """(() => {
                const list = document.querySelector("#sender");
                const pen = document.createElement("canvas").getContext("2d");
                pen.font = getComputedStyle(list).font;
                return [...list.options].map((each) => each.text).filter((text) => pen.measureText(text).width > list.clientWidth - 44);
            })()"""
        )
    assert too_wide == []


async def test_by_the_keyboard_alone_something_is_sent_and_a_trouble_switched(tab: LiveTab) -> None:
    page = local_page()
    async with opened(tab, page):
        await tab.until_there("#trouble-flood")
        await until_focused(tab, "text")
        await tab.press("Enter")
        await tab.until_text("#send-answer", "sent")
        await until_focused(tab, "trouble-flood")
        await tab.press(" ")
        await tab.tab.until("document.querySelector('#trouble-flood').ariaDisabled === 'false'")
        assert await tab.focused() == "trouble-flood"
    assert page.asked == [
        ("send", {"sender": "message", "text": "Hello!"}),
        ("switch", {"trouble": "flood", "on": True}),
    ]


async def until_focused(tab: LiveTab, element_id: str) -> None:
    for _ in range(50):
        if await tab.focused() == element_id:
            return
        await tab.press("Tab")
    raise AssertionError(f"{element_id} is not reached")


async def test_a_trouble_that_cannot_be_caused_is_off_and_says_why(tab: LiveTab) -> None:
    page = local_page()
    page.refusal = ActionError("the node does not stop")
    async with opened(tab, page):
        await tab.switch("node-gone")
        await tab.until_text(".switch .refusal", "the node does not stop")
        assert await tab.tab.evaluate("document.querySelector('#trouble-node-gone').checked") is False


async def test_whoever_is_on_an_item_by_the_keyboard_keeps_it_while_others_come(tab: LiveTab) -> None:
    page = deployed_page()
    page.put(trail(0))
    async with opened(tab, page):
        await tab.until_there(".item")
        await tab.tab.evaluate("document.querySelector('.item').focus()")
        for number in range(1, 61):
            page.put(trail(number))
        await tab.tab.until("document.querySelectorAll('.item').length === 51")
        assert await tab.focused() == "item"
        await tab.press("Enter")
        await tab.until_text("#why-parts", "the provider took the push")
        await tab.press("Escape")


async def test_of_many_pushes_a_screen_reader_says_the_newest_now_and_then(tab: LiveTab) -> None:
    pushes = [examples.push(number, f"text {number}") for number in range(100)]
    async with opened(tab, MadeUpPage(controls=examples.controls(), phones=pushes)):
        await tab.until_text("#newest-push", "text 0")
        await tab.until_text("#newest-push", "text 99")


@pytest.mark.parametrize(
    "text",
    ["W" * 1_000, "a\n" * 500, "A\u0300\u0301\u0302" * 300, "\u202etxet eht nrut", "\U0001f469\u200d\U0001f467" * 300],
    ids=["wide", "long", "tall", "turned", "joined"],
)
async def test_no_text_on_a_phone_pushes_aside_what_stands_beside_it(tab: LiveTab, text: str) -> None:
    pushes = [examples.push(1, text)]
    async with opened(tab, MadeUpPage(controls=examples.controls(), phones=pushes), 400):
        await tab.until_there("#phone-cards li")
        height = await tab.tab.evaluate("document.querySelector('#phone-cards li').getBoundingClientRect().height")
        assert height < 160
        assert await tab.overflow() == 0


async def test_a_deployments_page_has_nothing_to_press_but_its_items(tab: LiveTab) -> None:
    page = deployed_page()
    page.put(trail(1))
    async with opened(tab, page):
        await tab.until_text("#status-parts", examples.ALARM["runbook"])
        await tab.until_there(".item")
        visible = "[...document.querySelectorAll('button, input, select')].filter((each) => each.checkVisibility())"
        assert await tab.tab.evaluate(f"{visible}.map((each) => each.className)") == ["item"]


async def test_the_verdict_says_when_it_was_read_and_is_stale_while_anything_is_not_read_anew(tab: LiveTab) -> None:
    page = deployed_page()
    async with opened(tab, page):
        await tab.until_text("#verdict", "1 alarm, as of 12:00:00 UTC")
        stale = "document.querySelector('#verdict').classList.contains('stale')"
        assert not await tab.tab.evaluate(stale)
        page.fault = ValueError("odd")
        await tab.tab.until(stale)
        page.fault = None
        await tab.tab.until(f"!{stale}")


async def test_an_alarm_that_has_nothing_to_look_at_yet_is_no_reason_to_do_anything(tab: LiveTab) -> None:
    alarm = {**examples.ALARM, "premature": True, "todo": "nothing: it is new"}
    async with opened(tab, MadeUpPage(local=False, status=examples.status(alarms=[alarm]))):
        await tab.until_text(".alarm.premature", "nothing: it is new")
        assert (await tab.text("#verdict")).startswith("all is well")


async def test_the_status_is_that_of_the_command(tab: LiveTab) -> None:
    async with opened(tab, deployed_page()):
        await tab.until_text("#status-parts", "since 2026-11-20 12:00 UTC")
        shown = await tab.text("#status-parts")
        assert all(words in shown for words in ("delayed", "xmtp: nodes connected", "rules behind", "900 ms", "task-1"))


@pytest.mark.parametrize("kind", ["local", "deployed"])
@pytest.mark.parametrize("width", [400, 1180, 1280, 1600])
async def test_how_old_and_how_many_dead_a_queues_messages_are_is_seen_without_scrolling(
    tab: LiveTab, kind: str, width: int
) -> None:
    async with opened(tab, local_page() if kind == "local" else deployed_page(), width):
        await tab.until_text("#status-parts", "Queues")
        [box_end, *heads] = await tab.tab.evaluate(
            """(() => {
                const box = document.querySelector("#status-parts .scroll");
                return [box, ...box.querySelectorAll("th")].map((each) => each.getBoundingClientRect().right);
            })()"""
        )
        seen = [head_end for head_end in heads if head_end <= box_end + 1]
        assert len(seen) >= (4 if width == 400 else len(heads))


async def test_where_cloudwatch_has_no_metrics_the_page_says_so_instead_of_showing_dashes(tab: LiveTab) -> None:
    none: dict[str, dict[str, float]] = {"counts": {}, "latency": {}, "gauges": {}, "nodes": {}, "ages": {}}
    async with opened(tab, MadeUpPage(controls=examples.controls(), status=examples.status(measures=none))):
        await tab.until_text("#status-parts", "CloudWatch has no metrics")
        shown = await tab.text("#status-parts")
        assert "task-1" in shown
        assert "rules behind" not in shown


async def test_what_waited_and_was_delivered_waits_no_more(tab: LiveTab) -> None:
    page = local_page()
    begun = now_ms() - 5_000
    waits = dict.fromkeys((Channel.APNS, Channel.FCM), PushDecision.RETRY)
    *_, delivered = trail(1, at=begun, pushes={Channel.APNS: PushDecision.DELIVERED})
    async with opened(tab, page):
        page.put(trail(1, at=begun, pushes=waits))
        await tab.until_text("[data-station=dispatch]", "2 retry")
        page.put([delivered])
        await tab.until_text("[data-station=dispatch]", "1 retry")
        await tab.until_text("#switches", "2 retry")


async def test_messages_of_each_stations_queues_are_counted(tab: LiveTab) -> None:
    async with opened(tab, deployed_page()):
        await tab.until_text("[data-station=envelopes]", "SQS: 1 message")
        await tab.until_text("[data-station=pushes]", "SQS: 5 messages")


async def test_a_table_that_scrolls_is_reached_by_the_keyboard_and_has_a_name(tab: LiveTab) -> None:
    async with opened(tab, deployed_page(), width=320):
        await tab.tab.until("document.querySelector('#status-parts .scroll[role=region]')?.tabIndex === 0")
        named = "[...document.querySelectorAll('.scroll[role=region]')].every((each) => each.ariaLabel)"
        assert await tab.tab.evaluate(named)


async def test_a_thousand_items_come_in_less_than_a_minute(tab: LiveTab) -> None:
    """In six seconds, each with three pushes; the page has all of them well before a minute is over."""
    page, count, seconds = local_page(), 1_000, 6
    async with opened(tab, page):
        await tab.tab.until("document.querySelectorAll('.station').length === 7")
        start = time.monotonic()
        for number in range(count):
            page.put(trail(number))
            await asyncio.sleep(max(0, start + seconds * number / count - time.monotonic()))
        await tab.tab.until(f"document.querySelector('[data-station=source] .stop').textContent === '{count}'")
        await tab.tab.until(f"document.querySelector('[data-station=phone] .stop').textContent === '{3 * count}'")
        assert time.monotonic() - start < 60
        assert await tab.text("#connection") == "live"
