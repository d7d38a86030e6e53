import socket
from collections.abc import Callable
from typing import Any, NamedTuple

import pycurl
import pytest

from clarion.providers import public_addresses
from clarion.providers.public_addresses import open_public_socket
from clarion.providers.transport import Answer, Fault, Request, Transport
from clarion.public_addresses import is_public
from local import http2, tls
from local.http2 import Http2Server, Response

PRIVATE = [
    *("0.0.0.1", "127.0.0.1", "127.9.9.9", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.0.1"),
    *("169.254.169.254", "169.254.170.2", "100.64.0.1", "192.0.0.1", "192.0.2.1", "198.18.0.1", "224.0.0.1"),
    *("240.0.0.1", "255.255.255.255", "::", "::1", "fe80::1", "fe80::1%eth0", "fec0::1", "fc00::1", "fd00:ec2::254"),
    *("ff02::1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1", "2001:db8::1", "2002:7f00:1::", "2001::1"),
    *("64:ff9b::10.0.0.1", "64:ff9b::169.254.169.254", "64:ff9b:1::8.8.8.8", "4000::1"),
]
PUBLIC = ["8.8.8.8", "142.250.74.106", "2a00:1450:4001:80b::200a", "2620:149:af0::10", "64:ff9b::8.8.8.8"]


class Address(NamedTuple):
    family: int
    addr: Any
    socktype: int = socket.SOCK_STREAM
    protocol: int = socket.IPPROTO_TCP


@pytest.mark.parametrize("address", PRIVATE)
def test_an_address_that_the_internet_does_not_reach_is_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_an_address_that_the_internet_reaches_is_public(address: str) -> None:
    assert is_public(address)


def test_a_socket_is_opened_to_a_public_address_only() -> None:
    opened = open_public_socket(0, Address(socket.AF_INET, ("8.8.8.8", 443)))
    assert isinstance(opened, socket.socket)
    del opened  # closed without a warning, as libcurl keeps a duplicate

    assert open_public_socket(0, Address(socket.AF_INET, ("127.0.0.1", 443))) == pycurl.SOCKET_BAD
    assert open_public_socket(0, Address(socket.AF_INET6, ("::1", 443, 0, 0))) == pycurl.SOCKET_BAD
    assert open_public_socket(0, Address(socket.AF_UNIX, "/run/socket")) == pycurl.SOCKET_BAD


class Server(Http2Server):
    """Counts who asks it, and sends everybody elsewhere."""

    def __init__(self, context: Any) -> None:
        self.paths: list[str] = []
        self.connections: set[http2.Connection] = set()
        self.usual: http2.ServedAnswer = http2.ServedAnswer(Response(200))
        super().__init__(self._respond, context, max_streams=100)

    def _respond(self, request: http2.ServedRequest, connection: http2.Connection) -> http2.ServedAnswer:
        self.paths.append(request.path)
        self.connections.add(connection)
        return self.usual


@pytest.fixture
def server(run: Callable[..., Any], localhost: tls.Localhost) -> Server:
    started: Server = run(Server(localhost.server_context()))
    return started


def by_name(server: Server) -> str:
    """A name that resolves to a private address, as a push service's might."""
    return server.url.replace("127.0.0.1", "localhost")


def test_a_request_to_a_public_host_reaches_no_private_address(server: Server, transport: Transport) -> None:
    for url in (server.url, by_name(server)):
        (result,) = transport.send([Request(f"{url}/x", [], b"", "lane", public=True)])
        assert isinstance(result, Fault)
        assert result.code == pycurl.E_COULDNT_CONNECT

    assert server.paths == []


def test_a_request_to_our_own_host_reaches_it_beside_one_that_must_not(server: Server, transport: Transport) -> None:
    for _ in range(3):
        own = [Request(f"{server.url}/own", [], b"", "own") for _ in range(3)]
        foreign = [Request(f"{server.url}/foreign", [], b"", "foreign", public=True) for _ in range(3)]
        results = transport.send([*own, *foreign])
        assert [isinstance(result, Answer) for result in results] == [True] * 3 + [False] * 3

    assert set(server.paths) == {"/own"}


def test_what_must_reach_public_addresses_uses_no_connection_that_was_free_to_lead_anywhere(
    server: Server, transport: Transport
) -> None:
    transport.send([Request(f"{server.url}/own", [], b"", "lane")])
    seen = len(server.paths)

    (result,) = transport.send([Request(f"{server.url}/foreign", [], b"", "lane", public=True)])

    assert isinstance(result, Fault)
    assert result.code == pycurl.E_COULDNT_CONNECT
    assert len(server.paths) == seen


def test_a_connection_to_a_public_address_serves_many_requests(
    server: Server, transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As far as this can be tried without the internet: the server's address is taken for public."""
    monkeypatch.setattr(public_addresses, "is_public", lambda _: True)

    for _ in range(3):
        results = transport.send([Request(f"{server.url}/x", [], b"", "lane", public=True) for _ in range(50)])
        assert [result.status for result in results if isinstance(result, Answer)] == [200] * 50

    assert len(server.paths) == 150
    assert len(server.connections) == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_an_answer_and_not_followed(server: Server, transport: Transport, status: int) -> None:
    server.usual = http2.ServedAnswer(Response(status, (("location", f"{server.url}/elsewhere"),)))

    (result,) = transport.send([Request(f"{server.url}/x", [], b"", "lane")])

    assert isinstance(result, Answer)
    assert result.status == status
    assert server.paths == ["/x"]
