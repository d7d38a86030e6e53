"""An outage of the deployed stack: what ingest takes in meanwhile is lost before match sees it."""

import asyncio
import time
from collections.abc import Sequence

from local.scenes import QUIET
from local.system import PATIENCE, System

QUEUE = "envelopes"


async def lose(system: System, raws: Sequence[bytes]) -> None:
    """Publish statements whose messages vanish from the queue."""
    await asyncio.to_thread(_switch, system, on=False)
    for raw in raws:
        await system.store.inject(raw)
    async with asyncio.timeout(PATIENCE):
        while system.messages().get(QUEUE, 0) < len(raws):  # noqa: ASYNC110 - another process fills the queue
            await asyncio.sleep(QUIET)
    await asyncio.to_thread(system.client("sqs").purge_queue, QueueUrl=system.queue_urls[QUEUE])
    await asyncio.to_thread(_switch, system, on=True)


def _switch(system: System, *, on: bool) -> None:
    """Have match fed from its queue or not."""
    functions = system.client("lambda")
    mappings = functions.list_event_source_mappings()["EventSourceMappings"]
    fed = [each["UUID"] for each in mappings if each["EventSourceArn"].endswith(f"-{QUEUE}")]
    for mapping in fed:
        functions.update_event_source_mapping(UUID=mapping, Enabled=on)
    deadline = time.monotonic() + PATIENCE
    while any(functions.get_event_source_mapping(UUID=each)["State"] != _STATES[on] for each in fed):
        if time.monotonic() > deadline:
            raise TimeoutError("the event source of match does not change")
        time.sleep(QUIET)


_STATES = {True: "Enabled", False: "Disabled"}
