"""What changes among all queues while they are followed: two reads for the buckets of a task together.

NEWS ──every `POLL_SECONDS`──▶ taken by the bucket of its server        ENDED ──every `ENDED_POLL_SECONDS`──▶ forgotten
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Never

from clarion.clock import now_ms
from clarion.faults import AWS_ERRORS, describe
from clarion.networks.simplex.queues import NEWS
from ingest.counts import Counts
from ingest.sources.simplex.queues import WatchedQueue
from ingest.sources.simplex.rows import read_ended, read_rows

POLL_SECONDS = 0.75
"""A read of no news costs half a read unit: 0.22 dollars a month."""
ENDED_POLL_SECONDS = 15.0
"""What servers still show of those that were given up matches no rule."""
OVERLAP_MS = 15_000
"""So long may a queue take from its `changed_at` into the index, clocks that differ included."""
_ENDED_OVERLAP_MS = 60_000

log = logging.getLogger(__name__)


class QueueNews:
    def __init__(
        self, counts: Counts, take: Callable[[WatchedQueue], None], forget: Callable[[bytes, int], None]
    ) -> None:
        """`forget` is called with the key of each that was given up, and with when."""
        self._counts = counts
        self._take = take
        self._forget = forget
        self._reads_all = True
        self._latest = now_ms()
        """The youngest `changed_at` that was read."""
        # Buckets are read when they begin to be followed, and have none that ended before.
        self._ended_since = now_ms() - _ENDED_OVERLAP_MS
        self.fresh = False
        """Whether the last read succeeded."""

    def read_all_next(self) -> None:
        """At the next read, since another bucket is followed now."""
        self._reads_all = True

    async def follow(self) -> Never:
        while True:
            await self._read()
            await asyncio.sleep(POLL_SECONDS)

    async def forget_ended_forever(self) -> Never:
        while True:
            began = now_ms()
            try:
                ended = await asyncio.to_thread(read_ended, self._ended_since)
            except AWS_ERRORS as error:
                log.warning("ended queues not read", extra={"error": describe(error)})
            else:
                self._ended_since = began - _ENDED_OVERLAP_MS
                for key, ended_at in ended:
                    self._forget(key, ended_at)
            await asyncio.sleep(ENDED_POLL_SECONDS)

    async def _read(self) -> None:
        since, self._reads_all = 0 if self._reads_all else self._latest - OVERLAP_MS, False
        try:
            async for queue in read_rows(NEWS, self._counts, since):
                self._latest = max(self._latest, min(queue.changed_at, now_ms()))
                self._take(queue)
        except AWS_ERRORS as error:
            self._reads_all |= not since
            self.fresh = False
            log.warning("news not read", extra={"error": describe(error)})
        else:
            self.fresh = True
