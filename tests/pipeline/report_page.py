"""The report's page in a tab of Chromium, measured as a person sees it."""

import base64
from pathlib import Path
from typing import Any

from tests.local.chromium import Target

TEXTS = """
(() => {
  const parse = (colour) => (colour.match(/[\\d.]+/g) ?? []).map(Number);
  const opaque = (colour) => { const [, , , alpha = 1] = parse(colour); return alpha > 0; };
  const luminance = (colour) => {
    const [red, green, blue] = parse(colour).map((part) => part / 255)
      .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const contrast = (one, other) => {
    const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  // Behind an element: its own or its ancestors' background. A row's bar lies over that, and has to do as well.
  const behind = (element) => {
    const found = [];
    for (let each = element; each; each = each.parentElement) {
      const style = getComputedStyle(each);
      found.push(...(style.backgroundImage.match(/rgba?\\([^)]+\\)/g) ?? []));
      if (opaque(style.backgroundColor)) return [...found, style.backgroundColor];
    }
    throw new Error("nothing is behind " + element.outerHTML);
  };
  const scale = (element) => element.ownerSVGElement ? element.getScreenCTM().a : 1;
  const described = (element) => {
    const style = getComputedStyle(element);
    const box = element.getBoundingClientRect();
    const colour = element.ownerSVGElement ? style.fill : style.color;
    return {
      text: element.textContent.trim().replace(/\\s+/g, " "),
      pixels: parseFloat(style.fontSize) * scale(element),
      contrast: Math.min(...behind(element).map((background) => contrast(colour, background))),
      left: box.left, right: box.right, top: box.top + scrollY, bottom: box.bottom + scrollY,
      width: box.width,
    };
  };
  const hasText = (element) => [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  const hidden = (element) => element.closest("title, style, head");
  return [...document.querySelectorAll("html *")].filter((each) => hasText(each) && !hidden(each)).map(described);
})()
"""
SHAPES = """
(() => {
  const parse = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const luminance = (colour) => {
    const [red, green, blue] = parse(colour).map((part) => part / 255)
      .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const card = luminance(getComputedStyle(document.querySelector("section")).backgroundColor);
  return [...document.querySelectorAll("svg .series .rect, svg .series .dot, .legend i")].map((each) => {
    const style = getComputedStyle(each);
    const own = luminance(each.ownerSVGElement ? style.fill : style.backgroundColor);
    return (Math.max(own, card) + 0.05) / (Math.min(own, card) + 0.05);
  });
})()
"""
"""The contrast of each thing that is drawn in the colour of its series."""
OVERLAPS = """
[...document.querySelectorAll("svg")].flatMap((svg) => {
  const outer = svg.getBoundingClientRect();
  const boxes = [...svg.querySelectorAll("text")].map((each) => [each.textContent, each.getBoundingClientRect()]);
  const apart = (a, b) => a.right <= b.left || b.right <= a.left || a.bottom <= b.top || b.bottom <= a.top;
  const inside = (box) => box.left >= outer.left - 1 && box.right <= outer.right + 1 && box.bottom <= outer.bottom + 1;
  return boxes.flatMap(([text, box], place) => [
    ...boxes.slice(place + 1).filter(([, other]) => !apart(box, other)).map(([other]) => `${text} over ${other}`),
    ...(inside(box) ? [] : [`${text} is cut off`]),
  ]);
})
"""
"""Texts of charts that lie over another, or outside of their chart."""


class ReportPage:
    def __init__(self, tab: Target) -> None:
        self._tab = tab

    async def open(self, html: Path, width: int, scheme: str) -> None:
        """With all that can be opened open."""
        metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": True}
        await self._tab.call("Emulation.setDeviceMetricsOverride", **metrics)
        preferred = [{"name": "prefers-color-scheme", "value": scheme}]
        await self._tab.call("Emulation.setEmulatedMedia", features=preferred)
        await self._tab.call("Page.navigate", url=html.as_uri())
        await self._tab.until(f"location.href === '{html.as_uri()}' && document.readyState === 'complete'")
        await self._tab.until(f"innerWidth === {width} || document.documentElement.scrollWidth > {width}")

    async def open_details(self) -> None:
        await self._tab.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")

    async def texts(self) -> list[dict[str, Any]]:
        """Each element that has text of its own: `text, pixels, contrast` and its box on the page."""
        texts: list[dict[str, Any]] = await self._tab.evaluate(TEXTS)
        return texts

    async def shapes(self) -> list[float]:
        contrasts: list[float] = await self._tab.evaluate(SHAPES)
        return contrasts

    async def overlaps(self) -> list[str]:
        found: list[str] = await self._tab.evaluate(OVERLAPS)
        return found

    async def overflow(self, width: int) -> int:
        """By how many pixels the page is wider than its screen."""
        widest: int = await self._tab.evaluate("document.documentElement.scrollWidth")
        return max(0, widest - width)

    async def evaluate(self, expression: str) -> Any:
        return await self._tab.evaluate(expression)

    async def screenshot(self) -> bytes:
        """The whole page, as PNG."""
        taken = await self._tab.call("Page.captureScreenshot", captureBeyondViewport=True)
        return base64.b64decode(taken["data"])
