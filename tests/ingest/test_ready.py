"""When a task is ready, so that a deployment may stop the tasks before."""

import asyncio
import threading
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Any

import pytest

from ingest.health import main
from ingest.task import Task
from ingest.wiring import AwsClients
from local.ports import reserved_port
from tests.ingest.conftest import MakeSettings

if TYPE_CHECKING:
    from tests.ingest.conftest import FakeNode, Run

pytestmark = pytest.mark.usefixtures("rule")


class HeldTable:
    """A rules table that gives no page before `go_on` is set."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.asked, self.go_on = threading.Event(), threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def scan(self, **request: Any) -> Any:
        self.asked.set()
        self.go_on.wait(60)
        return self._client.scan(**request)


async def until_ready(task: Task) -> None:
    while not task.is_ready:
        await asyncio.sleep(0.01)


async def test_a_task_is_healthy_only_when_its_rules_are_read(
    node: "FakeNode", running: "Run", clients: AwsClients, make_settings: MakeSettings
) -> None:
    table = HeldTable(clients.dynamodb)
    with reserved_port() as port:
        async with running(make_settings(node, health_port=port), dynamodb=table) as task:
            await asyncio.to_thread(table.asked.wait)
            assert await asyncio.to_thread(main, port) == 1
            table.go_on.set()
            await until_ready(task)
            assert await asyncio.to_thread(main, port) == 0
            assert len(task.candidates) == 1


async def test_nodes_out_of_reach_hold_a_task_up_for_a_while_and_no_longer(
    make_node: Callable[[], "FakeNode"], running: "Run", make_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with make_node() as gone:
        settings = make_settings(gone)
    async with running(settings) as task:
        while task.opened_at == inf:
            await asyncio.sleep(0.01)
        assert not task.is_ready
        monkeypatch.setattr("ingest.task.CONNECTING_SECONDS", 0.0)
        await until_ready(task)
