"""The servers of one bucket, for as long as it is this task's: its queues as the table has them, and then what is new.

rows ──▶ a server's first queue: it is followed ──▶ it has had none for a while: it is left
  └─ no room: not followed, until the next reading
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from itertools import chain, repeat

from clarion.clock import now_ms
from clarion.faults import AWS_ERRORS, describe
from clarion.networks.simplex.addresses import SmpServer
from clarion.networks.simplex.queues import FOLLOWED
from ingest.sources.following import run_together
from ingest.sources.simplex.queues import WatchedQueue
from ingest.sources.simplex.room import QUEUE_BYTES, SERVER_BYTES
from ingest.sources.simplex.rows import read_rows
from ingest.sources.simplex.server import FollowedServer, ServerContext
from ingest.sources.simplex.statuses import StatusWriter

SECOND_READING_SECONDS = 20.0
"""After the first one, for what was on its way into the bucket then."""
READING_SECONDS = 3_600.0
"""Between two readings from then on, for what took longer, what there was no room for, and what has expired."""
RETRY_SECONDS = 5.0
EMPTY_SECONDS = 30.0
"""A server without queues is kept for as long at least: who adds and removes one must not have us connect each time."""
FLUSH_SECONDS = 3.0
MOST_COUNTED = 1_000
"""Of the queues that there is no room for, by each bucket."""

log = logging.getLogger(__name__)


class FollowedBucket:
    def __init__(
        self,
        bucket: int,
        context: ServerContext,
        is_ours: Callable[[], Awaitable[bool]],
        on_read: Callable[[], None],
    ) -> None:
        """`is_ours` reads whether the bucket is still this task's; may raise `AWS_ERRORS`.

        `on_read` is called after each reading, which leaves out what is in `NEWS`.
        """
        self._bucket = bucket
        self._context = context
        self._on_read = on_read
        self._statuses = StatusWriter(is_ours, context.writing)
        self._servers: dict[bytes, FollowedServer] = {}
        """By their encoded address."""
        self._following: dict[bytes, asyncio.Task[None]] = {}
        self._leaving = set[asyncio.Task[None]]()
        self._empty = set[bytes]()
        """Servers that had no queues lately."""
        self._queues: dict[bytes, WatchedQueue] = {}
        """By queue key: those that were to be followed at the last reading or since, also if they were dropped."""
        self._without_room = set[bytes]()
        self.fresh = False
        """Whether the last reading succeeded."""

    @property
    def servers(self) -> Iterable[FollowedServer]:
        """Those that have queues."""
        return (server for server in self._servers.values() if len(server.queues))

    @property
    def without_room(self) -> int:
        """How many queues there is no room for, as far as they are counted."""
        return len(self._without_room)

    async def follow(self) -> None:
        """Until it is cancelled; then the servers are left. Raise nothing else but a bug."""
        writing = asyncio.create_task(self._statuses.write_forever())
        try:
            await run_together(self._read_forever(), self._leave_empty_forever(), _end_of(writing))
        finally:
            await self._leave_all()
            await self._statuses.flush(FLUSH_SECONDS)
            writing.cancel()

    def take(self, queue: WatchedQueue) -> None:
        """As the table has it now."""
        known = self._queues.get(queue.key)
        if queue.status not in FOLLOWED or (known and known.changed_at >= queue.changed_at):
            return
        if server := self._server_of(queue):
            self._without_room.discard(queue.key)
            self._queues[queue.key] = queue
            server.add(queue)

    def forget(self, key: bytes, changed_at: int) -> None:
        """A queue was given up then, unless it has been subscribed to since."""
        self._without_room.discard(key)
        queue = self._queues.get(key)
        if queue and queue.changed_at <= changed_at:
            del self._queues[key]
            self._context.room.give_back(QUEUE_BYTES)
            if server := self._servers.get(queue.server.encoded):
                server.queues.drop(queue)

    async def _read_forever(self) -> None:
        for pause in chain((SECOND_READING_SECONDS,), repeat(READING_SECONDS)):
            while not await self._read():  # noqa: ASYNC110 - it waits for AWS
                await asyncio.sleep(RETRY_SECONDS)
            await asyncio.sleep(pause)

    async def _read(self) -> bool:
        """All of it; one bucket at a time, as what is read takes memory."""
        async with self._context.reading:
            began, found = now_ms(), set[bytes]()
            self._without_room.clear()
            try:
                async for queue in read_rows(self._bucket, self._context.counts):
                    if queue.status in FOLLOWED:
                        found.add(queue.key)
                        self.take(queue)
            except AWS_ERRORS as error:
                self.fresh = False
                log.warning("queues not read", extra={"error": describe(error)})
                return False
            for queue in tuple(self._queues.values()):
                if queue.key not in found and _is_in_its_bucket(queue, began):
                    self.forget(queue.key, queue.changed_at)
            self.fresh = True
            self._on_read()
            return True

    def _server_of(self, queue: WatchedQueue) -> FollowedServer | None:
        """None if there is no room for the queue, or the server."""
        encoded, room = queue.server.encoded, self._context.room
        server = self._servers.get(encoded)
        needed = (0 if queue.key in self._queues else QUEUE_BYTES) + (0 if server else SERVER_BYTES)
        if not room.take(needed):
            if len(self._without_room) < MOST_COUNTED:
                self._without_room.add(queue.key)
            return None
        return server or self._follow(encoded, queue.server)

    def _follow(self, encoded: bytes, address: SmpServer) -> FollowedServer:
        server = self._servers[encoded] = FollowedServer(address, self._context, self._statuses)
        self._following[encoded] = asyncio.create_task(server.follow())
        return server

    async def _leave_empty_forever(self) -> None:
        while True:
            await asyncio.sleep(EMPTY_SECONDS)
            empty = {encoded for encoded, server in self._servers.items() if not len(server.queues)}
            for encoded in empty & self._empty:
                self._leave(encoded)
            self._empty = empty

    def _leave(self, encoded: bytes) -> None:
        leaving = asyncio.create_task(self._servers.pop(encoded).leave(self._following.pop(encoded)))
        self._leaving.add(leaving)
        leaving.add_done_callback(self._left)

    def _left(self, leaving: asyncio.Task[None]) -> None:
        self._leaving.discard(leaving)
        self._context.room.give_back(SERVER_BYTES)

    async def _leave_all(self) -> None:
        for encoded in tuple(self._servers):
            self._leave(encoded)
        await asyncio.gather(*self._leaving)
        self._context.room.give_back(QUEUE_BYTES * len(self._queues))
        self._queues.clear()
        self._without_room.clear()


def _is_in_its_bucket(queue: WatchedQueue, now: int) -> bool:
    """A younger one may be in `NEWS` still, or the index may not have it in its bucket yet."""
    return queue.changed_at < now - READING_SECONDS * 1000


async def _end_of(task: asyncio.Task[None]) -> None:
    await asyncio.shield(task)
