"""Takes connections as far as there is room for them, and lets none of them wait when it has to end."""

import asyncio
import logging
import socket
from collections.abc import Collection
from contextlib import suppress
from errno import EMFILE, ENFILE, ENOBUFS, ENOMEM, errorcode
from typing import Never

from clarion.metrics import Metric
from clarion.tls_stream import TlsStream
from ntf.bounds import TooManyError
from ntf.session import AgentSession, Service

log = logging.getLogger(__name__)

BACKLOG = 1_024
_EXHAUSTED = frozenset({EMFILE, ENFILE, ENOBUFS, ENOMEM})
_ACCEPT_PAUSE = 1.0
"""Seconds without new connections, where the machine has no room for one."""
_CLOSE_SECONDS = 2.0
_PROBE_SECONDS, _PROBES = 20, 3
"""Between two questions of TCP's, and how many go unanswered at most."""


class NtfServer:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._sessions: dict[AgentSession, asyncio.Task[object] | None] = {}
        self._accepting: asyncio.Task[Never] | None = None
        self._serving = set[asyncio.Task[None]]()
        self._ending = False

    @property
    def sessions(self) -> Collection[AgentSession]:
        return self._sessions.keys()

    @property
    def takes_connections(self) -> bool:
        return self._accepting is not None and not self._accepting.done() and not self._ending

    async def listen(self, host: str, port: int) -> int:
        """The port."""
        self._listening = socket.create_server((host, port), backlog=BACKLOG)
        self._listening.setblocking(False)
        self._accepting = asyncio.create_task(self._accept_forever(self._listening))
        return int(self._listening.getsockname()[1])

    async def stop(self) -> None:
        """Take no more connections; answer what was read, and close those that there are."""
        self._ending = True
        if self._accepting:
            self._accepting.cancel()
            await asyncio.wait([self._accepting])
            self._listening.close()
        for session in self._sessions:
            session.finish()
        left = [task for task in self._sessions.values() if task]
        log.info("handing over", extra={"sessions": len(left)})
        if left:
            _, late = await asyncio.wait(left, timeout=self._service.bounds.drain_seconds)
            for task in late:
                task.cancel()

    async def _accept_forever(self, listening: socket.socket) -> Never:
        while True:
            await asyncio.sleep(0)  # where there is always one more, sessions would have to wait for all of them
            try:
                connected, address = await asyncio.get_running_loop().sock_accept(listening)
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    log.warning("no connection taken", extra={"error": errorcode[error.errno]})
                    await asyncio.sleep(_ACCEPT_PAUSE)
                continue  # or the agent has left already
            task = asyncio.create_task(self._serve(connected, address[0]))
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)

    async def _serve(self, connected: socket.socket, address: str) -> None:
        service = self._service
        with connected:
            try:
                with service.peers.connection(address, asyncio.get_running_loop().time()) as peer:
                    if not self._ending:
                        _set_options(connected, service.bounds.keepalive_seconds)
                        stream = TlsStream(connected, service.context, server_side=True)
                        await self._follow(AgentSession(service, stream, peer))
            except TooManyError:
                service.counts[Metric.NTF_CONNECTIONS_REFUSED] += 1

    async def _follow(self, session: AgentSession) -> None:
        self._sessions[session] = asyncio.current_task()
        try:
            await session.serve()
            with suppress(TimeoutError):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await session.stream.end()
        finally:
            del self._sessions[session]


def _set_options(connected: socket.socket, quiet_seconds: int) -> None:
    """Answers leave at once. TCP asks an agent that is quiet for so long whether it is there: one that has gone ends sooner."""
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        (socket.TCP_KEEPIDLE, quiet_seconds),
        (socket.TCP_KEEPINTVL, _PROBE_SECONDS),
        (socket.TCP_KEEPCNT, _PROBES),
    ):
        connected.setsockopt(socket.IPPROTO_TCP, name, value)
