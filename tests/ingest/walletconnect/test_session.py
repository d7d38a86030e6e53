"""What a relay can make a connection to it hold."""

import asyncio
from typing import TYPE_CHECKING, cast

from ingest.sources.walletconnect import session
from ingest.sources.walletconnect.session import RelaySession

if TYPE_CHECKING:
    from ingest.sources.websocket import BoundedConnection


class UnreadSocket:
    """The other side doesn't read until it is `read`."""

    def __init__(self) -> None:
        self.read = asyncio.Event()
        self.sent: list[bytes] = []

    async def send(self, frame: bytes, *, text: bool) -> None:
        assert text
        await self.read.wait()
        self.sent.append(frame)


async def test_a_relay_that_sends_and_does_not_read_has_only_so_many_acknowledgements_wait() -> None:
    socket, most = UnreadSocket(), session._MOST_WAITING
    connection = RelaySession(cast("BoundedConnection", socket), seconds=1.0)
    for number in range(3 * most):
        connection.acknowledge(number)
    writing = asyncio.create_task(connection.write_all())
    socket.read.set()
    while len(socket.sent) < most:
        await asyncio.sleep(0)
    connection.acknowledge(-1)
    while len(socket.sent) == most:
        await asyncio.sleep(0)
    writing.cancel()
    assert [b":-1," in frame for frame in socket.sent[most - 1 :]] == [False, True]
