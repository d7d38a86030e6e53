"""One SMP server, followed as long as it has queues of ours.

    connected ──▶ all queues subscribed to ──▶ those that are added, at once
        │ lost, or a fault: after 1 s to 10 s; after up to 10 min if it hasn't answered for an hour, or never
        └─ away for a minute: its active queues are inactive

To leave, only our direction is ended: what the server has sent by then is still read. Then nothing is lost, for it keeps
what it has for nobody.
"""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clarion.clock import now_ms
from clarion.metrics import Metric
from clarion.networks.simplex.addresses import SmpServer
from clarion.networks.simplex.arrived import MessageArrived
from clarion.networks.simplex.envelope import encode
from clarion.networks.simplex.errors import ErrorType
from clarion.networks.simplex.smp import SmpSignal
from clarion.networks.simplex.statuses import QueueStatus, refused
from ingest.counts import Counts
from ingest.faults import traces
from ingest.sources import SourceFault
from ingest.sources.simplex.queues import ServerQueues, WatchedQueue
from ingest.sources.simplex.reaching import Reaching
from ingest.sources.simplex.session import OpenKey, SmpSession, SmpTimes
from ingest.sources.simplex.statuses import StatusWriter

if TYPE_CHECKING:
    from ingest.sources.simplex.greeting import SmpConnection

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 10.0
LONGEST_UNPROVEN_PAUSE = 600.0
PROVEN_SECONDS = 3_600.0
"""For so long it is believed to come back soon."""
STEADY_SECONDS = 10.0
"""A connection that ends before doesn't count as one to a server that is back."""
AWAY_SECONDS = 60.0
LEAVING_SECONDS = 2.0
_ENDED = {SmpSignal.END: QueueStatus.END, SmpSignal.DELETED: QueueStatus.DELETED}
_ANSWERED = {QueueStatus.ACTIVE, QueueStatus.INACTIVE}
"""States of queues that their server has accepted."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSurroundings:
    """What the followed servers of one task share. `take` hands envelopes on."""

    reaching: Reaching
    connections: asyncio.Semaphore
    take: Callable[[Sequence[bytes]], Awaitable[None]]
    open_key: OpenKey
    times: SmpTimes
    counts: Counts


class FollowedServer:
    def __init__(self, server: SmpServer, surroundings: ServerSurroundings, statuses: StatusWriter) -> None:
        self._server = server
        self._surroundings = surroundings
        self._statuses = statuses
        self.queues = ServerQueues()
        self._answered_at = float("-inf")
        self._connection: SmpConnection | None = None
        self._leaving = False
        self._away: asyncio.TimerHandle | None = None

    @property
    def connected(self) -> bool:
        return self._connection is not None

    @property
    def proven(self) -> bool:
        """Whether it has answered lately."""
        return time.monotonic() - self._answered_at < PROVEN_SECONDS

    def add(self, queue: WatchedQueue) -> None:
        if queue.status in _ANSWERED and not self._known:
            self._answered_at = time.monotonic()
        self.queues.add(queue)

    async def follow(self) -> None:
        """Until `leave`. Whatever fails is logged, and nothing is raised but a cancellation."""
        pause = FIRST_PAUSE
        while not self._leaving:
            self._expect_back()
            began = time.monotonic()
            await self._follow_once()
            if self._answered_at > began + STEADY_SECONDS:
                pause = FIRST_PAUSE
            if not self._leaving:
                await asyncio.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - jitter
            pause = min(pause * 2, LONGEST_PAUSE if self.proven else LONGEST_UNPROVEN_PAUSE)

    async def leave(self, following: asyncio.Task[None]) -> None:
        """End `following`, once all is taken in that the server has sent."""
        self._leaving = True
        if self._away:
            self._away.cancel()
        if self._connection:
            self._connection.stream.end_writing()
            await asyncio.wait([following], timeout=LEAVING_SECONDS)
        following.cancel()
        await asyncio.wait([following])

    async def _follow_once(self) -> None:
        try:
            async with self._surroundings.connections:
                await self._converse()
        except SourceFault as fault:
            log.info("SMP server lost", extra={"node": self._server.hosts[0], "reason": str(fault)})
        except Exception as error:  # noqa: BLE001 - a bug must stop no other server
            self._surroundings.counts[Metric.INTERNAL_ERRORS] += 1
            log.error("internal error", extra={"errors": traces(error)})  # noqa: TRY400 - its text may quote secrets

    async def _converse(self) -> None:
        around, began = self._surroundings, time.monotonic()
        connection = await around.reaching.connect(self._server, proven=self.proven)
        self._connection = connection
        try:
            if not self._leaving:
                await SmpSession(connection, self.queues, self, around.open_key, around.times).converse()
        finally:
            self._connection = None
            connection.stream.close()
            if self._answered_at > began:
                self._answered_at = time.monotonic()

    # What follows is `SessionListener`'s.

    def answered(self, queue: WatchedQueue, error: ErrorType | None) -> None:
        self._answered_at = time.monotonic()
        if self._away:
            self._away.cancel()
        self._become(queue, refused(error) if error else QueueStatus.ACTIVE, ends=error is not None)

    def ended(self, queue: WatchedQueue, signal: SmpSignal) -> None:
        if not self._leaving:
            self._become(queue, _ENDED[signal], ends=True)

    def unreadable(self, queue: WatchedQueue) -> None:
        self._surroundings.counts[Metric.INTERNAL_ERRORS] += 1
        self._become(queue, refused(ErrorType.CRYPTO), ends=True)

    async def arrived(self, messages: Sequence[tuple[WatchedQueue, MessageArrived]]) -> None:
        read_at = now_ms() // 1000
        await self._surroundings.take([encode(queue.queue, read_at, message) for queue, message in messages])

    def _become(self, queue: WatchedQueue, status: str, *, ends: bool) -> None:
        if self.queues.get(queue.notifier_id) is not queue:
            return  # an agent has asked for it anew
        self._statuses.change(queue, status)
        if ends:
            self.queues.drop(queue)

    @property
    def _known(self) -> bool:
        return self._answered_at > float("-inf")

    def _expect_back(self) -> None:
        """It is away; after a minute without an answer, its queues are inactive."""
        if self._away is None or self._away.cancelled():
            self._away = asyncio.get_running_loop().call_later(AWAY_SECONDS, self._note_away)

    def _note_away(self) -> None:
        for queue in self.queues:
            if queue.status == QueueStatus.ACTIVE:
                self._statuses.change(queue, QueueStatus.INACTIVE)
