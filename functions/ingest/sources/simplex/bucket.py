"""The servers of one bucket, for as long as it is this task's: its queues as the table has them, and then what is new.

rows ──▶ a server's first queue: it is followed ──▶ it has had none for a while: it is left
  └─ no room: beyond, until the next reading
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
from ingest.sources.simplex.server import FollowedServer, ServerSurroundings
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
"""Of the queues beyond the room, by each bucket."""

log = logging.getLogger(__name__)


class FollowedBucket:
    def __init__(
        self,
        bucket: int,
        surroundings: ServerSurroundings,
        is_ours: Callable[[], Awaitable[bool]],
        was_read: Callable[[], None],
    ) -> None:
        """`is_ours` reads whether the bucket is still this task's; may raise `AWS_ERRORS`.

        `was_read` is called after each reading: the news were not among it.
        """
        self._bucket = bucket
        self._surroundings = surroundings
        self._was_read = was_read
        self._statuses = StatusWriter(is_ours)
        self._servers: dict[bytes, FollowedServer] = {}
        """By their encoded address."""
        self._following: dict[bytes, asyncio.Task[None]] = {}
        self._leaving = set[asyncio.Task[None]]()
        self._empty = set[bytes]()
        """Servers that had no queues lately."""
        self._rows: dict[bytes, WatchedQueue] = {}
        """By queue key: those that were to be followed at the last reading or since, also if they were dropped."""
        self._beyond = set[bytes]()
        self.fresh = False
        """Whether the last reading succeeded."""

    @property
    def servers(self) -> Iterable[FollowedServer]:
        """Those that have queues."""
        return (server for server in self._servers.values() if len(server.queues))

    @property
    def beyond(self) -> int:
        """How many queues there is no room for, as far as they are counted."""
        return len(self._beyond)

    async def follow(self) -> None:
        """Until it is cancelled; then the servers are left. Raise nothing else but a bug."""
        writing = asyncio.create_task(self._statuses.write_forever())
        try:
            await run_together(self._read_forever(), self._leave_empty_forever(), _end_of(writing))
        finally:
            await self._leave_all()
            await self._statuses.flush(FLUSH_SECONDS)
            writing.cancel()

    def take(self, row: WatchedQueue) -> None:
        """As the table has it now."""
        known = self._rows.get(row.key)
        if row.status not in FOLLOWED or (known and known.changed_at >= row.changed_at):
            return
        if server := self._server_of(row):
            self._rows[row.key] = row
            server.add(row)

    def forget(self, key: bytes) -> None:
        """A queue was given up."""
        self._beyond.discard(key)
        if row := self._rows.pop(key, None):
            self._surroundings.room.give_back(QUEUE_BYTES)
            if server := self._servers.get(row.server.encoded):
                server.queues.drop(row)

    async def _read_forever(self) -> None:
        for pause in chain((SECOND_READING_SECONDS,), repeat(READING_SECONDS)):
            while not await self._read():  # noqa: ASYNC110 - it waits for AWS
                await asyncio.sleep(RETRY_SECONDS)
            await asyncio.sleep(pause)

    async def _read(self) -> bool:
        """All of it; one bucket at a time, as what is read takes memory."""
        async with self._surroundings.reading:
            began, found = now_ms(), set[bytes]()
            self._beyond.clear()
            try:
                async for row in read_rows(self._bucket):
                    if row.status in FOLLOWED:
                        found.add(row.key)
                        self.take(row)
            except AWS_ERRORS as error:
                self.fresh = False
                log.warning("queues not read", extra={"error": describe(error)})
                return False
            for key in [key for key, row in self._rows.items() if key not in found and _is_settled(row, began)]:
                self.forget(key)
            self.fresh = True
            self._was_read()
            return True

    def _server_of(self, row: WatchedQueue) -> FollowedServer | None:
        """None if there is no room for the row, or the server."""
        encoded, room = row.server.encoded, self._surroundings.room
        server = self._servers.get(encoded)
        needed = (0 if row.key in self._rows else QUEUE_BYTES) + (0 if server else SERVER_BYTES)
        if not room.take(needed):
            if len(self._beyond) < MOST_COUNTED:
                self._beyond.add(row.key)
            return None
        return server or self._follow(encoded, row.server)

    def _follow(self, encoded: bytes, address: SmpServer) -> FollowedServer:
        server = self._servers[encoded] = FollowedServer(address, self._surroundings, self._statuses)
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
        self._surroundings.room.give_back(SERVER_BYTES)

    async def _leave_all(self) -> None:
        for encoded in tuple(self._servers):
            self._leave(encoded)
        await asyncio.gather(*self._leaving)
        self._surroundings.room.give_back(QUEUE_BYTES * len(self._rows))
        self._rows.clear()
        self._beyond.clear()


def _is_settled(row: WatchedQueue, now: int) -> bool:
    """A younger one may be among the news, or on its way from there into its bucket."""
    return row.changed_at < now - READING_SECONDS * 1000


async def _end_of(task: asyncio.Task[None]) -> None:
    await asyncio.shield(task)
