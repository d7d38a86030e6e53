"""What a server sends while AWS takes nothing waits, here or in its socket: no server sends it again."""

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import replace

import pytest

from bench.simplex_source import followed, row_of, server_context
from clarion.networks.simplex.envelope import decode
from ingest.sources.simplex.session import SmpTimes
from ingest.sources.simplex.statuses import WRITERS
from tests.ingest.conftest import ReceivedQueue, Run
from tests.ingest.simplex.conftest import MakeSmpSettings, add_queue, forwards
from tests.ingest.simplex.smp_server import SmpTestServer

TIMES = SmpTimes(answer=0.2, ping=0.05, silence=0.4)


class Taking:
    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.nonces: list[bytes] = []

    async def take(self, raws: Sequence[bytes]) -> None:
        await self.open.wait()
        self.nonces += [decode(raw).item.message.nonce for raw in raws]

    async def has(self, expected: Sequence[bytes]) -> None:
        while self.nonces != expected:
            await asyncio.sleep(0.02)


async def test_a_server_is_not_given_up_while_what_it_has_sent_is_not_taken_in(smp: SmpTestServer) -> None:
    notifier_id, key = smp.add_queue()
    taking = Taking()
    context = replace(server_context(taking.take), times=TIMES)
    server = followed(row_of(smp.address(), notifier_id, key), context)
    following = asyncio.create_task(server.follow())
    await smp.subscribes(notifier_id)
    sent = smp.notify(notifier_id)
    await asyncio.sleep(3 * TIMES.silence)
    sent += smp.notify(notifier_id)
    taking.open.set()
    async with asyncio.timeout(20):
        await taking.has(sent)
    assert smp.connections == 1
    await server.leave(following)


async def test_a_server_that_reads_nothing_is_given_up(smp: SmpTestServer) -> None:
    smp.take_little_at_a_time()
    notifier_id, key = smp.add_queue()
    taking = Taking()
    context = replace(server_context(taking.take), times=SmpTimes(answer=0.5, ping=0.02, silence=600.0))
    server = followed(row_of(smp.address(), notifier_id, key), context)
    following = asyncio.create_task(server.follow())
    await smp.subscribes(notifier_id)
    smp.clients[0].writer.transport.pause_reading()  # type: ignore[attr-defined] # it is one that reads, too
    async with asyncio.timeout(20):
        await smp.connects(2)
    await server.leave(following)


@pytest.mark.usefixtures("tables")
async def test_messages_do_not_wait_for_a_table_that_hangs(
    smp: SmpTestServer,
    more_smp: list[SmpTestServer],
    running: Run,
    smp_settings: MakeSmpSettings,
    received: ReceivedQueue,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Statuses are written on the threads that messages are sent on."""
    monkeypatch.setattr("ingest.task.THREADS", WRITERS + 4)
    goes_on = threading.Event()
    monkeypatch.setattr("ingest.sources.simplex.statuses._update", lambda *_: goes_on.wait(60))
    servers = [smp, *more_smp]
    queues = {server: [add_queue(server) for _ in range(WRITERS)] for server in servers}
    async with running(smp_settings()):
        for server, several in queues.items():
            await server.subscribes(*several)
        sent = [nonce for server, several in queues.items() for nonce in server.notify(*several)]
        async with asyncio.timeout(20):
            await forwards(received, sent)
        goes_on.set()
