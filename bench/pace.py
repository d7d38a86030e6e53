"""Latency through the emulated stack, and the highest pace that it holds, in one run."""

import asyncio
from collections.abc import Mapping

from bench.figures import Figure
from bench.latency import (
    RATE,
    SECONDS,
    WARM_UP_S,
    Latency,
    Senders,
    emulated_senders,
    measure,
    percentiles,
    received_by,
)

PACES = tuple(range(25, 201, 25))
"""Statements a second."""
STEP_S = 20
LATE_S = 10
"""After the end of a step; what is received later is lost to it."""
LOST = 0.01
SLOWEST_S = 2.0
"""A pace is held if a smaller part than `LOST` is lost, and the 99th percentile of the others takes no longer."""


def figures() -> list[Figure]:
    return asyncio.run(_figures())


async def _figures() -> list[Figure]:
    async with emulated_senders() as senders:
        return figures_of(await measure(senders, RATE, SECONDS), await highest_pace(senders))


def figures_of(latency: Latency, pace: float) -> list[Figure]:
    highest = Figure.beside("emulated: highest pace, beside the highest tried", pace, PACES[-1], "statements/s")
    return [*latency.figures(), highest]


async def highest_pace(senders: Senders) -> float:
    """The last of `PACES` before the first that is not held; 0 if that is the first."""
    highest = 0
    for pace in PACES:
        # Functions that start, and rules that were written lately, don't count.
        await senders.submit(pace, WARM_UP_S, arrival_s=LATE_S)
        submitted = await senders.submit(pace, STEP_S, arrival_s=LATE_S)
        if not holds(submitted, received_by(senders.system)):
            break
        highest = pace
    return highest


def holds(submitted: Mapping[str, float], received: Mapping[str, float]) -> bool:
    """Takes the times of each statement. Whether so many are there, and so soon, that nothing can have piled up."""
    seconds = [received[name] - at for name, at in submitted.items() if name in received]
    return len(seconds) > (1 - LOST) * len(submitted) and percentiles(seconds)[1] <= SLOWEST_S
