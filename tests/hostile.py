"""Statement store nodes that mean no good, as stand-ins that really listen."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

type Behaviour = Callable[[ServerConnection], Awaitable[None]]


class HostileNode:
    def __init__(self, url: str) -> None:
        self.url = url


@asynccontextmanager
async def hostile(behave: Behaviour) -> AsyncIterator[HostileNode]:
    """A WebSocket server that treats each client so."""

    async def converse(socket: ServerConnection) -> None:
        with suppress(ConnectionClosed):
            await behave(socket)

    async with serve(converse, "127.0.0.1", 0, compression=None, close_timeout=0.1, ping_interval=None) as server:
        yield HostileNode(f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}")


@asynccontextmanager
async def answering(response: bytes) -> AsyncIterator[HostileNode]:
    """Answers the request for a WebSocket with these bytes."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(response)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield HostileNode(f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}")


def redirect(*locations: str) -> bytes:
    """An HTTP response."""
    fields = "".join(f"Location: {location}\r\n" for location in locations)
    return f"HTTP/1.1 302 Found\r\nContent-Length: 0\r\n{fields}\r\n".encode()


async def accept_subscription(socket: ServerConnection) -> None:
    for result in ({"methods": ["statement_subscribeStatement"]}, "subscription"):
        asked = json.loads(await socket.recv())
        await socket.send(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}))


def after_subscribing(*frames: str | bytes) -> Behaviour:
    """Accepts the subscription, then sends these."""

    async def behave(socket: ServerConnection) -> None:
        await accept_subscription(socket)
        for frame in frames:
            await socket.send(frame)
        await socket.wait_closed()

    return behave


def notification(**data: Any) -> str:
    result = {"event": "newStatements", "data": data}
    return json.dumps({"method": "statement_statement", "params": {"subscription": 1, "result": result}})


def showing(*statements: bytes) -> str:
    """The notification of live statements."""
    return notification(statements=["0x" + statement.hex() for statement in statements])


def names_itself(subscription: str) -> Behaviour:
    """Speaks the draft of the protocol, and gives a subscription this id."""

    async def behave(socket: ServerConnection) -> None:
        for result in ('{"methods": ["statement_unstable_subscribe"]}', subscription, '"accepted"'):
            asked = json.loads(await socket.recv())
            await socket.send(f'{{"id": {asked["id"]}, "result": {result}}}')
        await socket.wait_closed()

    return behave


def floods(frames: bytes) -> Behaviour:
    """Sends these bytes as they are, on and on, and reads no answer."""

    async def behave(socket: ServerConnection) -> None:
        await accept_subscription(socket)
        socket.transport.pause_reading()
        while not socket.transport.is_closing():
            socket.transport.write(frames)
            await asyncio.sleep(0.01)

    return behave


class Replaying:
    """A node whose replay goes on, one statement at a time, until it is ended."""

    def __init__(self, remaining: int = 1_000_000) -> None:
        self._remaining = remaining
        self._statements: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.sent = 0

    def show(self, statement: bytes) -> None:
        self._statements.put_nowait(statement)

    def end(self) -> None:
        self._statements.put_nowait(None)

    async def behave(self, socket: ServerConnection) -> None:
        await accept_subscription(socket)
        replaying = asyncio.create_task(self._replay(socket))
        await socket.wait_closed()
        replaying.cancel()

    async def _replay(self, socket: ServerConnection) -> None:
        while statement := await self._statements.get():
            self._remaining -= 1
            await socket.send(notification(statements=["0x" + statement.hex()], remaining=self._remaining))
            self.sent += 1
        await socket.send(notification(statements=[], remaining=0))
