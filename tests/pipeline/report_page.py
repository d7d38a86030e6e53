"""The report's page in a tab of Chromium, measured as a person sees it; `report_page.js` does the measuring."""

import base64
from dataclasses import dataclass
from pathlib import Path

from tests.local.chromium import Target

HEIGHT = 800
_MEASURE = Path(__file__).with_suffix(".js").read_text()


@dataclass(frozen=True)
class ShownText:
    """`pixels` is how large its letters are, `contrast` to what lies behind it; the box is on the whole page."""

    text: str
    pixels: float
    contrast: float
    left: float
    right: float
    top: float
    bottom: float


class ReportPage:
    def __init__(self, tab: Target) -> None:
        self._tab = tab
        self._width = 0

    async def open(self, html: Path, width: int, scheme: str) -> None:
        """`scheme` is `light` or `dark`."""
        self._width = width
        metrics = {"width": width, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": True}
        await self._tab.call("Emulation.setDeviceMetricsOverride", **metrics)
        preferred = [{"name": "prefers-color-scheme", "value": scheme}]
        await self._tab.call("Emulation.setEmulatedMedia", features=preferred)
        await self._tab.call("Page.navigate", url=html.as_uri())
        await self._tab.until(f"location.href === '{html.as_uri()}' && document.readyState === 'complete'")
        await self._tab.until(f"screen.width === {width}")
        await self._tab.evaluate(_MEASURE)

    async def open_details(self) -> None:
        await self._tab.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")

    async def texts(self) -> list[ShownText]:
        """From the top of the page to its end."""
        found = [ShownText(**each) for each in await self._tab.evaluate("texts()")]
        return sorted(found, key=lambda shown: shown.top)

    async def shapes(self) -> list[float]:
        """The contrast of each thing that is drawn in the colour of its series."""
        contrasts: list[float] = await self._tab.evaluate("shapes()")
        return contrasts

    async def collisions(self) -> list[str]:
        """Texts of charts that lie over another, or outside of their chart."""
        found: list[str] = await self._tab.evaluate("collisions()")
        return found

    async def overflow(self) -> int:
        """By how many pixels the page is wider than its screen."""
        widest: int = await self._tab.evaluate("document.documentElement.scrollWidth")
        return max(0, widest - self._width)

    async def evaluate(self, expression: str) -> object:
        return await self._tab.evaluate(expression)

    async def screenshot(self) -> bytes:
        """Of the whole page, as PNG."""
        taken = await self._tab.call("Page.captureScreenshot", captureBeyondViewport=True)
        return base64.b64decode(taken["data"])
