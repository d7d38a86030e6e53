"""The API's interactive page in a tab of Chromium, used as a person would: by its buttons and fields."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tests.local.chromium import Target

FILL = """
    ((field, text) => {
        field.focus();
        field.select();
        document.execCommand("insertText", false, text);
    })
"""


@dataclass(frozen=True)
class ShownAnswer:
    """`body` is None if the page shows none."""

    status: int
    body: Any


class DocsPage:
    def __init__(self, tab: Target) -> None:
        self._tab = tab

    async def open(self, address: str, width: int) -> None:
        await self._resize(width)
        await self._tab.call("Page.navigate", url=address)
        await self._tab.until(has(".opblock"))

    async def authorize(self, token: str) -> None:
        await self._click(".auth-wrapper .authorize")
        await self._fill(".modal-ux input", token)
        await self._click(".modal-ux .authorize")
        await self._click(".modal-ux .btn-done")

    async def execute(self, operation: str, body: object = None) -> ShownAnswer:
        """Once on a page for each operation, by its id."""
        block = f".opblock[id$=-{operation}]"
        await self._click(f"{block} .opblock-summary-control")
        # Swagger UI never ends what is executed before it has resolved the operation. With that, it shows examples.
        await self._tab.until(has(f"{block} .responses-inner .highlight-code code"))
        if body is not None:
            # The page fills in its example first.
            await self._tab.until(f"{found(f'{block} textarea')}?.value")
            await self._fill(f"{block} textarea", json.dumps(body))
        await self._click(f"{block} .execute")
        answer = f"{block} .live-responses-table .response"
        await self._tab.until(has(answer))
        status = await self._tab.evaluate(f"{found(f'{answer} .response-col_status')}.textContent")
        shown = await self._tab.evaluate(f"{found(f'{answer} .highlight-code code')}?.textContent")
        return ShownAnswer(int(status), json.loads(shown) if shown else None)

    async def overflows(self, widths: Iterable[int]) -> dict[int, int]:
        """By how many pixels the page is wider than screens of these widths, with any one more operation open.

        Swagger UI takes twice as long if all are: it shows each anew whenever another is resolved.
        """
        overflows = {width: await self._overflow(width) for width in widths}
        closed = "[...document.querySelectorAll('.opblock:not(.is-open)')].map((each) => each.id)"
        for name in await self._tab.evaluate(closed):
            block = f".opblock[id={json.dumps(name)}]"
            await self._click(f"{block} .opblock-summary-control")
            await self._tab.until(has(f"{block} .response"))
            overflows = {width: max(known, await self._overflow(width)) for width, known in overflows.items()}
            await self._click(f"{block} .opblock-summary-control")
        return overflows

    async def _overflow(self, width: int) -> int:
        await self._resize(width)
        await self._tab.until(f"screen.width === {width}")
        widest: int = await self._tab.evaluate("document.documentElement.scrollWidth")
        return max(0, widest - width)

    async def _resize(self, width: int) -> None:
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": True}
        await self._tab.call("Emulation.setDeviceMetricsOverride", **metrics)

    async def _click(self, selector: str) -> None:
        await self._tab.until(has(selector))
        await self._tab.evaluate(f"{found(selector)}.click()")

    async def _fill(self, selector: str, text: str) -> None:
        await self._tab.until(has(selector))
        await self._tab.evaluate(f"{FILL}({found(selector)}, {json.dumps(text)})")
        await self._tab.until(f"{found(selector)}.value === {json.dumps(text)}")


def found(selector: str) -> str:
    return f"document.querySelector({json.dumps(selector)})"


def has(selector: str) -> str:
    return f"{found(selector)} !== null"
