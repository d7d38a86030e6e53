"""Development nodes of XMTP: `MessageApi.SubscribeAll` over gRPC and TLS, in memory.

A stream begins with what is published next: nothing is replayed. As the real node does, this one sends a header at once,
and ends the stream of a subscriber that lags behind by more than a thousand envelopes.

    async with DevelopmentNode(localhost) as one, DevelopmentNode(localhost) as other:
        network = XmtpNetwork(one, other)
        await network.publish(topic, message)   # each node shows it with its own time
        one.stall()                             # or `resume`, `end_streams`, `refuse`, `accept`, `show_raw`

https://github.com/xmtp/xmtp-node-go/blob/main/pkg/api/message/v1/service.go
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Self

import grpc
import grpc.aio

from clarion.networks.xmtp.wire_pb2 import NodeEnvelope
from local.tls import Localhost

SERVICE = "xmtp.message_api.v1.MessageApi"
SHOW = "DevShow"
"""The stand-in's own method, for other processes: takes an envelope, and shows it with the node's own time."""
_BACKLOG = 1_024
_SUBSCRIBED = (("subscribed", "true"),)


class _EnvelopeStream:
    """What one subscriber is still to be shown; its end is the status to end with."""

    def __init__(self) -> None:
        self._waiting = asyncio.Queue[bytes | grpc.StatusCode]()

    def offer(self, raw: bytes) -> bool:
        """Whether it keeps up; one that does not is ended."""
        keeps_up = self._waiting.qsize() < _BACKLOG
        self._waiting.put_nowait(raw if keeps_up else grpc.StatusCode.OK)
        return keeps_up

    def end(self, status: grpc.StatusCode) -> None:
        self._waiting.put_nowait(status)

    async def next(self) -> bytes | grpc.StatusCode:
        return await self._waiting.get()


class DevelopmentNode:
    """An async context manager: the node answers on localhost inside. Started again, it has the port it had before.

    `now` is the node's clock: UNIX time in nanoseconds.
    """

    def __init__(self, localhost: Localhost, *, port: int = 0, now: Callable[[], int] = time.time_ns) -> None:
        self._certificate = localhost.certificate_file.read_bytes()
        self._port = port
        self._now = now
        self._streams: set[_EnvelopeStream] = set()
        self._refusal: grpc.StatusCode | None = None
        self._opened, self._flowing = asyncio.Event(), asyncio.Event()
        self._flowing.set()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        self._server = grpc.aio.server()
        handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_stream_rpc_method_handler(self._subscribe_all)
        show: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(self._show_sent)
        methods = {"SubscribeAll": handler, SHOW: show}
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, methods),))
        # Key and certificates lie in one file; each is found in it.
        credentials = grpc.ssl_server_credentials([(self._certificate, self._certificate)])
        self._port = self._server.add_secure_port(f"127.0.0.1:{self._port}", credentials)
        await self._server.start()

    async def stop(self) -> None:
        """As if its machine were gone: streams break, and nobody answers."""
        self._opened.clear()
        await self._server.stop(grace=None)

    @property
    def url(self) -> str:
        return f"https://localhost:{self._port}"

    @property
    def subscribers(self) -> int:
        return len(self._streams)

    async def until_watched(self) -> None:
        """Wait for a first stream, also after `stop`, `refuse` and `end_streams`."""
        await self._opened.wait()

    def show(self, topic: str, message: bytes) -> bytes:
        """Show it with the node's own time; returns the envelope."""
        envelope = NodeEnvelope(content_topic=topic, timestamp_ns=self._now(), message=message)
        raw: bytes = envelope.SerializeToString()
        self.show_raw(raw)
        return raw

    def show_raw(self, raw: bytes) -> None:
        """Show these bytes in place of an envelope, whatever they are."""
        self._streams = {stream for stream in self._streams if stream.offer(raw)}

    def end_streams(self, status: grpc.StatusCode = grpc.StatusCode.OK) -> None:
        """End all that are open; new ones are accepted."""
        streams, self._streams = self._streams, set()
        self._opened.clear()
        for stream in streams:
            stream.end(status)

    def refuse(self, status: grpc.StatusCode = grpc.StatusCode.UNAVAILABLE) -> None:
        """End all streams, and whatever is opened from now on, until `accept`."""
        self._refusal = status
        self.end_streams(status)

    def accept(self) -> None:
        self._refusal = None

    def stall(self) -> None:
        """Show nothing more, new streams' headers included, though all stay open; `resume` shows what has waited."""
        self._flowing.clear()

    def resume(self) -> None:
        self._flowing.set()

    async def _show_sent(self, raw: bytes, _: "grpc.aio.ServicerContext[bytes, bytes]") -> bytes:
        sent = NodeEnvelope.FromString(raw)
        return self.show(sent.content_topic, sent.message)

    async def _subscribe_all(self, _: bytes, context: "grpc.aio.ServicerContext[bytes, bytes]") -> AsyncIterator[bytes]:
        if self._refusal:
            await context.abort(self._refusal)
        stream = _EnvelopeStream()
        self._streams.add(stream)
        self._opened.set()
        try:
            await self._flowing.wait()
            await context.send_initial_metadata(_SUBSCRIBED)
            while isinstance(shown := await stream.next(), bytes):
                await self._flowing.wait()
                yield shown
            context.set_code(shown)
        finally:
            self._streams.discard(stream)


class XmtpNetwork:
    """Nodes that show the same messages."""

    def __init__(self, *nodes: DevelopmentNode) -> None:
        self.nodes = nodes

    @property
    def urls(self) -> list[str]:
        return [node.url for node in self.nodes]

    def publish(self, topic: str, message: bytes) -> bytes:
        """Returns the envelope as the first node shows it."""
        raw, *_ = [node.show(topic, message) for node in self.nodes]
        return raw
