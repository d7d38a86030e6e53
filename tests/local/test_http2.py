import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pycurl
import pytest
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import ConnectionTerminated, Event, RemoteSettingsChanged, ResponseReceived, StreamEnded, StreamReset
from h2.settings import SettingCodes

from local import tls
from local.http2 import Connection, Http2Server, Response, ServedAnswer, ServedRequest


class RawClient:
    """A client that sends what it likes, when it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.h2 = H2Connection()
        self.h2.initiate_connection()
        self.events: list[Event] = []

    def request(self, path: str) -> int:
        number = self.h2.get_next_available_stream_id()
        pseudo = [(":method", "POST"), (":scheme", "https"), (":authority", "localhost"), (":path", path)]
        self.h2.send_headers(number, pseudo, end_stream=True)
        return number

    def send(self, data: bytes = b"") -> None:
        self._writer.write(self.h2.data_to_send() + data)

    async def until[E: Event](self, kind: type[E], times: int = 1) -> list[E]:
        while len(found := [event for event in self.events if isinstance(event, kind)]) < times:
            data = await self._reader.read(65536)
            assert data, "the server has closed the connection"
            self.events += self.h2.receive_data(data)
            self.send()
        return found


def handle(request: ServedRequest, connection: Connection) -> ServedAnswer:
    """/slow takes a little; /welcome allows eight streams; anything else is just answered."""
    if request.path == "/welcome":
        connection.allow_streams(8)
    return ServedAnswer(Response(200), delay=0.05 if request.path == "/slow" else 0)


@pytest.fixture
async def server(localhost: tls.Localhost) -> AsyncIterator[Http2Server]:
    async with Http2Server(handle, localhost.server_context(), max_streams=1) as server:
        yield server


@asynccontextmanager
async def raw_client(server: Http2Server, localhost: tls.Localhost) -> AsyncIterator[RawClient]:
    context = localhost.client_context()
    context.set_alpn_protocols(["h2"])
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]), ssl=context)
    try:
        yield RawClient(reader, writer)
    finally:
        writer.close()


@pytest.fixture
async def client(server: Http2Server, localhost: tls.Localhost) -> AsyncIterator[RawClient]:
    async with raw_client(server, localhost) as client:
        yield client


async def test_a_stream_too_many_is_refused_and_the_connection_lives(client: RawClient) -> None:
    first, second = client.request("/slow"), client.request("/")
    client.send()
    [refused] = await client.until(StreamReset)
    assert (refused.stream_id, refused.error_code) == (second, ErrorCodes.REFUSED_STREAM)
    [answered] = await client.until(StreamEnded)
    assert answered.stream_id == first


async def test_the_limit_is_announced_and_can_be_raised(client: RawClient) -> None:
    client.request("/welcome")
    client.send()
    changes = await client.until(RemoteSettingsChanged, 2)
    limits = [change.changed_settings[SettingCodes.MAX_CONCURRENT_STREAMS].new_value for change in changes]
    assert limits == [1, 8]
    for _ in range(8):
        client.request("/slow")
    client.send()
    assert len(await client.until(ResponseReceived, 9)) == 9


async def test_a_server_that_leaves_says_how_far_it_got(server: Http2Server, client: RawClient) -> None:
    answered = client.request("/")
    client.send()
    await client.until(StreamEnded)
    server.go_away()
    [farewell] = await client.until(ConnectionTerminated)
    assert (farewell.error_code, farewell.last_stream_id) == (ErrorCodes.NO_ERROR, answered)
    assert farewell.additional_data == b'{"reason":"Shutdown"}'


async def test_a_server_that_leaves_finishes_what_it_has_begun(localhost: tls.Localhost) -> None:
    begun = asyncio.Event()

    def slowly(_: ServedRequest, __: Connection) -> ServedAnswer:
        begun.set()
        return ServedAnswer(Response(200), delay=0.05)

    async with Http2Server(slowly, localhost.server_context(), max_streams=1) as server:
        answer = asyncio.create_task(asyncio.to_thread(status_by_curl, server.url, localhost))
        await begun.wait()
        server.go_away()
        assert await answer == 200


def status_by_curl(url: str, localhost: tls.Localhost) -> int:
    curl = pycurl.Curl()
    curl.setopt(pycurl.URL, url)
    curl.setopt(pycurl.CAINFO, str(localhost.ca_file))
    curl.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_2TLS)
    curl.setopt(pycurl.PROXY, "")
    curl.perform()
    status: int = curl.getinfo(pycurl.RESPONSE_CODE)
    return status


async def test_what_is_no_http2_ends_the_connection_with_the_reason(client: RawClient) -> None:
    client.send(b"\x00\x00\x00\x00\x00\x00\x00\x00\x00")  # DATA on stream 0
    [farewell] = await client.until(ConnectionTerminated)
    assert farewell.error_code == ErrorCodes.PROTOCOL_ERROR
