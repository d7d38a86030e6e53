"""One connection: TLS, both hellos, and then blocks, each answered before the next one is read.

    TLS ──▶ our hello ──▶ the agent's hello ──▶ block ──▶ answers ──┐
                                                  ▲                 │
                                                  └─────────────────┘

So no more is kept for an agent than the answers to one of its blocks. The handshake waits for a turn of the agent's
address among all addresses. A block waits for its connection's pace, then for the connection's turn among those of its
address, and then for a turn of the address.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

from nacl.public import PrivateKey

from clarion.metrics import Metric
from clarion.networks.simplex.blocks import NTF_BLOCK_BYTES
from clarion.networks.simplex.encoding import MalformedSimplex
from clarion.networks.simplex.handshakes import (
    NTF_VERSIONS,
    NTF_VERSIONS_WITHOUT_ALPN,
    agreed_version,
    ntf_server_hello,
)
from clarion.networks.simplex.ntf import NtfSession, reply_blocks, requests
from clarion.networks.simplex.server_identity import ServerIdentity
from clarion.networks.simplex.signed_key import sign_key
from clarion.tls_stream import TlsStream
from ntf.block_executor import BlockExecutor
from ntf.bounds import Peer, Peers, TooManyError
from ntf.counts import Counts
from ntf.pace import Pace
from ntf.settings import NtfBounds
from ntf.tls import ALPN, accept
from ntf.turns import Turns


@dataclass(frozen=True, slots=True)
class Service:
    """What all sessions of a task share."""

    identity: ServerIdentity
    context: ssl.SSLContext
    executor: BlockExecutor
    peers: Peers
    turns: Turns[Peer]
    counts: Counts

    @property
    def bounds(self) -> NtfBounds:
        return self.peers.bounds


@dataclass(slots=True, eq=False, weakref_slot=True)
class AgentSession:
    service: Service
    stream: TlsStream
    peer: Peer
    _pace: Pace = field(init=False)
    _reading: asyncio.Timeout | None = None
    _last: float | None = None
    """When the last block is read at the latest, by the loop's clock."""

    def __post_init__(self) -> None:
        bounds = self.service.bounds
        self._pace = Pace(bounds.commands_per_second, bounds.burst)

    async def serve(self) -> None:
        """Until the agent leaves, breaks a bound, or `finish` was called."""
        session = await self._introduced()
        if session:
            self.service.counts[Metric.NTF_SESSIONS] += 1
            with self.service.peers.sessions.place(self.peer, self.finish):
                await self._answer_all(session)

    def finish(self) -> None:
        """Answer what is read within moments, and end."""
        self._last = asyncio.get_running_loop().time() + self.service.bounds.last_seconds
        if self._reading and not self._reading.expired():
            self._reading.reschedule(self._last)

    async def _introduced(self) -> NtfSession | None:
        """None for whom the connection has to be closed."""
        try:
            async with asyncio.timeout(self.service.bounds.handshake_seconds) as waiting:
                with self.service.peers.handshakes.place(self.peer, partial(_end_now, waiting)):
                    return await self._hello()
        except (OSError, MalformedSimplex):  # `TimeoutError` among them
            self.service.counts[Metric.NTF_HANDSHAKES_FAILED] += 1
            return None

    async def _hello(self) -> NtfSession:
        stream, identity = self.stream, self.service.identity
        async with self.service.turns.turn(self.peer, self.service.bounds.handshake_commands):
            pass  # what it costs is counted; the wait for the agent takes nobody else's turn
        await accept(stream)
        versions = NTF_VERSIONS if stream.protocol == ALPN else NTF_VERSIONS_WITHOUT_ALPN
        session_id, key = stream.session_id, PrivateKey.generate()
        await stream.write(ntf_server_hello(versions, session_id, sign_key(key.public_key, identity.leaf)))
        version = agreed_version(await stream.read(NTF_BLOCK_BYTES), versions, identity.fingerprint)
        return NtfSession(session_id, version, key, self.peer.name)

    async def _answer_all(self, session: NtfSession) -> None:
        try:
            while True:
                block = await self._within(self._ends_at, self.stream.read(NTF_BLOCK_BYTES))
                await self._answer(block, session)
        except OSError:
            pass  # the agent has left; as a `TimeoutError`, it sends nothing or takes nothing
        except TooManyError:
            self.service.counts[Metric.NTF_CONNECTIONS_REFUSED] += 1

    async def _answer(self, block: bytes, session: NtfSession) -> None:
        service, found = self.service, list(requests(block, session))
        await self._slow_down(len(found))
        async with self._turn_of_peer(len(found)), service.turns.turn(self.peer, len(found)):
            replies = await service.executor.execute(found, self.peer)
        async with asyncio.timeout(service.bounds.write_seconds):
            await self.stream.write(b"".join(reply_blocks(replies, session)))

    async def _within(self, ends_at: float, reading: Awaitable[bytes]) -> bytes:
        try:
            async with asyncio.timeout_at(ends_at) as self._reading:
                return await reading
        finally:
            self._reading = None

    @property
    def _ends_at(self) -> float:
        return self._last or asyncio.get_running_loop().time() + self.service.bounds.idle_seconds

    async def _slow_down(self, count: int) -> None:
        """Until the connection may have so many commands answered. Raises `TooManyError`."""
        now = asyncio.get_running_loop().time()
        wait = self._pace.until(now, count)
        if wait > self.service.bounds.wait_seconds:
            raise TooManyError
        self._pace.spend(now, count)
        await asyncio.sleep(wait)

    @asynccontextmanager
    async def _turn_of_peer(self, count: int) -> AsyncIterator[None]:
        """Among the connections of its address. Raises `TooManyError`."""
        async with AsyncExitStack() as turn:
            try:
                within = self.service.bounds.wait_seconds
                await turn.enter_async_context(self.peer.turns.turn(self, count, within=within))
            except TimeoutError:
                raise TooManyError from None
            yield


def _end_now(waiting: asyncio.Timeout) -> None:
    if not waiting.expired():
        waiting.reschedule(asyncio.get_running_loop().time())
