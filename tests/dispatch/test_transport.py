import asyncio
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Self

import pycurl
import pytest

from clarion.providers import transport as transport_module
from clarion.providers.transport import Answer, Fault, Request, Timeouts, Transport
from local import http2, tls
from local.http2 import Http2Server, Misbehaviour, Response
from tests.standins import PATIENT, Silenceable, comes_true

OK = http2.ServedAnswer(Response(200))
HASTY = Timeouts(connect=8.0, answer=8.0)
"""For tests that wait for it. Until then a request has to arrive, on any machine."""


class Provider(Silenceable):
    """A server that notes what it got over which connection, and answers by a plan: nth request -> answer."""

    def __init__(self, context: ssl.SSLContext, max_streams: int = 1000) -> None:
        self.paths: Counter[str] = Counter()
        self.connections: set[http2.Connection] = set()  # themselves: an id may be used again
        self.plan: dict[int, http2.ServedAnswer] = {}
        self.usual = OK
        self._server = Http2Server(self._answer, context, max_streams=max_streams)

    async def __aenter__(self) -> Self:
        await self._server.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.__aexit__()

    @property
    def url(self) -> str:
        return self._server.url

    def _answer(self, request: http2.ServedRequest, connection: http2.Connection) -> http2.ServedAnswer:
        self.paths[request.path] += 1
        self.connections.add(connection)
        self.end_of_silence.wait()
        return self.plan.get(self.paths.total(), self.usual)


class FreezingRouter:
    """Passes bytes on between a client and a server until it forgets the connections it has."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._forgotten: set[int] = set()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def forget(self) -> None:
        self._forgotten.update(range(len(self._tasks)))

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", self._target)
        for source, sink in ((reader, upstream_writer), (upstream_reader, writer)):
            self._tasks.append(asyncio.create_task(self._pass_on(len(self._tasks), source, sink)))

    async def _pass_on(self, number: int, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            with suppress(ConnectionError):
                while data := await source.read(1 << 16):
                    if number not in self._forgotten:
                        sink.write(data)
        finally:
            sink.close()


@pytest.fixture
def provider(run: Callable[..., Any], localhost: tls.Localhost) -> Provider:
    server: Provider = run(Provider(localhost.server_context()))
    return server


@pytest.fixture
def client(localhost: tls.Localhost) -> Iterator[Callable[[Timeouts], Transport]]:
    made: list[Transport] = []

    def client(timeouts: Timeouts) -> Transport:
        made.append(Transport(str(localhost.ca_file), timeouts))
        return made[-1]

    yield client
    for transport in made:
        transport.close()


def requests(url: str, count: int, lane: str = "lane", name: str = "push") -> list[Request]:
    return [Request(f"{url}/{name}/{number}", ["x-key: value"], b"body", lane) for number in range(count)]


def test_many_requests_share_a_connection_that_outlives_them(
    provider: Provider, client: Callable[[Timeouts], Transport]
) -> None:
    transport = client(PATIENT)

    for _ in range(3):
        assert {result.status for result in _answers(transport.send(requests(provider.url, 500)))} == {200}

    assert len(provider.connections) == 1


def test_results_come_in_the_order_of_the_requests(provider: Provider, client: Callable[[Timeouts], Transport]) -> None:
    provider.plan = {n: http2.ServedAnswer(Response(500 + n), delay=0.01 * (5 - n)) for n in range(1, 6)}

    results = _answers(client(PATIENT).send(requests(provider.url, 6)))

    assert [answer.status for answer in results] == [501, 502, 503, 504, 505, 200]


@pytest.mark.parametrize("streams", [1, 7])
def test_streams_follow_the_servers_settings(
    run: Callable[..., Any], localhost: tls.Localhost, client: Callable[[Timeouts], Transport], streams: int
) -> None:
    provider = run(Provider(localhost.server_context(), max_streams=streams))

    results = _answers(client(PATIENT).send(requests(provider.url, 200)))

    assert {result.status for result in results} == {200}
    assert len(provider.connections) <= transport_module.CONNECTIONS
    assert set(provider.paths.values()) == {1}


def test_a_connection_reset_amid_500_streams_loses_nothing(
    provider: Provider, client: Callable[[Timeouts], Transport]
) -> None:
    provider.usual = http2.ServedAnswer(Response(200), delay=0.05)
    provider.plan = {250: http2.ServedAnswer(Misbehaviour.RESET_CONNECTION)}

    results = client(PATIENT).send(requests(provider.url, 500))

    assert {result.status for result in _answers(results)} == {200}
    assert len(provider.connections) == 2


def test_a_connection_that_says_goaway_is_left_and_nothing_is_sent_twice(
    provider: Provider, client: Callable[[Timeouts], Transport]
) -> None:
    provider.usual = http2.ServedAnswer(Response(200), delay=0.05)
    provider.plan = {250: http2.ServedAnswer(Misbehaviour.GO_AWAY)}

    results = client(PATIENT).send(requests(provider.url, 500))

    assert {result.status for result in _answers(results)} == {200}
    assert [path for path, times in provider.paths.items() if times > 1] == ["/push/249"]


def test_a_reset_stream_is_that_requests_fault_alone(
    provider: Provider, client: Callable[[Timeouts], Transport]
) -> None:
    provider.plan = {50: http2.ServedAnswer(Misbehaviour.RESET_STREAM)}

    results = client(PATIENT).send(requests(provider.url, 100))

    assert sum(isinstance(result, Fault) for result in results) == 1
    assert provider.paths.total() == 100
    assert len(provider.connections) == 1


@pytest.mark.parametrize("status", [200, 400, 503])
def test_an_answer_without_end_is_that_requests_fault_alone(
    provider: Provider, client: Callable[[Timeouts], Transport], status: int
) -> None:
    endless = Response(status, (("retry-after", "7"),), b"[" * 30_000_000)
    provider.plan = {50: http2.ServedAnswer(endless)}

    results = client(PATIENT).send(requests(provider.url, 100))

    fault = Answer(status, b"", None if status == 200 else 7)
    assert Counter(_answers(results)) == Counter([fault, *[Answer(200, b"")] * 99])
    assert provider.paths.total() == 100
    assert len(provider.connections) == 1


def test_an_answer_is_read_up_to_the_limit(provider: Provider, client: Callable[[Timeouts], Transport]) -> None:
    sizes = [transport_module.ANSWER_BYTES, transport_module.ANSWER_BYTES + 1, 3]
    provider.plan = {n: http2.ServedAnswer(Response(400, body=b"x" * size)) for n, size in enumerate(sizes, start=1)}

    transport = client(PATIENT)
    results = [transport.send(requests(provider.url, 1))[0] for _ in sizes]

    assert [len(answer.body) for answer in _answers(results)] == [sizes[0], 0, 3]


@pytest.mark.parametrize("body", [b"[" * 16_000, b'{"a":' * 3_000, b"", b"\xff", b'"\\ud800"'])
def test_a_body_that_is_no_json_or_nested_too_deep_reads_as_nothing(body: bytes) -> None:
    assert Answer(400, body).json() is None


def test_a_server_that_stays_silent_is_not_waited_for_twice(
    provider: Provider, client: Callable[[Timeouts], Transport]
) -> None:
    provider.usual = http2.ServedAnswer(Misbehaviour.SILENCE)

    (result,) = client(HASTY).send(requests(provider.url, 1))

    assert isinstance(result, Fault)
    assert provider.paths.total() == 1


def test_a_connection_forgotten_during_a_freeze_is_replaced(
    run: Callable[..., Any], provider: Provider, client: Callable[[Timeouts], Transport]
) -> None:
    router = run(FreezingRouter(int(provider.url.rpartition(":")[2])))
    transport = client(HASTY)
    url = f"https://127.0.0.1:{router.port}"
    transport.send(requests(url, 3))

    router.forget()

    assert {result.status for result in _answers(transport.send(requests(url, 100)))} == {200}
    assert len(provider.connections) == 2


def test_a_connection_that_routers_may_have_forgotten_is_not_used(
    provider: Provider, localhost: tls.Localhost, clock: Any
) -> None:
    transport = Transport(str(localhost.ca_file), PATIENT, clock)

    for pause in (0, transport_module.IDLE_SECONDS, transport_module.IDLE_SECONDS + 1):
        clock.advance(pause)
        assert {result.status for result in _answers(transport.send(requests(provider.url, 2)))} == {200}
    transport.close()

    assert len(provider.connections) == 2


def test_a_connection_closed_between_calls_is_replaced(
    run: Callable[..., Any], localhost: tls.Localhost, client: Callable[[Timeouts], Transport]
) -> None:
    provider = run(Provider(localhost.server_context()))
    transport = client(PATIENT)
    provider.plan = {3: http2.ServedAnswer(Misbehaviour.GO_AWAY)}

    for _ in range(3):
        assert {result.status for result in _answers(transport.send(requests(provider.url, 2)))} == {200}


def test_a_silent_lane_delays_no_other(
    run: Callable[..., Any], localhost: tls.Localhost, client: Callable[[Timeouts], Transport]
) -> None:
    silent, healthy = (run(Provider(localhost.server_context())) for _ in range(2))
    silent.usual = http2.ServedAnswer(Misbehaviour.RESET_STREAM)
    mixed = requests(silent.url, 50, lane="silent") + requests(healthy.url, 50, lane="healthy")

    with ThreadPoolExecutor(1) as pool, silent.silence():
        sending = pool.submit(client(PATIENT).send, mixed)
        assert comes_true(lambda: len(healthy.paths) == 50)
        assert not sending.done()
    results = sending.result()

    assert {result.status for result in _answers(results[50:])} == {200}
    assert all(isinstance(result, Fault) for result in results[:50])


def test_lanes_share_no_connection(provider: Provider, client: Callable[[Timeouts], Transport]) -> None:
    transport = client(PATIENT)

    transport.send(requests(provider.url, 5, lane="one") + requests(provider.url, 5, lane="another"))

    assert len(provider.connections) == 2


def test_a_server_that_is_not_there_is_a_fault(client: Callable[[Timeouts], Transport]) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]

        results = client(PATIENT).send(requests(f"https://127.0.0.1:{port}", 50))

    assert {result.code for result in results if isinstance(result, Fault)} == {pycurl.E_COULDNT_CONNECT}


def test_a_server_without_a_trusted_certificate_gets_nothing(provider: Provider) -> None:
    transport = Transport(timeouts=PATIENT)

    (result,) = transport.send(requests(provider.url, 1))
    transport.close()

    assert isinstance(result, Fault)
    assert provider.paths.total() == 0


def test_neither_a_request_nor_its_answer_shows_a_secret() -> None:
    shown = repr([Request("https://oauth", ["x-key: ya29.key"], b"ya29.asked", "oauth"), Answer(200, b"ya29.granted")])

    assert "ya29" not in shown


def test_nothing_to_send_is_nothing_to_wait_for(client: Callable[[Timeouts], Transport]) -> None:
    assert client(PATIENT).send([]) == []


def _answers(results: list[Answer | Fault]) -> list[Answer]:
    assert [result for result in results if isinstance(result, Fault)] == []
    return [result for result in results if isinstance(result, Answer)]
