"""One session with an SMP server: all of its queues are subscribed to, and what it shows is handed on.

waiting queues ──signed, in a thread──▶ NSUB … ──▶ server ──┬─ OK, ERR ──▶ answered
                                           PING ──▶         ├─ NMSG ─────▶ arrived
                                                            └─ END, DELD ▶ ended
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from clarion.networks.simplex.blocks import SMP_BLOCK_BYTES, batch_blocks
from clarion.networks.simplex.credentials import NONCE_BYTES, SigningKey
from clarion.networks.simplex.encoding import MalformedSimplex
from clarion.networks.simplex.errors import ErrorType
from clarion.networks.simplex.items import MessageArrived
from clarion.networks.simplex.smp import SmpSignal, SmpTransmission, ping, read_block, subscribe
from ingest.sources import SourceFault, SourceLost
from ingest.sources.following import run_together
from ingest.sources.simplex.handshake import SmpConnection
from ingest.sources.simplex.queues import ServerQueues, WatchedQueue

BATCH = 135
"""NSUB in one block."""
_MOST_ASKED = 4 * BATCH
"""Without an answer."""
_SIGNING = ThreadPoolExecutor(1, "signing")
"""Of its own: the threads that send to AWS have no time to sign."""

type OpenKey = Callable[[WatchedQueue], SigningKey]
"""The notifier's key of a queue. Raises `UnreadableKey`."""


class UnreadableKey(Exception):  # noqa: N818 - it says what the row holds
    """A row whose key can't be opened, or is none to sign by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SmpTimes:
    """Seconds. `answer`: to a subscription. `ping`: of silence, after which is asked. `silence`: after which it is lost."""

    answer: float = 30.0
    ping: float = 60.0
    silence: float = 180.0


class SessionListener(Protocol):
    """What follows from what a server says."""

    def answered(self, queue: WatchedQueue, error: ErrorType | None) -> None:
        """To its subscription; None if it is subscribed to."""

    def ended(self, queue: WatchedQueue, signal: SmpSignal) -> None:
        """Another session has it, or it was deleted."""

    def unreadable(self, queue: WatchedQueue) -> None:
        """Its key can't be read."""

    async def arrived(self, messages: Sequence[tuple[WatchedQueue, MessageArrived]]) -> None: ...


@dataclass(frozen=True, slots=True)
class _Asked:
    """A subscription that is asked for; without `signed`, its key can't be read."""

    id: bytes
    queue: WatchedQueue
    signed: bytes | None


class Stopwatch:
    """Seconds in which we wait for the server: it is stopped while the server waits for us."""

    def __init__(self) -> None:
        self._stopped_at: float | None = None
        self._stopped_for = 0.0

    @property
    def now(self) -> float:
        at = time.monotonic() if self._stopped_at is None else self._stopped_at
        return at - self._stopped_for

    @contextmanager
    def stopped(self) -> Iterator[None]:
        began = self._stopped_at = time.monotonic()
        try:
            yield
        finally:
            self._stopped_at = None
            self._stopped_for += time.monotonic() - began


class SmpSession:
    def __init__(
        self,
        connection: SmpConnection,
        queues: ServerQueues,
        listener: SessionListener,
        open_key: OpenKey,
        times: SmpTimes,
    ) -> None:
        self._connection = connection
        self._queues = queues
        self._listener = listener
        self._open_key = open_key
        self._times = times
        self._asked: dict[bytes, tuple[WatchedQueue, float]] = {}
        """By correlation id: for which queue, and when. The oldest comes first."""
        self._has_space = asyncio.Event()
        self._stopwatch = Stopwatch()
        self._received_at = self._stopwatch.now

    async def run(self) -> None:
        """Until it ends, raising `SourceFault`."""
        self._queues.begin()
        try:
            await run_together(self._read(), self._subscribe(), self._watch())
        except OSError as error:
            raise SourceLost(type(error).__name__) from None
        finally:
            self._queues.end()

    async def _subscribe(self) -> None:
        while True:
            queues = await self._queues.take_waiting(BATCH)
            await self._wait_for_space()
            asked = await asyncio.get_running_loop().run_in_executor(_SIGNING, self._sign, queues)
            now = self._stopwatch.now
            self._asked.update((one.id, (one.queue, now)) for one in asked if one.signed)
            for one in asked:
                if not one.signed:
                    self._listener.unreadable(one.queue)
            for block in batch_blocks([one.signed for one in asked if one.signed], SMP_BLOCK_BYTES):
                await self._connection.write(block)

    def _sign(self, queues: Sequence[WatchedQueue]) -> list[_Asked]:
        return [self._signed(queue) for queue in queues]

    def _signed(self, queue: WatchedQueue) -> _Asked:
        number = os.urandom(NONCE_BYTES)
        session = self._connection
        try:
            key = self._open_key(queue)
            signed = subscribe(queue.notifier_id, key, number, session.session_id, session.server_key)
        except UnreadableKey:
            return _Asked(number, queue, None)
        except MalformedSimplex:
            raise SourceFault("no secret can be agreed on with its key") from None
        return _Asked(number, queue, signed)

    async def _wait_for_space(self) -> None:
        while len(self._asked) > _MOST_ASKED - BATCH:
            self._has_space.clear()
            await self._has_space.wait()

    async def _watch(self) -> None:
        """Ask whether it is still there, if it is silent. Raise `SourceLost` if it isn't, also where it reads nothing."""
        pinged_at = self._stopwatch.now
        while True:
            await asyncio.sleep(min(self._times.ping, self._times.answer) / 4)
            now = self._stopwatch.now
            _, oldest = next(iter(self._asked.values()), (None, now))
            if now - oldest > self._times.answer:
                raise SourceLost("no answer")
            if now - self._received_at > self._times.silence:
                raise SourceLost("silence")
            if now - max(self._received_at, pinged_at) > self._times.ping:
                pinged_at = now
                block = next(batch_blocks([ping(os.urandom(NONCE_BYTES))], SMP_BLOCK_BYTES))
                async with asyncio.timeout(self._times.answer):
                    await self._connection.write(block)

    async def _read(self) -> None:
        while True:
            block = await self._connection.read_block()
            self._received_at = self._stopwatch.now
            try:
                transmissions = read_block(block)
            except MalformedSimplex as error:
                raise SourceFault(str(error)) from None
            # As long as AWS takes nothing, what the server sends waits in its socket: it sends none of that again.
            with self._stopwatch.stopped():
                await self._take(transmissions)
                await self._queues.pace.spend(len(transmissions))

    async def _take(self, transmissions: Sequence[SmpTransmission]) -> None:
        messages: list[tuple[WatchedQueue, MessageArrived]] = []
        for transmission in transmissions:
            if isinstance(transmission.content, MessageArrived):
                if queue := self._queues.get(transmission.notifier_id):
                    messages.append((queue, transmission.content))
            else:
                self._take_other(transmission, transmission.content)
        if messages:
            await self._listener.arrived(messages)

    def _take_other(self, transmission: SmpTransmission, content: SmpSignal | ErrorType) -> None:
        if content in {SmpSignal.END, SmpSignal.DELETED}:
            if queue := self._queues.get(transmission.notifier_id):
                self._listener.ended(queue, SmpSignal(content))
        elif asked := self._asked.pop(transmission.correlation_id, None):
            self._has_space.set()
            queue, _ = asked
            self._listener.answered(queue, content if isinstance(content, ErrorType) else None)
        elif isinstance(content, ErrorType) and not transmission.correlation_id:
            raise SourceFault("it can't read what we send")
