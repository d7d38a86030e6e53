"""A source is followed again and again, as long as the task runs, and left alone in between.

lost ──▶ 0.5 s to 60 s, longer each time      a fault ──▶ 10 s to 60 s      renewed ──▶ at once
"""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Never

from clarion.metrics import Metric
from ingest.counts import OfNetwork
from ingest.downstream import Downstream
from ingest.faults import traces
from ingest.sources import SourceFault, SourceLost

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 60.0
FAULTY_PAUSE = 10.0
"""A source that breaks the protocol is left alone for longer than one that has merely gone."""
_STEADY_SECONDS = 60.0

log = logging.getLogger(__name__)


async def follow_with_backoff(name: str, downstream: Downstream, listen: Callable[[], Awaitable[None]]) -> Never:
    """`listen` returns if it is to be called again at once. Whatever it raises but a cancellation is logged and counted."""
    pause = FIRST_PAUSE
    while True:
        began = time.monotonic()
        least = await _listen_once(name, downstream, listen)
        if least is None:
            continue
        steady = time.monotonic() - began > _STEADY_SECONDS
        pause = least if steady else max(pause, least)
        await asyncio.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - jitter
        pause = min(LONGEST_PAUSE, pause * 2)


async def _listen_once(name: str, downstream: Downstream, listen: Callable[[], Awaitable[None]]) -> float | None:
    """Return for how long to leave the source alone, None if not at all."""
    try:
        await listen()
    except SourceFault as fault:
        downstream.counts[OfNetwork(Metric.NODE_FAULTS, downstream.feed.network)] += 1
        log.warning("node lost", extra={"node": name, "reason": str(fault)}, exc_info=fault.__cause__)
        return FIRST_PAUSE if isinstance(fault, SourceLost) else FAULTY_PAUSE
    except Exception as error:  # noqa: BLE001 - all that a source can cause is a `SourceFault`; a bug must stop no other
        downstream.counts[Metric.INTERNAL_ERRORS] += 1
        log.error("internal error", extra={"node": name, "errors": traces(error)})  # noqa: TRY400 - its text may quote secrets
        return FAULTY_PAUSE
    return None


async def run_together(*works: Coroutine[object, object, None]) -> None:
    """Until one of them fails, whose error is raised."""
    try:
        async with asyncio.TaskGroup() as tasks:
            for work in works:
                tasks.create_task(work)
    except ExceptionGroup as group:
        raise group.exceptions[0] from None
