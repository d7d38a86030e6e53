"""What becomes of sessions when the task has to end."""

import asyncio

import pytest

from tests.ntf.agent import Answer
from tests.ntf.conftest import Connect, Serve
from tests.ntf.handlers import Recording


async def test_what_was_read_is_answered_and_then_the_session_is_closed(serve: Serve, connect: Connect) -> None:
    running = await serve(handler := Recording())
    handler.gate.clear()
    busy, idle = await connect(running.port), await connect(running.port)
    busy.send(busy.transmission(b"TCHK", correlation=b"c", entity=b"e"))
    await running.until(lambda: handler.at_work == 1)
    stopping = asyncio.create_task(running.task.server.stop())
    assert await asyncio.to_thread(idle.is_closed)
    assert not stopping.done()
    handler.gate.set()
    assert await asyncio.to_thread(busy.answers, 1) == [Answer(b"c", b"e", b"OK")]
    assert await asyncio.to_thread(busy.is_closed)
    idle.close()
    busy.close()
    await stopping
    assert running.service.peers.connections == 0


async def test_a_block_that_comes_at_the_last_moment_is_still_answered(serve: Serve, connect: Connect) -> None:
    running = await serve(last_seconds=20)
    agent = await connect(running.port)
    stopping = asyncio.create_task(running.task.server.stop())
    await running.until(lambda: not running.task.server.takes_connections)
    assert await asyncio.to_thread(agent.ask, agent.ping(b"c")) == [Answer(b"c", b"", b"PONG")]
    agent.close()
    await stopping


async def test_nobody_is_let_in_any_more(serve: Serve, connect: Connect) -> None:
    running = await serve()
    await running.task.server.stop()
    with pytest.raises(ConnectionRefusedError):
        await connect(running.port)


async def test_a_session_that_does_not_end_by_itself_is_ended(serve: Serve, connect: Connect) -> None:
    running = await serve(handler := Recording(), drain_seconds=0.1)
    handler.gate.clear()
    agent = await connect(running.port)
    agent.send(agent.transmission(b"TCHK", correlation=b"c", entity=b"e"))
    await running.until(lambda: handler.at_work == 1)
    await running.task.server.stop()
    assert await asyncio.to_thread(agent.is_closed)
