"""An SMP server on this machine, version 10: queues, their notifiers, and who has subscribed to be notified.

What the notification server sees of it is exact. What recipients and senders say is made simpler where that makes no
difference to notifications: queues need no securing, and bodies are not encrypted once more on their way.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Self

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from local.simplex.client import SMP_VERSION
from local.simplex.codec import WireFault, WireReader, large, several, short, u16
from local.simplex.identity import StandInIdentity
from local.simplex.smp_commands import SmpReply, SmpRequest
from local.simplex.smp_queues import MessageQueues, Notifier
from local.simplex.stream import SMP_ALPN, SMP_BLOCK, BlockStream, ConnectionLostError, SimplexAddress
from local.simplex.transmissions import WireTransmission, block_contents, transmissions_in

FLUSH_S = 1.5
_LEAST, _NEWEST = 6, 18
"""The versions that servers of the reference offer; this one speaks one of them."""


class StandInSession:
    """A client's connection, after its handshake."""

    def __init__(self, stream: BlockStream) -> None:
        self.id = stream.session_id
        self._stream = stream

    async def send(self, transmissions: Iterable[WireTransmission]) -> None:
        """Nothing, if the client has gone."""
        with suppress(ConnectionLostError):
            await self._stream.write(*block_contents([*transmissions], SMP_BLOCK))

    async def receive(self) -> list[WireTransmission]:
        """Raises `ConnectionLostError`, and `WireFault` if the block is none."""
        return transmissions_in(await self._stream.read())

    def abort(self) -> None:
        self._stream.abort()


class StandInSmpServer:
    """An async context manager, which can be stopped and started again: its port and queues stay, subscriptions do not.

    `refusals` are what NSUB of a notifier is answered with instead of OK, for instance `b"ERR SERVICE"`.
    """

    def __init__(
        self,
        queues: MessageQueues | None = None,
        *,
        identity: StandInIdentity | None = None,
        port: int = 0,
        flush_s: float = FLUSH_S,
    ) -> None:
        self.queues = queues or MessageQueues()
        self.identity = identity or StandInIdentity.made()
        self.refusals: dict[bytes, bytes] = {}
        self.counts: Counter[str] = Counter()
        """Of connections, and of commands and events by their names."""
        self._port = port
        self._flush_s = flush_s
        self._sessions: set[StandInSession] = set()
        self._subscribers: dict[bytes, StandInSession] = {}
        self._news = asyncio.Event()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        context = self.identity.server_context(SMP_ALPN)
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port, ssl=context)
        self._port = self._server.sockets[0].getsockname()[1]
        self._flushing = asyncio.create_task(self._flush())

    async def stop(self) -> None:
        self._flushing.cancel()
        with suppress(asyncio.CancelledError):
            await self._flushing
        self._server.close()
        self.disconnect()
        await self._server.wait_closed()

    @property
    def address(self) -> SimplexAddress:
        return SimplexAddress(self.identity.key_hash, ("localhost",), str(self._port))

    @property
    def subscribed(self) -> frozenset[bytes]:
        """The ids of the notifiers that a session follows."""
        return frozenset(self._subscribers)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait for something that a command or a connection changes."""
        while not holds():
            self._news.clear()
            await self._news.wait()

    async def restart(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        await self.stop()
        meanwhile()
        await self.start()

    def disconnect(self) -> None:
        for session in [*self._sessions]:
            session.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        stream = BlockStream(reader, writer, SMP_BLOCK)
        session = StandInSession(stream)
        self._sessions.add(session)
        with suppress(ConnectionLostError, WireFault, asyncio.CancelledError):
            await self._greet(stream)
            self._count("connections")
            while True:
                await self._converse(session, await session.receive())
        self._forget(session)
        stream.abort()

    async def _greet(self, stream: BlockStream) -> None:
        """Raises `WireFault` for a client of another version, or one that wants another server."""
        signed = self.identity.signed(X25519PrivateKey.generate().public_key())
        certificates = several([large(each) for each in self.identity.chain])
        await stream.write(u16(_LEAST) + u16(_NEWEST) + short(stream.session_id) + certificates + large(signed))
        reader = WireReader(await stream.read())
        if (reader.u16(), reader.short()) != (SMP_VERSION, self.identity.key_hash):
            raise WireFault("another version, or for another server")

    async def _converse(self, session: StandInSession, commands: Iterable[WireTransmission]) -> None:
        """Answer the block's commands; then the others learn what has changed for them."""
        replies = [(each, self._execute(session, each)) for each in commands]
        await session.send(WireTransmission(reply.answer, each.entity, each.correlation) for each, reply in replies)
        for _, reply in replies:
            if reply.subscribed:
                await self._subscribe(session, reply.subscribed)
            if reply.removed:
                await self._unsubscribe(reply.removed)

    def _execute(self, session: StandInSession, command: WireTransmission) -> SmpReply:
        self._count(command.command[:4].decode(errors="replace").strip())
        refusal = self.refusals.get(command.entity) if command.command == b"NSUB" else None
        if refusal is not None:
            return SmpReply(refusal)
        return SmpRequest(self.queues, command, session.id).execute()

    async def _subscribe(self, session: StandInSession, notifier: Notifier) -> None:
        """It follows the queue from now on, and whoever did before learns that it no longer does."""
        before, self._subscribers[notifier.id] = self._subscribers.get(notifier.id), session
        self._news.set()
        if before not in {None, session}:
            await self._emit(before, notifier, b"END")

    async def _unsubscribe(self, notifier: Notifier) -> None:
        session = self._subscribers.pop(notifier.id, None)
        self._news.set()
        await self._emit(session, notifier, b"DELD")

    async def _emit(self, session: StandInSession | None, notifier: Notifier, event: bytes) -> None:
        if session:
            self._count(event.decode())
            await session.send([WireTransmission(event, notifier.id)])

    async def _flush(self) -> None:
        """What waits for those who are followed goes now and then, and is gone then: nobody acknowledges it."""
        while True:
            await asyncio.sleep(self._flush_s)
            for session, events in self._due().items():
                self._count("NMSG", len(events))
                await session.send(events)

    def _due(self) -> dict[StandInSession, list[WireTransmission]]:
        due = defaultdict[StandInSession, list[WireTransmission]](list)
        for notifier_id, waiting in self.queues.take_waiting(self._subscribers).items():
            due[self._subscribers[notifier_id]] += [WireTransmission(each.event, notifier_id) for each in waiting]
        return due

    def _forget(self, session: StandInSession) -> None:
        self._sessions.discard(session)
        self._subscribers = {each: who for each, who in self._subscribers.items() if who is not session}
        self._news.set()

    def _count(self, what: str, times: int = 1) -> None:
        self.counts[what] += times
        self._news.set()
