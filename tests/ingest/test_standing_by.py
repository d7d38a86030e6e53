"""What a task keeps, counts and records while another one leads, and once it leads itself."""

import asyncio
import json
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from clarion.clock import now_ms
from clarion.metrics import Metric
from clarion.networks import STATEMENTS
from clarion.tables import Lease
from tests.ingest.conftest import MakeSettings, MakeStatement, make_outgoing

if TYPE_CHECKING:
    from tests.ingest.conftest import FakeNode, ReceivedQueue, Run


pytestmark = pytest.mark.usefixtures("rule")


class Another:
    """Another task, which leads."""

    def __init__(self) -> None:
        self._versions = count(1)
        self.passed_on = 0
        """UNIX milliseconds, through which it says that it has passed everything on."""
        self._write("another")

    async def leads_until(self, happened: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not happened():
                self._write("another")
                await asyncio.sleep(0.02)

    async def leads_for(self, seconds: float) -> None:
        end = asyncio.get_running_loop().time() + seconds
        await self.leads_until(lambda: asyncio.get_running_loop().time() >= end)

    def lets_go(self) -> None:
        self._write("")

    def _write(self, holder: str) -> None:
        Lease("ingest", holder=holder, version=next(self._versions), delivered_through=self.passed_on).save()


@pytest.fixture
def another(tables: None) -> Another:
    return Another()


async def test_a_standby_that_is_full_lets_go_of_what_was_passed_on_and_reads_on(
    node: "FakeNode", running: "Run", make_settings: MakeSettings, make_statement: MakeStatement, another: Another
) -> None:
    bound = 3 * make_outgoing(make_statement(0)).held_size
    async with running(make_settings(node, outbox_bytes=bound, overlap_seconds=600)) as task:
        await another.leads_until(lambda: bool(task.status()["connected"]))
        await node.subscribed()
        node.show(make_statement(0))
        node.show(make_statement(1))
        await another.leads_until(lambda: task.status()["held"] == 2)
        another.passed_on = now_ms() + 1
        await another.leads_for(0.6)  # some looks at the lease
        assert task.status()["held"] == 2  # the bound lets it be kept for the overlap
        another.passed_on = 0
        for number in range(2, 10):
            node.show(make_statement(number))
        await another.leads_until(lambda: task.status()["seen"] == 3)
        await another.leads_for(0.6)
        assert (task.status()["seen"], task.status()["held"]) == (3, 3)  # nobody has passed it on
        another.passed_on = now_ms() + 60_000
        await another.leads_until(lambda: task.status()["seen"] == 10)
        assert not task.status()["leading"]


async def test_forwarded_is_what_the_queue_has_taken_and_not_what_a_standby_holds(
    node: "FakeNode",
    running: "Run",
    received: "ReceivedQueue",
    make_settings: MakeSettings,
    make_statement: MakeStatement,
    another: Another,
) -> None:
    async with running(make_settings(node)) as task:
        await another.leads_until(lambda: bool(task.status()["connected"]))
        await node.subscribed()
        node.show(make_statement(1), make_statement(2))
        await another.leads_until(lambda: task.status()["held"] == 2)
        assert (task.counts[Metric.ENVELOPES_RECEIVED], task.counts[Metric.ENVELOPES_FORWARDED]) == (2, 0)
        another.lets_go()
        await received.holds(2)
        while task.status()["held"]:
            await asyncio.sleep(0.01)
        assert task.counts[Metric.ENVELOPES_FORWARDED] == 2


async def test_only_the_leader_tells_to_how_many_nodes_it_is_connected(
    node: "FakeNode",
    make_node: Callable[..., "FakeNode"],
    running: "Run",
    make_settings: MakeSettings,
    another: Another,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def recorded() -> list[tuple[int, int]]:
        """How many leaders and connected nodes the lines have that came since the last time."""
        lines: list[dict[str, Any]] = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        leaders = [line[Metric.LEADERS][0] for line in lines if "network" not in line]
        connected = [line[Metric.NODES_CONNECTED][0] for line in lines if line.get("network") == STATEMENTS]
        return list(zip(leaders, connected, strict=True))

    monkeypatch.setattr("ingest.counts._PERIOD", 0.05)
    async with make_node() as other, running(make_settings(node, other)) as task:
        await another.leads_until(lambda: task.status()["connected"] == [node.url, other.url])
        recorded()
        await another.leads_for(0.3)
        assert set(recorded()) == {(0, 0)}
        another.lets_go()
        while not task.status()["leading"]:
            await asyncio.sleep(0.01)
        recorded()
        await asyncio.sleep(0.3)
        assert set(recorded()) == {(1, 2)}
