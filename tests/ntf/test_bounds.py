"""What one agent, or one address, may take of a task."""

import asyncio
import re
import socket
import ssl
from contextlib import ExitStack, suppress
from itertools import batched
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clarion.metrics import Metric
from ntf import bounds
from ntf.bounds import Peers, TooManyError
from ntf.pace import Pace, take_all
from ntf.settings import NtfBounds
from tests.ntf.agent import BLOCK, TlsAgent, registering, tls_context
from tests.ntf.conftest import PATIENCE, Connect, Running, Serve
from tests.ntf.handlers import Recording
from tests.simplex_wire import batch, short


def raw_connection(running: Running, of: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", running.port), timeout=PATIENCE, source_address=(of, 0))


def ends(connection: socket.socket) -> bool:
    """Waits until the other side has closed."""
    try:
        while connection.recv(BLOCK):
            pass
    except ConnectionError:
        pass
    connection.close()
    return True


async def test_an_address_has_so_many_connections_at_once(serve: Serve, connect: Connect) -> None:
    running = await serve(connections_per_peer=2)
    agents = [await connect(running.port), await connect(running.port)]
    with pytest.raises((ConnectionError, ssl.SSLError, EOFError)):
        await connect(running.port)
    assert running.service.counts[Metric.NTF_CONNECTIONS_REFUSED] == 1
    agents[0].close()
    await running.until(lambda: running.service.peers.connections == 1)
    await connect(running.port)


async def test_an_address_opens_so_many_connections_in_a_while(serve: Serve, connect: Connect) -> None:
    running = await serve(connections_per_peer=2, connections_per_second=0.001)
    for _ in range(2):
        (await connect(running.port)).close()
    await running.until(lambda: running.service.peers.connections == 0)
    with pytest.raises((ConnectionError, ssl.SSLError, EOFError)):
        await connect(running.port)


async def test_a_task_has_so_many_connections_and_so_many_handshakes(serve: Serve, connect: Connect) -> None:
    few, shy = await serve(connections=1), await serve(handshakes=1)
    await connect(few.port)
    silent = raw_connection(shy)
    await shy.until(lambda: len(shy.service.peers.handshakes) == 1)
    for running in (few, shy):
        assert await asyncio.to_thread(ends, raw_connection(running))
        assert running.service.counts[Metric.NTF_CONNECTIONS_REFUSED] == 1
    silent.close()


async def test_an_address_has_so_many_handshakes_at_once(serve: Serve) -> None:
    running = await serve(handshakes_per_peer=1)
    silent = raw_connection(running)
    await running.until(lambda: len(running.service.peers.handshakes) == 1)
    assert await asyncio.to_thread(ends, raw_connection(running))
    silent.close()
    await running.until(lambda: len(running.service.peers.handshakes) == 0)


async def test_half_open_handshakes_of_a_few_addresses_keep_nobody_else_out(serve: Serve, connect: Connect) -> None:
    running = await serve(handshakes=3)
    silent = [raw_connection(running) for _ in range(3)]
    await running.until(lambda: len(running.service.peers.handshakes) == 3)
    await connect(running.port, source="127.0.0.2")
    assert await asyncio.to_thread(ends, silent[0])
    await running.until(lambda: len(running.service.peers.handshakes) == 2)
    for connection in silent[1:]:
        connection.close()


def test_a_handshake_gives_its_place_only_to_an_address_that_has_fewer() -> None:
    peers, ended = Peers(NtfBounds(handshakes=3)), list[str]()
    with ExitStack() as stack:

        def begin(address: str, name: str) -> None:
            peer = stack.enter_context(peers.connection(address, 0.0))
            stack.enter_context(peers.handshakes.place(peer, lambda: ended.append(name)))

        for name in ("first", "second", "third"):
            begin("192.0.2.1", name)
        begin("192.0.2.2", "other")
        assert (ended, len(peers.handshakes)) == (["first"], 3)
        for address in ("192.0.2.1", "192.0.2.2"):
            with pytest.raises(TooManyError):
                begin(address, "late")
    assert (len(peers.handshakes), peers.connections) == (0, 0)


def test_nobody_is_ended_for_one_that_is_refused_all_the_same() -> None:
    peers, ended = Peers(NtfBounds(handshakes=2, connections=2)), list[str]()
    with ExitStack() as stack:
        for name in ("first", "second"):
            peer = stack.enter_context(peers.connection("192.0.2.1", 0.0))
            stack.enter_context(peers.handshakes.place(peer, lambda name=name: ended.append(name)))  # type: ignore[misc] # a str
        with pytest.raises(TooManyError), peers.connection("192.0.2.2", 0.0):
            pass
        assert ended == []


async def test_idle_sessions_of_a_few_addresses_keep_nobody_else_out(serve: Serve, connect: Connect) -> None:
    running = await serve(connections=2)
    idle, kept = await connect(running.port), await connect(running.port)
    late = await connect(running.port, source="127.0.0.2")
    assert await asyncio.to_thread(idle.is_closed)
    for agent in (kept, late):
        assert await asyncio.to_thread(agent.ask, agent.ping(b"1"))
    assert await asyncio.to_thread(ends, raw_connection(running, "127.0.0.3"))


async def test_who_says_nothing_or_only_a_part_of_a_hello_is_closed(serve: Serve) -> None:
    running = await serve(handshake_seconds=0.3)
    silent, slow = raw_connection(running), await asyncio.to_thread(raw_connection, running)
    slow.sendall(b"\x16\x03\x01")
    assert await asyncio.to_thread(ends, silent)
    assert await asyncio.to_thread(ends, slow)
    assert running.service.counts[Metric.NTF_HANDSHAKES_FAILED] == 2


async def test_who_has_no_hello_after_tls_is_closed(serve: Serve) -> None:
    running = await serve(handshake_seconds=0.5)
    raw = await asyncio.to_thread(raw_connection, running)
    tls = await asyncio.to_thread(tls_context().wrap_socket, raw)
    assert await asyncio.to_thread(ends, tls)


async def test_who_sends_no_whole_block_in_time_is_closed(serve: Serve, connect: Connect) -> None:
    running = await serve(idle_seconds=0.3)
    agent = await connect(running.port)
    agent.socket.sendall(b"x")
    assert await asyncio.to_thread(agent.is_closed)
    await running.until(lambda: running.service.peers.connections == 0)


async def test_who_takes_no_answers_is_closed(serve: Serve, connect: Connect) -> None:
    paces = dict.fromkeys(("commands_per_second", "peer_commands_per_second", "task_commands_per_second"), 1e6)
    running = await serve(write_seconds=0.5, burst=1_000_000, peer_burst=1_000_000, **paces)
    agent = await connect(running.port, receive_bytes=4_096)
    await asyncio.to_thread(_send_until_refused, agent)
    await running.until(lambda: running.service.peers.connections == 0)


def _send_until_refused(agent: TlsAgent) -> None:
    """Blocks of empty transmissions, each of which has an error for its answer."""
    agent.socket.settimeout(PATIENCE)
    with suppress(OSError):
        while True:
            agent.socket.sendall(batch(BLOCK, *[b""] * 240))


async def test_who_sends_faster_than_allowed_is_answered_later(serve: Serve, connect: Connect) -> None:
    running = await serve(commands_per_second=0.001, burst=3, wait_seconds=1e6, drain_seconds=0.1)
    agent = await connect(running.port)
    for number in range(5):
        agent.send(agent.ping(bytes([number])))
    assert len(await asyncio.to_thread(agent.answers, 3)) == 3
    agent.socket.settimeout(0.3)
    with pytest.raises(TimeoutError):
        await asyncio.to_thread(agent.read_block)


@pytest.mark.parametrize("what", ["pings", "nothing that can be read"])
async def test_a_block_counts_for_as_many_as_it_holds(serve: Serve, connect: Connect, what: str) -> None:
    running = await serve(commands_per_second=0.001, burst=3, drain_seconds=0.1)
    agent = await connect(running.port)
    two = (agent.ping(b"1"), agent.ping(b"2")) if what == "pings" else (b"", b"")
    assert len(await asyncio.to_thread(agent.ask, *two)) == 2
    agent.send(*two)
    assert await asyncio.to_thread(agent.is_closed), "it would have to wait for minutes"
    assert running.service.counts[Metric.NTF_COMMANDS] == 2
    assert running.service.counts[Metric.NTF_CONNECTIONS_REFUSED] == 1


async def test_connections_of_one_address_share_its_pace(serve: Serve, connect: Connect) -> None:
    running = await serve(peer_commands_per_second=0.001, peer_burst=3, wait_seconds=1e6, drain_seconds=0.1)
    agents = [await connect(running.port) for _ in range(4)]
    for agent in agents:
        agent.send(agent.ping(b"c"))
    await running.until(lambda: running.service.counts[Metric.NTF_COMMANDS] == 3)
    await asyncio.sleep(0.1)
    assert running.service.counts[Metric.NTF_COMMANDS] == 3


async def test_a_neighbour_that_sends_without_end_keeps_no_other_of_its_address_waiting(
    serve: Serve, connect: Connect
) -> None:
    running = await serve(peer_commands_per_second=2, peer_burst=20, wait_seconds=600, drain_seconds=0.1)
    greedy = [await connect(running.port) for _ in range(6)]
    quiet = await connect(running.port)
    for agent in greedy:
        for _ in range(3):
            agent.send(*(agent.ping(b"g") for _ in range(10)))
    await running.until(lambda: running.service.counts[Metric.NTF_COMMANDS] >= 20)
    assert len(await asyncio.to_thread(quiet.ask, quiet.ping(b"q"))) == 1
    assert running.service.counts[Metric.NTF_COMMANDS] < 100, "of the 180 that they have sent"
    assert not running.service.counts[Metric.NTF_CONNECTIONS_REFUSED]


async def test_who_would_have_to_wait_too_long_is_closed_and_owes_its_address_nothing(
    serve: Serve, connect: Connect
) -> None:
    running = await serve(peer_commands_per_second=0.1, peer_burst=3, wait_seconds=0.5)
    greedy, other = await connect(running.port), await connect(running.port)
    for _ in range(2):
        greedy.send(greedy.ping(b"1"), greedy.ping(b"2"))
    assert len(await asyncio.to_thread(greedy.answers, 2)) == 2
    assert await asyncio.to_thread(greedy.is_closed)
    assert len(await asyncio.to_thread(other.ask, other.ping(b"1"))) == 1


@pytest.mark.parametrize("entity", [b"", b"t" * 24], ids=["TNEW", "TRPL"])
async def test_an_address_registers_so_many_tokens_and_learns_that_it_has_to_wait(
    serve: Serve, connect: Connect, entity: bytes
) -> None:
    running = await serve(handler := Recording(), registrations_at_once=2, registrations_per_hour=0.001)
    agent, elsewhere = await connect(running.port), await connect(running.port, source="127.0.0.2")

    def registration(of: TlsAgent, name: bytes) -> bytes:
        command = b"TRPL AP" + short(b"5e" * 32) if entity else registering(of)
        return of.transmission(command, correlation=name, entity=entity)

    answers = [await asyncio.to_thread(agent.ask, registration(agent, name)) for name in (b"1", b"2", b"3")]
    assert [answer.content for (answer,) in answers] == [b"OK", b"OK", b"ERR QUOTA"]
    assert len(handler.begun) == 2
    assert running.service.counts[Metric.NTF_REGISTRATIONS_REFUSED] == 1
    checked = agent.transmission(b"TCHK", correlation=b"c", entity=b"e")
    assert (await asyncio.to_thread(agent.ask, checked))[0].content == b"OK"
    (other,) = await asyncio.to_thread(elsewhere.ask, registration(elsewhere, b"1"))
    assert other.content == b"OK"


async def test_addresses_together_register_so_many_tokens(serve: Serve, connect: Connect) -> None:
    bounds = {"task_registrations_at_once": 2, "task_registrations_per_hour": 0.001}
    running = await serve(handler := Recording(), **bounds)
    answers = list[bytes]()
    for number in range(3):
        agent = await connect(running.port, source=f"127.0.0.{number + 2}")
        asked = agent.transmission(registering(agent), correlation=b"c")
        answers += [answer.content for answer in await asyncio.to_thread(agent.ask, asked)]
    assert answers == [b"OK", b"OK", b"ERR QUOTA"]
    assert (len(handler.begun), running.service.counts[Metric.NTF_REGISTRATIONS_REFUSED]) == (2, 1)


def test_what_a_task_refuses_does_not_count_for_the_address() -> None:
    of_address, of_task = Pace(0.001, 2), Pace(0.001, 1)
    assert [take_all((of_address, of_task), 1_000.0) for _ in range(3)] == [True, False, False]
    assert [of_address.take(1_000.0) for _ in range(2)] == [True, False]


async def test_when_the_task_is_busy_an_address_that_asks_for_little_is_not_behind_one_that_asks_for_much(
    serve: Serve, connect: Connect
) -> None:
    running = await serve(handler := Recording(), blocks_at_once=1)
    handler.gate.clear()
    crowd = [await connect(running.port, source="127.0.0.2") for _ in range(6)]
    quiet = await connect(running.port, source="127.0.0.3")
    for agent in crowd:
        agent.send(agent.transmission(b"TCHK", correlation=b"crowd", entity=b"e"))
    (session, *_) = running.task.server.sessions
    await running.until(lambda: session.peer.turns.waiting == 5)
    quiet.send(quiet.transmission(b"TCHK", correlation=b"quiet", entity=b"e"))
    await running.until(lambda: running.service.turns.waiting == 1)
    handler.gate.set()
    assert len(await asyncio.to_thread(quiet.answers, 1)) == 1
    for agent in crowd:
        await asyncio.to_thread(agent.answers, 1)
    order = [request.transmission.correlation_id for request in handler.begun]
    assert order.index(b"quiet") <= 2


async def test_an_agent_that_has_gone_without_a_word_is_asked_for_by_tcp(serve: Serve, connect: Connect) -> None:
    running = await serve(keepalive_seconds=77)
    await connect(running.port)
    (session,) = running.task.server.sessions
    connection = session.stream.socket
    assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 77


@given(
    steps=st.lists(st.floats(0, 3), min_size=1, max_size=60), per_second=st.floats(0.1, 50), burst=st.integers(1, 20)
)
def test_no_span_holds_more_than_the_burst_and_what_the_pace_adds(
    steps: list[float], per_second: float, burst: int
) -> None:
    pace, now, taken = Pace(per_second, burst), 1_000.0, list[float]()
    for step in steps:
        now += step
        if pace.take(now):
            taken.append(now)
    for start, first in enumerate(taken):
        for end in range(start, len(taken)):
            assert end - start + 1 <= burst + (taken[end] - first) * per_second + 1e-6


@given(burst=st.integers(1, 20), counts=st.lists(st.integers(1, 30), min_size=1, max_size=10))
def test_who_waits_until_the_last_of_several_may_go_keeps_the_pace(burst: int, counts: list[int]) -> None:
    pace, gone = Pace(2.0, burst), 0
    for count in counts:
        gone += count
        assert pace.until(1_000.0, count) == pytest.approx(max(0, gone - burst) / 2)
        pace.spend(1_000.0, count)


def test_addresses_of_one_network_of_ipv6_are_one_peer() -> None:
    peers = Peers(NtfBounds(connections_per_peer=1))
    with peers.connection("2001:db8::1", 1.0), pytest.raises(TooManyError), peers.connection("2001:db8::2", 1.0):
        pass
    with peers.connection("2001:db8:0:1::1", 1.0), peers.connection("::ffff:192.0.2.1", 1.0):
        pass


def test_an_address_of_ipv4_is_the_same_however_it_is_written() -> None:
    peers = Peers(NtfBounds(connections_per_peer=1))
    with peers.connection("::ffff:192.0.2.1", 1.0), pytest.raises(TooManyError), peers.connection("192.0.2.1", 1.0):
        pass


def test_peers_that_are_away_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MOST_PEERS", 10)
    peers = Peers(NtfBounds())
    with peers.connection("192.0.2.1", 1.0) as first:
        for number in range(100):
            with peers.connection(f"198.51.100.{number}", 1.0):
                pass
        assert len(peers) == 10
        with peers.connection("192.0.2.1", 1.0) as again:
            assert again is first


def test_the_page_has_the_bounds_as_they_are() -> None:
    page = (Path(__file__).parents[2] / "docs" / "ntf.md").read_text()
    rows = dict(re.findall(r"^\| ([^|]+) \| ([^\n]+) \|$", page, re.MULTILINE))
    defaults = NtfBounds()
    for row, names in {
        "connections at once": ("connections_per_peer", "connections"),
        "handshakes at once": ("handshakes_per_peer", "handshakes"),
        "new connections a second": ("connections_per_second", "connections_per_peer"),
        "commands a second": (
            *("commands_per_second", "burst", "peer_commands_per_second", "peer_burst"),
            *("task_commands_per_second", "task_burst", "handshake_commands"),
        ),
        "tokens registered or replaced an hour": (
            *("registrations_per_hour", "registrations_at_once"),
            *("task_registrations_per_hour", "task_registrations_at_once"),
        ),
        "threads that wait for AWS": ("threads",),
        "time for TLS and both hellos": ("handshake_seconds",),
        "time until a whole block is there": ("idle_seconds",),
        "time to take the answers to a block": ("write_seconds",),
    }.items():
        stated = [int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*\d|\d", rows[row])]
        assert stated == [getattr(defaults, name) for name in names], row
    assert rows["blocks that are being answered"].endswith(f"| {defaults.blocks_at_once}")


async def test_an_agent_checks_a_whole_batch_of_its_subscriptions_without_a_wait(
    serve: Serve, connect: Connect
) -> None:
    running = await serve(commands_per_second=0.001, peer_commands_per_second=0.001)
    agent = await connect(running.port)
    for block in batched(range(150), 4, strict=False):
        agent.send(*(agent.transmission(b"SCHK", correlation=bytes([n]), entity=bytes([n]) * 24) for n in block))
    assert len(await asyncio.to_thread(agent.answers, 150)) == 150
