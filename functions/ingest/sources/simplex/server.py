"""One SMP server, followed as long as it has queues of ours.

    a place ──▶ connected ──▶ all queues subscribed to ──▶ those that are added, at once
                    │ lost, or a fault: after 1 s to 10 s; up to 10 min if it has accepted none for an hour, or ever
                    └─ away for a minute: its new queues are pending, its active ones inactive, once an hour at most

To leave, only our direction is ended: what the server has sent by then is still read. So nothing is lost, for it keeps
what comes while it has no subscriber.
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
from clarion.networks.simplex.envelope import encode
from clarion.networks.simplex.errors import ErrorType
from clarion.networks.simplex.items import MessageArrived
from clarion.networks.simplex.smp import SmpSignal
from clarion.networks.simplex.statuses import QueueStatus, refused
from ingest.counts import Counts
from ingest.faults import traces
from ingest.sources import SourceFault, SourceLost
from ingest.sources.following import run_together
from ingest.sources.simplex.connector import Connector, Unresolved
from ingest.sources.simplex.places import TURN_SECONDS, Places
from ingest.sources.simplex.queues import ServerQueues, WatchedQueue
from ingest.sources.simplex.room import Room
from ingest.sources.simplex.session import OpenKey, SmpSession, SmpTimes
from ingest.sources.simplex.statuses import StatusWriter

if TYPE_CHECKING:
    from ingest.sources.simplex.handshake import SmpConnection

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 10.0
LONGEST_UNPROVEN_PAUSE = 600.0
SOON_SECONDS = 3_600.0
"""How long a server that has accepted a subscription is expected back soon, and so tried often."""
PROVEN_SECONDS = 86_400.0
"""How long it is proven after that: as long as it keeps what it has for us."""
STEADY_SECONDS = 10.0
"""A server whose connection ends before does not count as back."""
AWAY_SECONDS = 60.0
"""After which its queues are inactive."""
INACTIVE_SECONDS = 3_600.0
"""So far apart at least: a server that comes and goes must not have us write all of its rows each time."""
LEAVING_SECONDS = 2.0
_ENDED = {SmpSignal.END: QueueStatus.END, SmpSignal.DELETED: QueueStatus.DELETED}
_AWAY = {QueueStatus.NEW.value: QueueStatus.PENDING, QueueStatus.ACTIVE.value: QueueStatus.INACTIVE}
_ACCEPTED = {QueueStatus.ACTIVE, QueueStatus.INACTIVE}
"""States of queues that their server has accepted."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerContext:
    """What the followed servers of one task share.

    `take` hands envelopes on. `reading` and `writing` bound how many read the rows of a bucket, or write a row, at once:
    they use the threads that messages are sent on, some of which must be left when a table hangs.
    """

    connector: Connector
    places: Places
    room: Room
    reading: asyncio.Semaphore
    writing: asyncio.Semaphore
    take: Callable[[Sequence[bytes]], Awaitable[None]]
    open_key: OpenKey
    times: SmpTimes
    counts: Counts


class FollowedServer:
    def __init__(self, address: SmpServer, context: ServerContext, statuses: StatusWriter) -> None:
        self.address = address
        self._context = context
        self._statuses = statuses
        self.queues = ServerQueues()
        self._accepted_at = float("-inf")
        self._accepts, self._needed = asyncio.Event(), asyncio.Event()
        """Whether it has accepted a subscription in this connection, and whether another needs its place."""
        self._connection: SmpConnection | None = None
        self._leaving = False
        self._absence: asyncio.TimerHandle | None = None
        self._is_away = self._is_unresolved = False
        self._inactive_at, self._marks_inactive = float("-inf"), True
        """When its queues became inactive last, and whether those do that are active now."""

    @property
    def connected(self) -> bool:
        return self._connection is not None

    @property
    def known(self) -> bool:
        """Whether it has ever accepted a subscription, as far as this task knows."""
        return self._accepted_at > float("-inf")

    @property
    def proven(self) -> bool:
        """Whether it has accepted a subscription lately, and can be found."""
        return self._has_accepted_for(PROVEN_SECONDS) and not self._is_unresolved

    @property
    def tokens(self) -> int:
        return self.queues.tokens

    def give_way(self) -> None:
        self._needed.set()

    def add(self, queue: WatchedQueue) -> None:
        if queue.status in _ACCEPTED and not self.known:
            self._accepted_at = time.monotonic()
        queue.server = self.address
        self.queues.add(queue)
        if self._is_away:
            self._mark_queue_away(queue)

    async def follow(self) -> None:
        """Until `leave`. Whatever fails is logged, and nothing is raised but a cancellation."""
        pause = FIRST_PAUSE
        while not self._leaving:
            self._start_absence()
            began = time.monotonic()
            await self._follow_once()
            if self._accepted_at > began + STEADY_SECONDS:
                pause = FIRST_PAUSE
            if not self._leaving:
                await asyncio.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - jitter
            soon = self._has_accepted_for(SOON_SECONDS)
            pause = min(pause * 2, LONGEST_PAUSE if soon else LONGEST_UNPROVEN_PAUSE)

    async def leave(self, following: asyncio.Task[None]) -> None:
        """End `following`, once all is taken in that the server has sent."""
        self._leaving = True
        self._end_absence()
        if self._connection:
            self._connection.stream.end_writing()
            await asyncio.wait([following], timeout=LEAVING_SECONDS)
        following.cancel()
        await asyncio.wait([following])

    async def _follow_once(self) -> None:
        proven, places = self.proven, self._context.places
        self._needed.clear()
        try:
            await (places.proven if proven else places.unproven).take(self)
            await self._run_session(proven=proven)
        except SourceFault as fault:
            # A name that nobody resolves must not again hold up those that can be found.
            self._is_unresolved = isinstance(fault, Unresolved)
            log.info("SMP server lost", extra={"node": self.address.hosts[0], "reason": str(fault)})
        except Exception as error:  # noqa: BLE001 - a bug must stop no other server
            self._context.counts[Metric.INTERNAL_ERRORS] += 1
            log.error("internal error", extra={"errors": traces(error)})  # noqa: TRY400 - its text may quote secrets
        finally:
            places.proven.give_back(self)
            places.unproven.give_back(self)

    async def _run_session(self, *, proven: bool) -> None:
        context, began = self._context, time.monotonic()
        self._accepts.clear()
        connection = await context.connector.connect(self.address, proven=proven)
        self._connection = connection
        try:
            if not self._leaving:
                session = SmpSession(connection, self.queues, self, context.open_key, context.times)
                await run_together(session.run(), self._keep_place(connection, proven=proven))
        finally:
            self._connection = None
            connection.stream.close()
            if self._accepted_at > began:
                self._accepted_at = time.monotonic()

    async def _keep_place(self, connection: "SmpConnection", *, proven: bool) -> None:
        """Until its turn is over, or another needs its place: what it has sent by then is still taken in."""
        if proven or await self._prove():
            await self._needed.wait()
        connection.stream.end_writing()
        await asyncio.sleep(LEAVING_SECONDS)
        raise SourceLost("its place is another's")

    async def _prove(self) -> bool:
        """Whether it has accepted a subscription in its turn, and got the place of a proven server."""
        places = self._context.places
        try:
            async with asyncio.timeout(TURN_SECONDS):
                await self._accepts.wait()
                await places.proven.take(self)
        except TimeoutError:
            return False
        places.unproven.give_back(self)
        return True

    # What follows is `SessionListener`'s.

    def answered(self, queue: WatchedQueue, error: ErrorType | None) -> None:
        if error is None:
            self._accepted_at = time.monotonic()
            self._accepts.set()
        self._end_absence()
        self._become(queue, refused(error) if error else QueueStatus.ACTIVE, ends=error is not None)

    def ended(self, queue: WatchedQueue, signal: SmpSignal) -> None:
        if not self._leaving:
            self._become(queue, _ENDED[signal], ends=True)

    def unreadable(self, queue: WatchedQueue) -> None:
        self._context.counts[Metric.INTERNAL_ERRORS] += 1
        self._become(queue, refused(ErrorType.CRYPTO), ends=True)

    async def arrived(self, messages: Sequence[tuple[WatchedQueue, MessageArrived]]) -> None:
        read_at = now_ms() // 1000
        await self._context.take([encode(queue.address, read_at, message) for queue, message in messages])

    def _become(self, queue: WatchedQueue, status: str, *, ends: bool) -> None:
        if self.queues.get(queue.notifier_id) is not queue:
            return  # an agent has asked for it anew
        self._statuses.change(queue, status)
        if ends:
            self.queues.drop(queue)

    def _has_accepted_for(self, seconds: float) -> bool:
        return time.monotonic() - self._accepted_at < seconds

    def _start_absence(self) -> None:
        """It is away, if it has not answered in a minute."""
        if self._absence is None:
            self._absence = asyncio.get_running_loop().call_later(AWAY_SECONDS, self._mark_away)

    def _end_absence(self) -> None:
        self._is_away = False
        if self._absence:
            self._absence.cancel()
            self._absence = None

    def _mark_away(self) -> None:
        self._is_away, now = True, time.monotonic()
        wait = self._inactive_at + INACTIVE_SECONDS - now
        self._marks_inactive = wait <= 0
        if self._marks_inactive:
            self._inactive_at = now
        else:
            self._absence = asyncio.get_running_loop().call_later(wait, self._mark_away)
        for queue in self.queues:
            self._mark_queue_away(queue)

    def _mark_queue_away(self, queue: WatchedQueue) -> None:
        status = _AWAY.get(queue.status)
        if status and (status is not QueueStatus.INACTIVE or self._marks_inactive):
            self._statuses.change(queue, status)
