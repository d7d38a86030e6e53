"""The server in this process, on a port of its own."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from clarion.networks.simplex.server_identity import ServerIdentity
from ntf.session import Service
from ntf.settings import NtfBounds, NtfSettings
from ntf.task import NtfTask, assemble
from tests.ntf.agent import TlsAgent
from tests.ntf.handlers import Recording

PATIENCE = 60.0


def settings_of(bounds: NtfBounds) -> NtfSettings:
    options = '{"hosts": ["ntf.clarion.example"], "app": "first"}'
    given = {"network": "simplex", "table_prefix": "", "options": options, "host": "127.0.0.1", "bounds": bounds}
    unused = dict.fromkeys(("command_queue_url", "events_stream", "late_events_queue_url"), "-")
    return NtfSettings.model_validate({**given, **unused})


@dataclass(frozen=True)
class Running:
    port: int
    task: NtfTask
    handler: Recording

    @property
    def service(self) -> Service:
        return self.task.service

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                await asyncio.sleep(0.01)


type Serve = Callable[..., Awaitable[Running]]


@pytest.fixture(scope="session")
def identity() -> ServerIdentity:
    return ServerIdentity.generate(datetime.now(UTC))


@asynccontextmanager
async def serving(identity: ServerIdentity, handler: Recording, bounds: NtfBounds) -> AsyncIterator[Running]:
    task = assemble(settings_of(bounds), identity, handler)
    port = await task.server.listen("127.0.0.1", 0)
    try:
        yield Running(port, task, handler)
    finally:
        handler.gate.set()
        await task.server.stop()
        task.service.executor.close()


@pytest.fixture
async def serve(identity: ServerIdentity) -> AsyncIterator[Serve]:
    """Starts one: `await serve(handler, idle_seconds=1, …)`."""
    async with AsyncExitStack() as stack:

        async def start(handler: Recording | None = None, **bounds: float) -> Running:
            several = {"last_seconds": 0.1, "connections_per_second": 1_000.0, **bounds}
            return await stack.enter_async_context(
                serving(identity, handler or Recording(), NtfBounds.model_validate(several))
            )

        yield start


type Connect = Callable[..., Awaitable[TlsAgent]]


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Opens a session: `await connect(port, version=1, …)`."""
    agents: list[TlsAgent] = []

    async def start(port: int, **options: Any) -> TlsAgent:
        agent = await asyncio.to_thread(partial(TlsAgent, port, **options))
        agents.append(agent)
        return agent

    yield start
    for agent in agents:
        agent.close()
