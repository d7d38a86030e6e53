"""One connection to a relay.

ask ─────────┐                                    ┌──▶ take
acknowledge ─┴─▶ outgoing ──▶ socket ──▶ frames ──┴──▶ the answer that `ask` waits for
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from ssl import SSLContext

from clarion.networks.walletconnect.relay import (
    RelayAnswer,
    RelayClient,
    RelayFault,
    RelayMessage,
    RelayRefusal,
    RequestId,
    acknowledgement,
    read,
    request,
    request_id,
)
from ingest.sources import SourceFault
from ingest.sources.websocket import BoundedConnection, blaming_the_node, open_connection

_MOST_BYTES = 1024 * 1024
"""Of one frame. A wallet's message has a few thousand, and the answer to the largest request 34,000."""
_MOST_WAITING = 10_000
"""Of our frames. A relay that sends and doesn't read gets no more acknowledgements, and so sends its messages again."""


class RelaySession:
    """Each request is to be answered within so many `seconds`. `read_all` and `write_all` have to run meanwhile."""

    def __init__(self, socket: BoundedConnection, seconds: float) -> None:
        self._socket = socket
        self._seconds = seconds
        self._unanswered: dict[RequestId, asyncio.Future[object]] = {}
        self._outgoing: asyncio.Queue[bytes] = asyncio.Queue()

    async def ask(self, method: str, params: object) -> object:
        """The result of a request. Raise `SourceFault`."""
        number = request_id()
        answer = self._unanswered[number] = asyncio.get_running_loop().create_future()
        self._outgoing.put_nowait(request(number, method, params))
        try:
            async with asyncio.timeout(self._seconds):
                return await answer
        except TimeoutError:
            raise SourceFault("no answer") from None
        finally:
            del self._unanswered[number]

    def acknowledge(self, number: RequestId) -> None:
        """The message that came as this request need not come again. Of no effect once the connection is lost."""
        if self._outgoing.qsize() < _MOST_WAITING:
            self._outgoing.put_nowait(acknowledgement(number))

    async def write_all(self) -> None:
        """Raise `SourceFault`."""
        while True:
            frame = await self._outgoing.get()
            with blaming_the_node(self._socket):
                await self._socket.send(frame, text=True)

    async def read_all(self, take: Callable[[RelayMessage], Awaitable[None]]) -> None:
        """Have each message taken, one after the other. Raise `SourceFault`, or what `take` raises."""
        while True:
            with blaming_the_node(self._socket):
                frame = await self._socket.recv(decode=False)
            said = _understand(frame)
            if isinstance(said, RelayMessage):
                await take(said)
            elif said is not None:
                self._answer(said)

    def _answer(self, said: RelayAnswer | RelayRefusal) -> None:
        answer = self._unanswered.get(said.id)
        if answer is None or answer.done():
            return
        if isinstance(said, RelayRefusal):
            answer.set_exception(SourceFault(f"it refused a request: {said.code} {said.reason}"))
        else:
            answer.set_result(said.result)


@asynccontextmanager
async def connect(client: RelayClient, certificates: SSLContext | None, seconds: float) -> AsyncIterator[RelaySession]:
    """Authenticate with a new token; for `seconds` see `RelaySession`. Raise `SourceFault`, or what is raised inside.

    Without `certificates` the public authorities vouch for the relay.
    """
    with blaming_the_node():
        url = client.socket_url(int(time.time()))
        socket = await open_connection(url, most_bytes=_MOST_BYTES, certificates=certificates)
    try:
        yield RelaySession(socket, seconds)
    finally:
        # It is closed then in any case, and an error must not take the place of a cancellation.
        with suppress(Exception):
            await socket.close()


def _understand(frame: bytes) -> RelayMessage | RelayAnswer | RelayRefusal | None:
    try:
        return read(frame)
    except RelayFault as fault:
        raise SourceFault(str(fault)) from None
