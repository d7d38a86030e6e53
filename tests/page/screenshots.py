"""`make page-screenshots`: what a newcomer sees of the live page, for the README and docs/page.md."""

import asyncio
from pathlib import Path

from local.live.page import live_page
from local.system import running
from tests.local.chromium import headless
from tests.page.live_tab import LiveTab

DOCS = Path(__file__).parents[2] / "docs"
SENT = {
    "message": "Lunch at one?",
    "call": "Alice is calling",
    "xmtp": "See you there",
    "zulip": "The build is green",
    "walletconnect": "Your swap is done",
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
