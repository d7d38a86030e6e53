"""The servers of one bucket, for as long as it is this task's: their queues as the table has them, read once and then what is new.

index ──▶ rows ──▶ a server's first queue: it is followed ──▶ its last one gone: it is left
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from itertools import batched

from clarion.clock import now_ms
from clarion.faults import AWS_ERRORS, describe
from clarion.networks.simplex.addresses import SmpServer
from clarion.networks.simplex.encoding import MalformedSimplex
from clarion.networks.simplex.queues import FOLLOWED, FollowedQueue, queue_of, queues_since
from ingest.sources.simplex.queues import WatchedQueue
from ingest.sources.simplex.server import FollowedServer, ServerSurroundings
from ingest.sources.simplex.statuses import StatusWriter

POLL_SECONDS = 1.0
"""A read of what is new in a bucket costs half a read unit: 0.16 dollars a month."""
_OVERLAP_MS = 15_000
"""So long may a queue take from its `changed_at` into the index, clocks that differ included."""
_WHOLE_SECONDS = 3_600.0
"""Between two readings of the whole bucket, for what took longer, and for what has expired."""
_PAGE = 500
FLUSH_SECONDS = 3.0

log = logging.getLogger(__name__)


class FollowedBucket:
    """`is_ours` reads whether the bucket is still this task's; may raise `AWS_ERRORS`."""

    def __init__(self, bucket: int, surroundings: ServerSurroundings, is_ours: Callable[[], Awaitable[bool]]) -> None:
        self._bucket = bucket
        self._surroundings = surroundings
        self._statuses = StatusWriter(is_ours)
        self._servers: dict[bytes, FollowedServer] = {}
        """By their encoded address."""
        self._following: dict[bytes, asyncio.Task[None]] = {}
        self._leaving = set[asyncio.Task[None]]()
        self._rows: dict[bytes, WatchedQueue] = {}
        """By queue key: what the table has said, also of those that were dropped since."""
        self._latest = 0
        """The youngest `changed_at` that was read."""
        self.fresh = False
        """Whether the last reading succeeded."""

    @property
    def servers(self) -> Iterable[FollowedServer]:
        return self._servers.values()

    async def follow(self) -> None:
        """Until it is cancelled; then the servers are left. Raise nothing else but a bug."""
        writing = asyncio.create_task(self._statuses.write_forever())
        reading = asyncio.create_task(self._read_forever())
        try:
            ended, _ = await asyncio.wait({writing, reading}, return_when=asyncio.FIRST_COMPLETED)
            for each in ended:
                each.result()
        finally:
            reading.cancel()
            await self._leave_all()
            await self._statuses.flush(FLUSH_SECONDS)
            writing.cancel()

    def forget(self, key: bytes) -> None:
        """A queue was given up."""
        if row := self._rows.pop(key, None):
            encoded = row.queue.server.encoded
            if server := self._servers.get(encoded):
                server.queues.drop(row)
                self._leave_if_empty(encoded, server)

    async def _read_forever(self) -> None:
        while True:
            await self._follow_for(_WHOLE_SECONDS)

    async def _follow_for(self, seconds: float) -> None:
        """Read all of it, and then what is new."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                found = await self._read(0)
                self._forget_all_but(found)
                while True:
                    await asyncio.sleep(POLL_SECONDS)
                    await self._read(max(1, self._latest - _OVERLAP_MS))

    async def _read(self, since: int) -> set[bytes] | None:
        """Take in what changed since then. The keys of what was read; None if it can't be."""
        found = set[bytes]()
        pages = batched(queues_since(self._bucket, since), _PAGE, strict=False)
        try:
            while page := await asyncio.to_thread(_read_page, pages):
                found.update(row.key for row in page)
                for row in page:
                    self._take(row)
        except AWS_ERRORS as error:
            self.fresh = False
            log.warning("queues not read", extra={"error": describe(error)})
            return None
        self.fresh = True
        return found

    def _take(self, row: WatchedQueue) -> None:
        self._latest = max(self._latest, min(row.changed_at, now_ms()))
        known = self._rows.get(row.key)
        if known and known.changed_at >= row.changed_at:
            return
        self._rows[row.key] = row
        if row.status in FOLLOWED:
            self._server_of(row.queue.server).add(row)

    def _server_of(self, address: SmpServer) -> FollowedServer:
        encoded = address.encoded
        server = self._servers.get(encoded)
        if server is None:
            server = self._servers[encoded] = FollowedServer(address, self._surroundings, self._statuses)
            self._following[encoded] = asyncio.create_task(server.follow())
        return server

    def _forget_all_but(self, found: set[bytes] | None) -> None:
        if found is not None:
            for key in self._rows.keys() - found:
                self.forget(key)
        for encoded, server in tuple(self._servers.items()):
            self._leave_if_empty(encoded, server)

    def _leave_if_empty(self, encoded: bytes, server: FollowedServer) -> None:
        if not len(server.queues):
            del self._servers[encoded]
            leaving = asyncio.create_task(server.leave(self._following.pop(encoded)))
            self._leaving.add(leaving)
            leaving.add_done_callback(self._leaving.discard)

    async def _leave_all(self) -> None:
        leaving = [server.leave(self._following[encoded]) for encoded, server in self._servers.items()]
        await asyncio.gather(*leaving, *self._leaving)
        self._servers.clear()
        self._following.clear()
        self._rows.clear()
        self._latest = 0


def _read_page(pages: "Iterator[tuple[FollowedQueue, ...]]") -> list[WatchedQueue]:
    """The next page as it can be followed; empty at the end."""
    while page := next(pages, ()):
        if readable := [found for row in page if (found := watched(row))]:
            return readable
    return []


def watched(row: FollowedQueue) -> WatchedQueue | None:
    """None, which is logged, for one that nobody can follow."""
    try:
        queue = queue_of(bytes(row.queue))
    except MalformedSimplex:
        log.warning("queue not readable", extra={"queue_key": bytes(row.queue_key).hex()})
        return None
    return WatchedQueue(
        key=bytes(row.queue_key),
        queue=queue,
        sealed_key=bytes(row.notifier_key),
        token_id=row.token_id,
        status=row.status,
        changed_at=int(row.changed_at),
    )
