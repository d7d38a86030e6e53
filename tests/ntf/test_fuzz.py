"""Hostile blocks: some here, a million by `make fuzz-simplex`."""

import asyncio
import random
import socket
from collections import Counter
from contextlib import suppress

from nacl.public import PrivateKey

from bench.simplex_fuzz import Unauthorized, fuzz, mutated, valid_blocks
from clarion.networks.simplex.ntf import NtfSession
from ntf.block_executor import BlockExecutor
from ntf.pace import Pace
from tests.ntf.agent import TlsAgent, answer_of
from tests.ntf.conftest import Connect, Serve
from tests.ntf.handlers import Recording
from tests.simplex_wire import transmissions_of

MANY = 1_000_000.0
UNBOUNDED = {
    "commands_per_second": MANY,
    "burst": int(MANY),
    "peer_commands_per_second": MANY,
    "peer_burst": int(MANY),
    "task_commands_per_second": MANY,
    "registrations_at_once": int(MANY),
    "task_registrations_at_once": int(MANY),
}


async def test_mutated_blocks_are_answered_by_nothing_but_errors_of_the_protocol_and_leave_nothing() -> None:
    executor = BlockExecutor(Unauthorized(), Counter(), Pace(MANY, int(MANY)), threads=2)
    found = await fuzz(4_000, 1, executor)
    executor.close()
    assert b"else" not in found
    assert {b"ERR BLOCK", b"ERR AUTH", b"ERR CMD SYNTAX", b"ERR CMD UNKNOWN", b"ERR SESSION"} <= found.keys()


async def test_a_session_outlives_mutated_blocks(serve: Serve, connect: Connect) -> None:
    running = await serve(Recording(Unauthorized().execute), **UNBOUNDED)
    agent = await connect(running.port)
    await asyncio.to_thread(_feed, agent, 1_000)


def _feed(agent: TlsAgent, count: int) -> None:
    """After each block a ping, so that all that answers the block has come before its answer."""
    session = NtfSession(agent.hello.session_id, 3, PrivateKey.generate())
    blocks = mutated(valid_blocks(session), random.Random(2))
    for number in range(count):
        agent.socket.sendall(next(blocks))
        agent.send(agent.ping(name := b"ping" + number.to_bytes(4)))
        while name not in {answer_of(each).correlation_id for each in transmissions_of(agent.read_block())}:
            pass


async def test_what_is_no_tls_harms_nobody(serve: Serve, connect: Connect) -> None:
    running = await serve(connections_per_peer=500, handshakes_per_peer=500, handshake_seconds=0.5)
    agent = await connect(running.port)
    await asyncio.to_thread(_disturb, running.port, 200)
    assert len(await asyncio.to_thread(agent.ask, agent.ping(b"c"))) == 1
    await running.until(lambda: running.service.peers.connections == 1)


def _disturb(port: int, count: int) -> None:
    chance = random.Random(3)
    for _ in range(count):
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
            hello = chance.choice((b"", b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n"))
            connection.sendall(hello + chance.randbytes(chance.randrange(400)))
