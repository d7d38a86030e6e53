"""Takes connections as far as there is room for them, and lets none of them wait when it has to end."""

import asyncio
import logging
import socket
from asyncio.trsock import TransportSocket
from collections.abc import Collection
from contextlib import suppress

from clarion.metrics import Metric
from ntf.bounds import TooManyError
from ntf.session import AgentSession, Service
from ntf.tls import READ_BYTES, TlsChannel

log = logging.getLogger(__name__)

BACKLOG = 1_024
_CLOSE_SECONDS = 2.0
_SENT_BYTES = 4_096
"""Of what the socket has not taken yet: beyond it, a session waits."""
_PROBE_SECONDS, _PROBES = 20, 3
"""Between two questions of TCP's, and how many go unanswered at most."""


class NtfServer:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._sessions: dict[AgentSession, asyncio.Task[object] | None] = {}
        self._server: asyncio.Server | None = None
        self._ending = False

    @property
    def sessions(self) -> Collection[AgentSession]:
        return self._sessions.keys()

    @property
    def takes_connections(self) -> bool:
        return self._server is not None and not self._ending

    async def listen(self, host: str, port: int) -> int:
        """The port."""
        self._server = await asyncio.start_server(self._serve, host, port, backlog=BACKLOG, limit=READ_BYTES)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Take no more connections; answer what was read, and close those that there are."""
        self._ending = True
        if self._server:
            self._server.close()
        for session in self._sessions:
            session.finish()
        left = [task for task in self._sessions.values() if task]
        log.info("handing over", extra={"sessions": len(left)})
        if left:
            _, late = await asyncio.wait(left, timeout=self._service.bounds.drain_seconds)
            for task in late:
                task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop, service = asyncio.get_running_loop(), self._service
        peername = writer.get_extra_info("peername")
        try:
            with service.peers.connection(peername[0] if peername else "0.0.0.0", loop.time()) as peer:  # noqa: S104 - has gone
                if self._ending:
                    return
                await self._follow(AgentSession(service, _channel(reader, writer, service), peer))
        except TooManyError:
            service.counts[Metric.NTF_CONNECTIONS_REFUSED] += 1
        finally:
            writer.transport.abort()

    async def _follow(self, session: AgentSession) -> None:
        self._sessions[session] = asyncio.current_task()
        try:
            await session.serve()
            with suppress(TimeoutError):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await session.channel.close()
        finally:
            del self._sessions[session]


def _channel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, service: Service) -> TlsChannel:
    writer.transport.set_write_buffer_limits(high=_SENT_BYTES)
    channel = TlsChannel(reader, writer, service.context)
    _keep_alive(channel.socket, service.bounds.keepalive_seconds)
    return channel


def _keep_alive(connection: TransportSocket, seconds: int) -> None:
    """Ask an agent that is quiet for so long whether it is there: one that has gone without a word ends sooner."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        (socket.TCP_KEEPIDLE, seconds),
        (socket.TCP_KEEPINTVL, _PROBE_SECONDS),
        (socket.TCP_KEEPCNT, _PROBES),
    ):
        connection.setsockopt(socket.IPPROTO_TCP, name, value)
