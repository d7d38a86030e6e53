"""SMP servers are chosen by strangers: who is not who was named, or breaks the protocol, is left alone."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from errno import EAFNOSUPPORT
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from bench.simplex_source import followed, row_of, server_context
from clarion.networks.simplex.addresses import SmpServer
from clarion.networks.simplex.queues import queue_of
from ingest.sources import SourceFault, SourceLost
from ingest.sources.simplex import connector
from ingest.sources.simplex.connector import Connector
from ingest.sources.simplex.handshake import SmpConnection, client_context
from ingest.sources.simplex.pace import ReadingPace
from ingest.sources.simplex.session import SmpTimes
from tests.ingest.conftest import ReceivedQueue, Run
from tests.ingest.simplex.conftest import MakeSmpSettings, add_queue, becomes, encoded, forwards, status_of
from tests.ingest.simplex.smp_server import Chain, SmpTestServer

IMPATIENT = SmpTimes(answer=0.4, ping=0.2, silence=20.0)


def address_of(server: SmpTestServer, *hosts: str) -> SmpServer:
    return queue_of(encoded(server, b"id", *hosts)).server


@asynccontextmanager
async def connected(address: SmpServer, *, loopback: bool = True) -> AsyncIterator[SmpConnection]:
    async with asyncio.timeout(30):
        connection = await Connector(client_context(), loopback=loopback).connect(address, proven=False)
    try:
        yield connection
    finally:
        connection.stream.close()


async def refusal(address: SmpServer, *, loopback: bool = True) -> str:
    with pytest.raises(SourceFault) as refused:
        async with connected(address, loopback=loopback):
            pass
    return str(refused.value)


async def test_an_honest_server_is_greeted(smp: SmpTestServer) -> None:
    async with connected(address_of(smp)) as connection:
        assert len(connection.session_id) in {12, 32, 48}


async def test_another_identity_than_the_agent_named_is_refused(smp: SmpTestServer) -> None:
    address = address_of(smp)
    assert await refusal(SmpServer(address.hosts, address.port, bytes(32))) == "another identity"


FAULTS = {
    "forged": {"signer": Ed25519PrivateKey.generate()},
    "expired": {"days": -1},
    "no year": {"ends_in_no_year": True},
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_leaf_that_is_forged_or_not_valid_now_is_refused(fault: str, tmp_path: Path) -> None:
    async with SmpTestServer(tmp_path, Chain(tmp_path, **FAULTS[fault])) as server:  # type: ignore[arg-type] # as it takes them
        assert (await refusal(address_of(server))).startswith("a leaf that")


async def test_a_session_key_that_the_leaf_has_not_signed_is_refused(smp: SmpTestServer) -> None:
    smp.signed_by = Ed25519PrivateKey.generate()
    assert await refusal(address_of(smp)) == "not a key that the leaf has signed"


async def test_a_server_without_our_version_is_refused(smp: SmpTestServer) -> None:
    smp.versions = (11, 20)
    assert await refusal(address_of(smp)) == "our version is not offered"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "10.1.2.3", "169.254.169.254", "[::1]", "0.0.0.0"])  # noqa: S104 - to be refused
async def test_only_public_addresses_are_connected_to(host: str, smp: SmpTestServer) -> None:
    refused = await refusal(address_of(smp, host), loopback=False)
    assert refused == "its name leads to no public address"
    assert smp.connections == 0


async def test_loopback_admits_no_other_private_address(smp: SmpTestServer) -> None:
    assert await refusal(address_of(smp, "192.168.1.1")) == "its name leads to no public address"


async def test_onion_hosts_are_skipped_and_not_resolved(smp: SmpTestServer, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    resolve = socket.getaddrinfo

    def resolve_and_note(host: str, *args: object, **others: object) -> object:
        asked.append(host)
        return resolve(host, *args, **others)  # type: ignore[arg-type] # as given

    monkeypatch.setattr(socket, "getaddrinfo", resolve_and_note)
    async with connected(address_of(smp, "a" * 56 + ".onion", "127.0.0.1")):
        assert asked == ["127.0.0.1"]
    assert await refusal(address_of(smp, "a" * 56 + ".onion")) == "its name leads nowhere"


async def test_names_that_nobody_resolves_delay_no_server_that_has_answered(
    smp: SmpTestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connector, "RESOLVING_SECONDS", 0.2)
    resolve, hanging = socket.getaddrinfo, list[str]()

    def resolve_or_hang(host: str, *args: object, **others: object) -> object:
        if host.endswith(".invalid"):
            hanging.append(host)
            time.sleep(2)
        return resolve(host, *args, **others)  # type: ignore[arg-type] # as given

    monkeypatch.setattr(socket, "getaddrinfo", resolve_or_hang)
    both = Connector(client_context(), loopback=True)
    lost = [asyncio.create_task(both.connect(address_of(smp, f"{n}.invalid"), proven=False)) for n in range(40)]
    while len(hanging) < 16:
        await asyncio.sleep(0.01)
    began = time.monotonic()
    connection = await both.connect(address_of(smp), proven=True)
    connection.stream.close()
    assert time.monotonic() - began < 1.5
    for task in lost:
        task.cancel()
    await asyncio.gather(*lost, return_exceptions=True)


async def test_a_server_whose_name_is_not_resolved_any_more_waits_among_the_unproven(
    smp: SmpTestServer, monkeypatch: pytest.MonkeyPatch
) -> None:

    def resolve_nothing(*_: object, **_others: object) -> object:
        raise socket.gaierror

    monkeypatch.setattr(socket, "getaddrinfo", resolve_nothing)
    _, key = smp.add_queue()
    row = row_of(smp.address("gone.example"), b"id", key)

    async def take(_: object) -> None: ...

    server = followed(row, server_context(take))
    before = server.proven
    following = asyncio.create_task(server.follow())
    while server.proven:
        await asyncio.sleep(0.01)
    assert (before, server.known) == (True, True)
    await server.leave(following)


async def test_an_address_of_another_server_hides_no_other_address(
    smp: SmpTestServer, more_smp: list[SmpTestServer]
) -> None:
    stranger = more_smp[0]
    there = await asyncio.start_server(stranger._serve, "127.0.0.2", smp.port, ssl=stranger.chain.context)
    async with there, connected(address_of(smp, "127.0.0.2", "127.0.0.1")):
        assert (stranger.connections, smp.connections) == (1, 1)


class WithoutIpv6:
    """The module `socket`, on a machine that has none."""

    def __getattr__(self, name: str) -> object:
        return getattr(socket, name)

    @staticmethod
    def socket(family: int, kind: int) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(EAFNOSUPPORT, "address family not supported")
        return socket.socket(family, kind)


async def test_an_address_for_which_there_is_no_socket_is_a_loss_and_the_next_one_is_tried(
    smp: SmpTestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connector, "socket", WithoutIpv6())
    async with connected(address_of(smp, "[::1]", "127.0.0.1")):
        assert smp.connections == 1
    with pytest.raises(SourceLost):
        async with connected(address_of(smp, "[::1]")):
            pass


async def test_an_address_where_nobody_answers_is_a_loss(smp: SmpTestServer) -> None:
    await smp.stop()
    with pytest.raises(SourceLost):
        async with connected(address_of(smp)):
            pass


def test_a_flood_is_read_no_faster_than_its_queues_can_use() -> None:
    now = [0.0]
    pace = ReadingPace(lambda: 50, clock=lambda: now[0])
    assert pace.excess(2_000) == 0
    assert pace.excess(110) == pytest.approx(2.0)
    now[0] += 22.0
    assert pace.excess(1) == 0


def test_a_flood_of_one_queue_is_read_hardly_faster_than_its_limit_lets_through() -> None:
    now, read = [0.0], 0
    pace = ReadingPace(lambda: 1, clock=lambda: now[0])
    while now[0] < 3_600:
        now[0] += pace.excess(80)
        read += 80
    assert read < 1_000 + 80 + 3_600 * 6.1


@pytest.mark.usefixtures("tables")
async def test_a_server_that_connects_anew_has_no_more_read_for_it(
    smp: SmpTestServer, running: Run, smp_settings: MakeSmpSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    paces: list[ReadingPace] = []
    spend = ReadingPace.spend

    async def note(pace: ReadingPace, count: int) -> None:
        paces.append(pace)
        await spend(pace, count)

    monkeypatch.setattr(ReadingPace, "spend", note)
    queue = add_queue(smp)
    async with running(smp_settings()):
        await becomes(smp, queue, "ACTIVE")
        await smp.stop()
        before = len(paces)
        await smp.start()
        while len(paces) == before:
            await asyncio.sleep(0.02)
    assert len(set(paces)) == 1


@pytest.mark.usefixtures("tables")
async def test_a_block_of_noise_costs_the_connection_and_nothing_else(
    smp: SmpTestServer, running: Run, smp_settings: MakeSmpSettings, received: ReceivedQueue
) -> None:
    queue = add_queue(smp)
    async with running(smp_settings()) as task:
        await smp.subscribes(queue)
        smp.send_raw(b"\xff" * 16_384)
        await smp.until(lambda: smp.connections == 2)
        await smp.subscribes(queue)
        await forwards(received, smp.notify(queue))
        assert task.counts["internal_errors"] == 0


@pytest.mark.usefixtures("tables")
async def test_messages_of_queues_that_nobody_asked_for_are_let_go(
    smp: SmpTestServer, running: Run, smp_settings: MakeSmpSettings, received: ReceivedQueue
) -> None:
    queue = add_queue(smp)
    stranger, _ = smp.add_queue()
    async with running(smp_settings()):
        await smp.subscribes(queue)
        smp.queues[stranger].subscriber = smp.queues[queue].subscriber
        smp.notify(*[stranger] * 3)
        await forwards(received, smp.notify(queue))
    assert len(received.messages) == 1


@pytest.mark.usefixtures("tables")
async def test_a_server_that_answers_no_subscription_is_left_and_tried_again(
    smp: SmpTestServer, running: Run, smp_settings: MakeSmpSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingest.sources.simplex.source.TIMES", IMPATIENT)
    queue = add_queue(smp)
    smp.mute = True
    async with running(smp_settings()):
        await smp.until(lambda: smp.connections == 2)
        smp.mute = False
        await becomes(smp, queue, "ACTIVE")


@pytest.mark.usefixtures("tables")
async def test_a_silent_server_is_asked_whether_it_is_there(
    smp: SmpTestServer, running: Run, smp_settings: MakeSmpSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingest.sources.simplex.source.TIMES", IMPATIENT)
    queue = add_queue(smp)
    async with running(smp_settings()):
        await becomes(smp, queue, "ACTIVE")
        await smp.until(lambda: smp.pings >= 2)
    assert smp.connections == 1


@pytest.mark.usefixtures("tables")
async def test_a_server_that_comes_and_goes_has_its_rows_written_once_an_hour(
    smp: SmpTestServer, running: Run, smp_settings: MakeSmpSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, noted = add_queue(smp), list[str]()
    async with running(smp_settings()):
        await becomes(smp, queue, "ACTIVE")
        # Not before: a busy machine may take longer for the first handshake, which were an absence.
        monkeypatch.setattr("ingest.sources.simplex.server.AWAY_SECONDS", 0.1)
        await smp.stop()
        await becomes(smp, queue, "INACTIVE")
        for _ in range(2):
            await smp.start()
            await becomes(smp, queue, "ACTIVE")
            await smp.subscribes(queue)
            await smp.stop()
            late = add_queue(smp)  # says when the absence was noted
            await becomes(smp, late, "PENDING")
            noted.append(status_of(smp, queue))
    assert noted == ["ACTIVE", "ACTIVE"]
