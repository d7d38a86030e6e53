"""A small HTTP/1.1 server over TLS, on the same port as a WebSocket server if there is one."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Self

from local.http2 import Headers, Response, ServedRequest

_HEAD_ENDS = b"\r\n\r\n"
_CHUNK = 1 << 16

type Respond = Callable[[ServedRequest], Awaitable[Response]]


class Http1Server:
    """An async context manager: it listens on localhost inside, and has closed every connection after.

    A connection that asks for an upgrade is passed on to `websocket_port`, where WebSocket is spoken in the clear.
    """

    def __init__(
        self, respond: Respond, context: ssl.SSLContext, *, port: int = 0, websocket_port: int | None = None
    ) -> None:
        self._respond = respond
        self._context = context
        self.port = port
        self._websocket_port = websocket_port

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=self._context)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self._server.abort_clients()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while not writer.is_closing():
                head = await reader.readuntil(_HEAD_ENDS)
                request = await _request(head, reader)
                if self._websocket_port and request.header("upgrade"):
                    await self._pass_on(head, reader, writer)
                else:
                    writer.write(_encoded(await self._respond(request)))
                    await writer.drain()
        writer.close()

    async def _pass_on(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Until either side ends."""
        answers, requests = await asyncio.open_connection("127.0.0.1", self._websocket_port)
        requests.write(head)
        async with asyncio.TaskGroup() as directions:
            directions.create_task(_pipe(reader, requests))
            directions.create_task(_pipe(answers, writer))


async def _request(head: bytes, reader: asyncio.StreamReader) -> ServedRequest:
    line, *fields = head.decode("latin-1").strip().split("\r\n")
    method, path, _ = line.split(" ")
    headers = tuple(_header(field) for field in fields)
    request = ServedRequest(method, path, headers, b"")
    body = await reader.readexactly(int(request.header("content-length") or 0))
    return ServedRequest(method, path, headers, body)


def _header(field: str) -> tuple[str, str]:
    name, _, value = field.partition(":")
    return name.lower(), value.strip()


def _encoded(response: Response) -> bytes:
    headers: Headers = (*response.headers, ("content-length", str(len(response.body))))
    lines = [f"HTTP/1.1 {response.status} {HTTPStatus(response.status).phrase}"]
    lines += [f"{name}: {value}" for name, value in headers]
    return "\r\n".join(lines).encode() + _HEAD_ENDS + response.body


async def _pipe(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    try:
        with suppress(ConnectionError):
            while data := await source.read(_CHUNK):
                sink.write(data)
                await sink.drain()
    finally:
        sink.close()
