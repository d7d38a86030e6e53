"""The live page in a tab of Chromium, used as a person would."""

import base64
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from tests.local.chromium import Target

_MEASURE = (Path(__file__).parents[1] / "pipeline" / "report_page.js").read_text()
_STRUCTURE = Path(__file__).with_name("structure.js").read_text()
_LISTED = "[...document.querySelectorAll('#item-list li')]"
HEIGHT = 900


class LiveTab:
    def __init__(self, tab: Target) -> None:
        self.tab = tab

    async def open(self, address: str, width: int = 1280, scheme: str = "light") -> None:
        """`scheme` is `light` or `dark`."""
        metrics = {"width": width, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": True}
        await self.tab.call("Emulation.setDeviceMetricsOverride", **metrics)
        preferred = [{"name": "prefers-color-scheme", "value": scheme}]
        await self.tab.call("Emulation.setEmulatedMedia", features=preferred)
        await self.tab.call("Page.navigate", url=address)
        await self.tab.until(f"location.href === {json.dumps(address)} && document.readyState === 'complete'")
        await self.tab.until("document.querySelector('#connection')?.textContent === 'live'")

    async def text(self, selector: str) -> str:
        return str(await self.tab.evaluate(f"document.querySelector({json.dumps(selector)}).innerText"))

    async def until_text(self, selector: str, text: str) -> None:
        """Wait until something that the selector finds has the text in it."""
        found = f"[...document.querySelectorAll({json.dumps(selector)})]"
        await self.tab.until(f"{found}.some((each) => each.textContent.includes({json.dumps(text)}))")

    async def until_phone_shows(self, phone: str, text: str) -> None:
        """On one of its cards, of which it has one for each channel."""
        await self._until_card(phone, "li:not(.refused)", text)

    async def until_phone_refuses(self, phone: str, reason: str) -> None:
        """For its provider."""
        await self._until_card(phone, "li.refused", reason)

    async def _until_card(self, phone: str, kind: str, text: str) -> None:
        shows = "[...document.querySelectorAll('.phone')].some((card) => card.querySelector('h3').textContent === "
        newest = f"[...card.querySelectorAll('{kind}')].some((push) => push.textContent.includes("
        await self.tab.until(f"{shows}{json.dumps(phone)} && {newest}{json.dumps(text)})))")

    async def until_there(self, selector: str) -> None:
        await self.tab.until(f"document.querySelector({json.dumps(selector)}) !== null")

    async def click(self, selector: str) -> None:
        await self.until_there(selector)
        await self.tab.evaluate(f"document.querySelector({json.dumps(selector)}).click()")

    async def keys(self) -> list[str]:
        """Those of the items on the list."""
        listed: list[str] = await self.tab.evaluate(f"{_LISTED}.map((each) => each.dataset.key)")
        return listed

    async def click_new(self, known: Collection[str], network: str, words: str) -> None:
        """On the item that is none of the `known`, once it has the words."""
        new = f"{_LISTED}.filter((each) => !{json.dumps(list(known))}.includes(each.dataset.key))"
        wanted = (
            f"each.textContent.includes({json.dumps(f'{network} ')}) && each.textContent.includes({json.dumps(words)})"
        )
        key = await self.tab.until(f"{new}.find((each) => {wanted})?.dataset.key")
        await self.click(f"#item-list li[data-key='{key}'] .item")

    async def send(self, sender: str, text: str) -> None:
        """By the button, once its sender is ready."""
        await self.until_there(f"#sender option[value={sender}]")
        await self.tab.evaluate(
            f"""{{
                const [sender, text] = [document.querySelector("#sender"), document.querySelector("#text")];
                sender.value = {json.dumps(sender)};
                sender.dispatchEvent(new Event("change"));
                text.value = {json.dumps(text)};
            }}"""
        )
        await self.tab.until("!document.querySelector('#send-button').disabled")
        await self.click("#send-button")

    async def switch(self, trouble: str) -> None:
        await self.click(f"#trouble-{trouble}")
        await self.tab.until(f"document.querySelector('#trouble-{trouble}').ariaDisabled === 'false'")

    async def hide(self, *, hidden: bool) -> None:
        """As a browser does when another tab is shown instead. Without a screen, Chromium hides none by itself."""
        await self.tab.evaluate(
            f"""{{
                Object.defineProperty(document, "hidden", {{ configurable: true, get: () => {json.dumps(hidden)} }});
                document.dispatchEvent(new Event("visibilitychange"));
            }}"""
        )

    async def press(self, key: str) -> None:
        """Of `Tab`, `Enter`, `Escape` and ` `."""
        text = {"Enter": "\r", " ": " "}.get(key, "")
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32}
        pressed = {"key": key, "text": text, "windowsVirtualKeyCode": codes[key]}
        await self.tab.call("Input.dispatchKeyEvent", type="keyDown", **pressed)
        await self.tab.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=codes[key])

    async def texts(self) -> list[dict[str, Any]]:
        """Each text with its size in `pixels` and its `contrast` to what lies behind it."""
        await self.tab.evaluate(_MEASURE)
        found: list[dict[str, Any]] = await self.tab.evaluate("texts()")
        return found

    async def findings(self) -> list[str]:
        """What of the page's structure a screen reader lacks."""
        await self.tab.evaluate(_STRUCTURE)
        found: list[str] = await self.tab.evaluate("findings()")
        return found

    async def focused(self) -> str:
        """The id of what has the keyboard, or its class."""
        return str(await self.tab.evaluate("document.activeElement.id || document.activeElement.className"))

    async def overflow(self) -> int:
        """By how many pixels the page is wider than its screen."""
        widest: int = await self.tab.evaluate("document.documentElement.scrollWidth - screen.width")
        return max(0, widest)

    async def screenshot(self, *, whole: bool = True) -> bytes:
        """Of the whole page or of its first screen, as PNG."""
        taken = await self.tab.call("Page.captureScreenshot", captureBeyondViewport=whole)
        return base64.b64decode(taken["data"])
