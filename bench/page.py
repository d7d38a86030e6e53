"""From a decision of the emulated stack until the live page shows it: `make bench-page`.

    python -m bench.page --rate 17 --seconds 60

1,000 items a minute are 17 a second. The stack, the page's server, Chromium and the phones' stand-ins share one machine.
"""

import argparse
import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from bench.figures import Figure, report
from bench.latency import WARM_UP_S, Senders, percentiles
from local.live.page import live_page
from local.system import running
from tests.local.chromium import headless
from tests.page.lag import Lag, ShownMark
from tests.page.live_tab import LiveTab

RATE, SECONDS = 17.0, 60.0
SHOWN_S = 30
WORDS = ("observed", "matched", "queued", "delivered")
"""What becomes of each item, in this order."""


@dataclass(frozen=True)
class PageLag:
    """`submitted` has the keys of the items, `marks` what the page has shown of them."""

    rate: float
    submitted: Mapping[str, float]
    marks: Sequence[ShownMark]

    def figures(self) -> list[Figure]:
        return [figure for word in WORDS for figure in self._of(word)]

    def _of(self, word: str) -> list[Figure]:
        lags = [mark.lag_s for mark in self.marks if mark.word == word]
        at = f"the page, {self.rate:g} items/s: {word}"
        shown = Figure.beside(f"{at}, shown beside submitted", len(lags), len(self.submitted), "items")
        if len(lags) < 2:
            return [shown]
        p50, p99 = percentiles(lags)
        within = sum(lag <= 1 for lag in lags) / len(lags)
        return [
            shown,
            Figure.alone(f"{at}, until it is shown, median", p50 * 1000, "ms"),
            Figure.alone(f"{at}, until it is shown, 99th percentile", p99 * 1000, "ms"),
            Figure.alone(f"{at}, shown within a second", within * 100, "%"),
        ]


async def measure(senders: Senders, tab: LiveTab, rate: float, seconds: float) -> PageLag:
    lag = Lag(tab)
    await lag.begin()
    submitted = await senders.submit(rate, seconds)
    return PageLag(rate, submitted, await _shown(lag, submitted))


async def _shown(lag: Lag, submitted: Mapping[str, float]) -> list[ShownMark]:
    """What is there once all were delivered, or are late."""
    marks = list[ShownMark]()
    for _ in range(SHOWN_S):
        marks = [mark for mark in await lag.marks() if mark.key in submitted]
        if sum(mark.word == WORDS[-1] for mark in marks) == len(submitted):
            break
        await asyncio.sleep(1)
    return marks


@asynccontextmanager
async def _watched() -> AsyncIterator[tuple[Senders, LiveTab]]:
    async with (
        running("bench-page", lambda _: None) as system,
        live_page(system) as address,
        headless() as devtools,
    ):
        tab = LiveTab(await devtools.new_page())
        await tab.open(address)
        yield Senders(system), tab


async def measured(rate: float, seconds: float) -> PageLag:
    """Once the functions have started."""
    async with _watched() as (senders, tab):
        await senders.submit(rate, WARM_UP_S)
        return await measure(senders, tab, rate, seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=RATE, help="items a second")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    options = parser.parse_args()
    report(asyncio.run(measured(options.rate, options.seconds)).figures())


if __name__ == "__main__":
    main()
