"""Writes what has become of queues into their rows: the newest status of each, and only where it is another.

END ──is its bucket still this task's?──┬─ yes ──▶ written: another notifier has subscribed to it
                                        └─ no ───▶ forgotten: another task of ours has
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from clarion.faults import AWS_ERRORS, describe
from clarion.networks.simplex.queues import FollowedQueue, bucket_of
from clarion.networks.simplex.statuses import QueueStatus
from clarion.tables import update_if
from ingest.sources.simplex.queues import WatchedQueue

WRITERS = 4
_PAUSE_SECONDS = 1.0

log = logging.getLogger(__name__)


class StatusWriter:
    """`is_ours`: whether the queues that it writes of are this task's to follow, just now. May raise `AWS_ERRORS`.

    Whoever is `writing` has a thread of those that messages are sent on.
    """

    def __init__(self, is_ours: Callable[[], Awaitable[bool]], writing: asyncio.Semaphore) -> None:
        self._is_ours = is_ours
        self._turn = writing
        self._due, self._writing = set[WatchedQueue](), set[WatchedQueue]()
        self._any_due, self._idle = asyncio.Event(), asyncio.Event()
        self._signal()

    def change(self, queue: WatchedQueue, status: str) -> None:
        """To be written, unless the row has it."""
        if queue.status != status:
            queue.status = status
            if queue not in self._writing:
                self._due.add(queue)
                self._signal()

    async def write_forever(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(WRITERS):
                tasks.create_task(self._write_one_by_one())

    async def flush(self, seconds: float) -> None:
        """Wait until all is written, but no longer."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), seconds)

    async def _write_one_by_one(self) -> None:
        while True:
            while not self._due:  # another writer may have been quicker
                await self._any_due.wait()
            queue = self._due.pop()
            self._writing.add(queue)
            self._signal()
            written = await self._try_to_write(queue, queue.status)
            self._writing.discard(queue)
            if written != queue.status:
                self._due.add(queue)
            self._signal()

    async def _try_to_write(self, queue: WatchedQueue, status: str) -> str | None:
        """The status, if nothing is left to be done about it."""
        try:
            async with self._turn:
                await self._write(queue, status)
        except AWS_ERRORS as error:
            log.warning("status not written", extra={"error": describe(error)})
            await asyncio.sleep(_PAUSE_SECONDS)
            return None
        return status

    async def _write(self, queue: WatchedQueue, status: str) -> None:
        if status != QueueStatus.END or await self._is_ours():
            await asyncio.to_thread(_update, queue, status)

    def _signal(self) -> None:
        for event, holds in ((self._any_due, bool(self._due)), (self._idle, not self._due and not self._writing)):
            if holds:
                event.set()
            else:
                event.clear()


def _update(queue: WatchedQueue, status: str) -> None:
    """Unless an agent has asked for the queue anew, or given it up. From then on it is in its server's bucket."""
    same = (FollowedQueue.token_id == queue.token_id) & (FollowedQueue.changed_at == queue.changed_at)
    changes = FollowedQueue.status.set(status), FollowedQueue.bucket.set(bucket_of(queue.server))
    update_if(FollowedQueue(queue.key), *changes, condition=same)
