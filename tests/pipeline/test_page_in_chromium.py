"""What a person sees of the report: on a wide screen and on a phone's, in light and in dark."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from pipeline.report.page import page
from tests.local.chromium import headless
from tests.pipeline import reports
from tests.pipeline.report_page import HEIGHT, ReportPage

pytestmark = pytest.mark.asyncio(loop_scope="module")

SCREENS = [(width, scheme) for width in (1280, 400) for scheme in ("light", "dark")]
LEAST_PIXELS = 12
AA_TEXT, AA_SHAPE = 4.5, 3.0
"""https://www.w3.org/TR/WCAG22/#contrast-minimum and #non-text-contrast"""
SCREENSHOTS = Path(__file__).parents[2] / ".build" / "report-pages"
HOSTILE = "<img src=x onerror='seized=1'><script>seized=1</script>" + "W" * 200


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tab() -> AsyncIterator[ReportPage]:
    async with headless() as devtools:
        yield ReportPage(await devtools.new_page())


def keep(path: Path, screenshot: bytes) -> None:
    path.write_bytes(screenshot)


def written(name: str, tables: reports.MadeUp) -> Path:
    """The page, where its screenshots go as well, for people to look at."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    html = SCREENSHOTS / f"{name.replace(' ', '-')}.html"
    html.write_text(page(tables, reports.ABOUT, reports.earlier()))
    return html


@pytest.mark.parametrize(("width", "scheme"), SCREENS)
@pytest.mark.parametrize("day", reports.DAYS)
async def test_all_can_be_read_and_nothing_is_cut_off(tab: ReportPage, day: str, width: int, scheme: str) -> None:
    html = written(day, reports.DAYS[day]())
    await tab.open(html, width, scheme)
    keep(html.with_name(f"{html.stem}-{width}-{scheme}.png"), await tab.screenshot())
    await tab.open_details()

    texts = await tab.texts()
    assert len(texts) > 50
    assert [shown for shown in texts if shown.pixels < LEAST_PIXELS] == []
    assert [shown for shown in texts if shown.contrast < AA_TEXT] == []
    assert [contrast for contrast in await tab.shapes() if contrast < AA_SHAPE] == []
    assert await tab.collisions() == []
    assert await tab.overflow() == 0


@pytest.mark.parametrize(("width", "scheme"), SCREENS)
async def test_an_outage_is_the_first_thing_a_person_sees(tab: ReportPage, width: int, scheme: str) -> None:
    """Larger than all else, at the top, and with what to do about it before the first screen ends."""
    await tab.open(written("outage", reports.outage()), width, scheme)
    texts = await tab.texts()
    largest = max(texts, key=lambda shown: shown.pixels)

    assert largest.text == "1,317 notifications missing"
    assert [shown.text for shown in texts if shown.top < largest.top] == ["Something went wrong"]
    assert largest.pixels >= 1.4 * max(shown.pixels for shown in texts if shown is not largest)
    seen = " ".join(shown.text for shown in texts if shown.bottom <= HEIGHT)
    assert "8,826 of 9,504 wanted notifications delivered: 92.8%." in seen
    assert "replay --from 2026-11-20T00:00:00 --to 2026-11-21T00:00:00" in seen


async def test_no_script_runs_on_the_page_however_it_came_there(tab: ReportPage) -> None:
    await tab.open(written("healthy", reports.healthy()), 1280, "light")
    await tab.evaluate("document.body.append(Object.assign(document.createElement('script'), {text: 'seized = 1'}))")
    assert await tab.evaluate("typeof seized") == "undefined"


@pytest.mark.parametrize("width", [1280, 400])
async def test_a_strangers_words_neither_run_nor_widen_the_page(tab: ReportPage, width: int) -> None:
    await tab.open(written("hostile", reports.hostile(HOSTILE)), width, "light")
    await tab.open_details()

    assert await tab.evaluate("typeof seized") == "undefined"
    assert await tab.evaluate("document.querySelectorAll('img, script').length") == 0
    assert any(HOSTILE in shown.text for shown in await tab.texts())
    assert await tab.overflow() == 0
