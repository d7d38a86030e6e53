"""A small HTTP/2 server over TLS, with the faults a client of Apple's or Google's servers meets.

A handler gets each complete request and returns an `ServedAnswer`: a response or a misbehaviour, now or after a delay.
"""

import asyncio
import socket
import ssl
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Self, cast, override

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings
from hyperframe.frame import GoAwayFrame, SettingsFrame

Headers = tuple[tuple[str, str], ...]

_MAX_BODY = 1 << 20
_CONNECTION_WINDOW = 1 << 24
_RST_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER, on, zero seconds


@dataclass(frozen=True, slots=True)
class ServedRequest:
    """`path` keeps its query; `headers` are lower-case, in order, without the pseudo-headers."""

    method: str
    path: str
    headers: Headers
    body: bytes

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name), None)


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    headers: Headers = ()
    body: bytes = b""


class Misbehaviour(Enum):
    """What a server does instead of answering."""

    RESET_STREAM = "RST_STREAM"
    RESET_CONNECTION = "TCP reset"
    GO_AWAY = "GOAWAY"
    SILENCE = "no answer"


@dataclass(frozen=True, slots=True)
class ServedAnswer:
    """`delay` in seconds."""

    outcome: Response | Misbehaviour
    delay: float = 0.0


Handler = Callable[[ServedRequest, "Connection"], ServedAnswer]


@dataclass(slots=True)
class _Stream:
    headers: list[tuple[str, str]]
    body: bytearray = field(default_factory=bytearray)
    unsent: memoryview | None = None


class Connection(asyncio.Protocol):
    """One client's connection.

    h2 would end the whole connection at one stream too many, and a client may open streams before it has seen our
    SETTINGS. So the limit is announced through h2, then enforced here, as real servers do: by refusing the stream.
    """

    def __init__(self, handler: Handler, max_streams: int, connections: set["Connection"]) -> None:
        self._handler = handler
        self._max_streams = max_streams
        self._connections = connections
        self._streams: dict[int, _Stream] = {}
        self._leaving = False
        self._h2 = H2Connection(
            H2Configuration(
                client_side=False,
                header_encoding="utf-8",
                normalize_inbound_headers=False,
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
            )
        )

    def allow_streams(self, count: int) -> None:
        """Announces a new limit of concurrent streams and holds the client to it."""
        if count != self._max_streams:
            self._max_streams = count
            self._transport.write(SettingsFrame(settings={SettingCodes.MAX_CONCURRENT_STREAMS: count}).serialize())

    def go_away(self, debug: bytes, last_stream: int | None = None) -> None:
        """Sends GOAWAY, finishes the streams up to `last_stream` (default: all so far), then closes."""
        self._flush()
        last = self._h2.highest_inbound_stream_id if last_stream is None else last_stream
        self._leaving = True
        self._streams = {number: stream for number, stream in self._streams.items() if number <= last}
        self._transport.write(GoAwayFrame(last_stream_id=last, additional_data=debug).serialize())
        self._close_when_idle()

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if transport.get_extra_info("ssl_object").selected_alpn_protocol() != "h2":
            self._transport.abort()
            return
        self._connections.add(self)
        limit = {SettingCodes.MAX_CONCURRENT_STREAMS: self._max_streams}
        self._h2.local_settings = Settings(client=False, initial_values=limit)
        self._h2.initiate_connection()
        del self._h2.local_settings[SettingCodes.MAX_CONCURRENT_STREAMS]
        self._h2.increment_flow_control_window(_CONNECTION_WINDOW)
        self._flush()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._streams.clear()
        self._connections.discard(self)

    @override
    def data_received(self, data: bytes) -> None:
        try:
            for event in self._h2.receive_data(data):
                self._react(event)
        except ProtocolError:
            self._flush()  # h2 has prepared the GOAWAY with the error
            self._transport.close()
        else:
            self._flush()

    def _react(self, event: Event) -> None:
        match event:
            case RequestReceived():
                self._open(event.stream_id, cast("list[tuple[str, str]]", event.headers))
            case DataReceived():
                self._collect(event)
            case StreamEnded() if event.stream_id in self._streams:
                self._handle(event.stream_id)
            case StreamReset():
                self._streams.pop(event.stream_id, None)
            case WindowUpdated() | RemoteSettingsChanged():
                for number in [number for number, stream in self._streams.items() if stream.unsent]:
                    self._send_body(number)
            case ConnectionTerminated():
                self._transport.close()

    def _open(self, number: int, headers: list[tuple[str, str]]) -> None:
        if self._leaving:
            return
        if len(self._streams) >= self._max_streams:
            self._h2.reset_stream(number, ErrorCodes.REFUSED_STREAM)
            return
        self._streams[number] = _Stream(headers)

    def _collect(self, event: DataReceived) -> None:
        if event.flow_controlled_length:
            self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        stream = self._streams.get(event.stream_id)
        if stream is None:
            return
        stream.body += event.data or b""
        if len(stream.body) > _MAX_BODY:
            self._misbehave(event.stream_id, Misbehaviour.RESET_STREAM)

    def _handle(self, number: int) -> None:
        stream = self._streams[number]
        pseudo = {name: value for name, value in stream.headers if name[0] == ":"}
        headers = tuple(pair for pair in stream.headers if pair[0][0] != ":")
        request = ServedRequest(pseudo[":method"], pseudo[":path"], headers, bytes(stream.body))
        answer = self._handler(request, self)
        if answer.delay:
            asyncio.get_running_loop().call_later(answer.delay, self._answer_late, number, answer.outcome)
        else:
            self._answer(number, answer.outcome)

    def _answer_late(self, number: int, outcome: Response | Misbehaviour) -> None:
        if number in self._streams:
            self._answer(number, outcome)
            self._flush()

    def _answer(self, number: int, outcome: Response | Misbehaviour) -> None:
        if isinstance(outcome, Misbehaviour):
            self._misbehave(number, outcome)
            return
        headers = [(":status", str(outcome.status)), *outcome.headers]
        self._h2.send_headers(number, headers, end_stream=not outcome.body)
        if outcome.body:
            self._streams[number].unsent = memoryview(outcome.body)
            self._send_body(number)
        else:
            self._finish(number)

    def _send_body(self, number: int) -> None:
        """Sends as much as both flow-control windows allow; the rest is sent on WINDOW_UPDATE."""
        stream = self._streams[number]
        while stream.unsent:
            window = min(self._h2.local_flow_control_window(number), self._h2.max_outbound_frame_size)
            if window <= 0:
                return
            chunk, stream.unsent = stream.unsent[:window], stream.unsent[window:]
            self._h2.send_data(number, bytes(chunk), end_stream=not stream.unsent)
        self._finish(number)

    def _misbehave(self, number: int, misbehaviour: Misbehaviour) -> None:
        match misbehaviour:
            case Misbehaviour.RESET_STREAM:
                self._h2.reset_stream(number, ErrorCodes.INTERNAL_ERROR)
                self._finish(number)
            case Misbehaviour.RESET_CONNECTION:
                sock = cast("socket.socket", self._transport.get_extra_info("socket"))
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RST_ON_CLOSE)
                self._transport.abort()
            case Misbehaviour.GO_AWAY:
                self.go_away(b'{"reason":"Shutdown"}', last_stream=max(0, number - 2))
            case Misbehaviour.SILENCE:
                pass

    def _finish(self, number: int) -> None:
        self._streams.pop(number, None)
        self._close_when_idle()

    def _close_when_idle(self) -> None:
        if self._leaving and not self._streams:
            self._flush()
            self._transport.close()

    def _flush(self) -> None:
        if (data := self._h2.data_to_send()) and not self._transport.is_closing():
            self._transport.write(data)


class Http2Server:
    """An async context manager: it listens on 127.0.0.1 inside, and has closed every connection after."""

    def __init__(self, handler: Handler, context: ssl.SSLContext, *, max_streams: int, port: int = 0) -> None:
        self._handler = handler
        self._context = context
        self._max_streams = max_streams
        self._port = port
        self._connections: set[Connection] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.get_running_loop().create_server(
            self._new_connection, "127.0.0.1", self._port, ssl=self._context
        )
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self._server.abort_clients()
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._port}"

    def go_away(self, debug: bytes = b'{"reason":"Shutdown"}') -> None:
        """Sends every client a GOAWAY; what is in flight is finished, new connections are accepted."""
        for connection in list(self._connections):
            connection.go_away(debug)

    def _new_connection(self) -> Connection:
        return Connection(self._handler, self._max_streams, self._connections)
