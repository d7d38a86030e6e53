"""Nodes of XMTP that really listen: over gRPC, and below it for those that mean no good."""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Self

import grpc
from h2.config import H2Configuration
from h2.connection import H2Connection

from clarion.networks.xmtp.wire_pb2 import NodeEnvelope
from tests.ports import reserve_port

METHOD = "/xmtp.message_api.v1.MessageApi/SubscribeAll"
SECRET = "c2VjcmV0 of the node"

type Context = grpc.aio.ServicerContext[bytes, bytes]
type Behaviour = Callable[[Context], Awaitable[None]]
type Peer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@cache
def taken_ns() -> int:
    """When a test's envelopes came to their nodes; the same all through it."""
    return time.time_ns()


def envelope(text: str, topic: str = "/xmtp/mls/1/g-aa/proto", *, later_s: int = 0) -> bytes:
    """As a node shows it whose clock is so many seconds ahead."""
    taken = taken_ns() + later_s * 1_000_000_000
    return NodeEnvelope(content_topic=topic, timestamp_ns=taken, message=text.encode()).SerializeToString()


class Service(grpc.GenericRpcHandler):
    def __init__(self, behave: Behaviour) -> None:
        self._behave = behave

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        if details.method != METHOD:
            return None
        return grpc.unary_stream_rpc_method_handler(self._answer)

    async def _answer(self, request: bytes, context: Context) -> None:
        assert request == b""
        await self._behave(context)


class GrpcNode:
    """Treats each subscriber as `behave` does, or shows what it is given."""

    def __init__(self, certificate: Path, behave: Behaviour | None = None, **options: Any) -> None:
        self._behave = behave or self._show_all
        self._options = options
        self._certificate = certificate.read_bytes()
        self._subscribers: set[asyncio.Queue[bytes]] = set()
        self.subscriptions = self.gone = 0
        self._port = reserve_port(self)

    async def __aenter__(self) -> Self:
        self._server = grpc.aio.server(**self._options)
        self._server.add_generic_rpc_handlers([Service(self._count)])
        credentials = grpc.ssl_server_credentials([(self._certificate, self._certificate)])
        self._server.add_secure_port(f"127.0.0.1:{self._port}", credentials)
        await self._server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.stop(None)

    @property
    def url(self) -> str:
        return f"https://localhost:{self._port}"

    def show(self, *envelopes: bytes) -> None:
        for raw in envelopes:
            for subscriber in self._subscribers:
                subscriber.put_nowait(raw)

    async def subscribed(self, times: int = 1) -> None:
        while self.subscriptions < times:
            await asyncio.sleep(0.005)

    async def _count(self, context: Context) -> None:
        try:
            self.subscriptions += 1
            await self._behave(context)
        finally:
            self.gone += 1

    async def _show_all(self, context: Context) -> None:
        shown: asyncio.Queue[bytes] = asyncio.Queue()
        self._subscribers.add(shown)
        await context.send_initial_metadata(())
        try:
            while True:
                await context.write(await shown.get())
        finally:
            self._subscribers.discard(shown)


class BareNode:
    """Something that listens where a node should."""

    def __init__(self, port: int) -> None:
        self.url = f"https://localhost:{port}"


@asynccontextmanager
async def bare(converse: Peer, tls: ssl.SSLContext | None = None) -> AsyncIterator[BareNode]:
    async def survive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            await converse(reader, writer)
        writer.close()

    async with await asyncio.start_server(survive, "localhost", 0, ssl=tls) as server:
        yield BareNode(server.sockets[0].getsockname()[1])
        server.close()
        server.abort_clients()


def speaking_http2(behave: Callable[[H2Connection, asyncio.StreamWriter], Awaitable[None]]) -> Peer:
    """Takes a subscription's request, then does what it likes."""

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        http2 = H2Connection(H2Configuration(client_side=False))
        http2.initiate_connection()
        writer.write(http2.data_to_send())
        requested = False
        while not requested:
            data = await reader.read(65_536)
            if not data:
                return
            requested = any(type(event).__name__ == "RequestReceived" for event in http2.receive_data(data))
            writer.write(http2.data_to_send())
        await behave(http2, writer)
        while await reader.read(65_536):
            pass

    return converse
