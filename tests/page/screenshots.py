"""`make page-screenshots`: what a newcomer sees of the live page, for the README and docs/page.md.

The whole page, wide and narrow, light and dark, lies in `.build/page-screenshots/whole` afterwards.
"""

import asyncio
from pathlib import Path

from local.live.page import live_page
from local.system import running
from tests.local.chromium import headless
from tests.page.live_tab import LiveTab

DOCS = Path(__file__).parents[2] / "docs"
LOOKED_AT = DOCS.with_name(".build") / "page-screenshots" / "whole"
SENT = {
    "message": "Lunch at one?",
    "call": "Alice is calling",
    "xmtp": "See you there",
    "zulip": "The build is green",
    "walletconnect": "Your swap is done",
    "simplex": "It's me, Frank",
}
PHONE = "#phone-cards"


async def main() -> None:
    async with running("page-screenshots", print) as system, live_page(system) as address, headless() as devtools:
        tab = LiveTab(await devtools.new_page())
        await tab.open(address, 1280, "light")
        await _play(tab)
        (DOCS / "page-wide.png").write_bytes(await tab.screenshot(whole=False))
        await tab.open(address, 400, "dark")
        await tab.until_text(".chip", "delivered")
        (DOCS / "page-narrow.png").write_bytes(await tab.screenshot(whole=False))
        await _keep_all(tab, address)


async def _keep_all(tab: LiveTab, address: str) -> None:
    """The whole page in each form, for people to look at."""
    LOOKED_AT.mkdir(parents=True, exist_ok=True)
    for width in (1280, 400):
        for scheme in ("light", "dark"):
            await tab.open(address, width, scheme)
            await tab.until_text(".chip", "delivered")
            await tab.until_text("#status-parts", "Queues")
            (LOOKED_AT / f"{width}-{scheme}.png").write_bytes(await tab.screenshot())


async def _play(tab: LiveTab) -> None:
    """Something by each network, twice, as the first push of each waits for its function to start; then trouble."""
    for _ in range(2):
        for sender, text in SENT.items():
            await tab.send(sender, text)
            await tab.until_text(PHONE, text)
    for trouble, word in (
        ("forged-signature", "bad_signature"),
        ("dead-token", "token_gone"),
        ("flood", "rate_limited"),
    ):
        await tab.switch(trouble)
        await tab.until_text("#rail .chip", word)
        await tab.switch(trouble)
    for sender, text in SENT.items():
        await tab.send(sender, text)
        await tab.until_text(PHONE, text)
    # Until the last push is drawn.
    await asyncio.sleep(3)


if __name__ == "__main__":
    asyncio.run(main())
