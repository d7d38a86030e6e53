import asyncio
import json
from typing import TYPE_CHECKING

import pytest
from websockets.asyncio.server import ServerConnection, serve

from clarion.clock import now_ms
from ingest.sources import SourceFault
from ingest.sources.statements.session import NodeTimeouts, Session, subscribe
from ingest.sources.websocket import open_connection
from tests.ingest.conftest import MakeStatement

if TYPE_CHECKING:
    from tests.ingest.conftest import FakeNode

PATIENCE = NodeTimeouts(asking=0.02)


async def replayed(session: Session) -> None:
    while session.replaying:
        await session.next()


async def answered(session: Session) -> int:
    """Wait for the answer to a question put from now on, and return when it was put."""
    began = now_ms()
    while session.shown_through is None or session.shown_through <= began:
        await asyncio.sleep(0.005)
    return session.shown_through


async def test_a_silent_node_is_asked_how_far_it_has_shown(node: "FakeNode") -> None:
    async with asyncio.timeout(30), subscribe(node.url, PATIENCE) as session:
        await replayed(session)
        assert session.shown_through is None
        taking = asyncio.create_task(session.next())
        assert await answered(session) < await answered(session)
        taking.cancel()


async def test_an_answer_counts_once_what_was_shown_before_it_has_been_taken_in(
    node: "FakeNode", make_statement: MakeStatement
) -> None:
    async with asyncio.timeout(30), subscribe(node.url, PATIENCE) as session:
        await replayed(session)
        taking = asyncio.create_task(session.next())
        await answered(session)
        for number in range(10):
            node.show(make_statement(number))
        await taking
        through = session.shown_through
        await asyncio.sleep(0.2)  # several questions' worth
        assert session.shown_through == through
        read_at = now_ms()
        for _ in range(9):
            await session.next()
            assert (session.shown_through or 0) < read_at
        taking = asyncio.create_task(session.next())
        assert await answered(session) >= read_at
        assert session.longest_wait >= 0.2
        taking.cancel()


async def test_a_node_that_refuses_the_question_has_answered_it() -> None:
    async def converse(socket: ServerConnection) -> None:
        async for text in socket:
            asked = json.loads(text)
            answer = (
                {"result": "s"} if asked["method"] == "statement_subscribeStatement" else {"error": {"code": -32601}}
            )
            await socket.send(json.dumps({"id": asked["id"], **answer}))

    patience = NodeTimeouts(asking=0.02, replay=0.05)
    async with asyncio.timeout(30), serve(converse, "127.0.0.1", 0, compression=None) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        async with subscribe(f"ws://127.0.0.1:{port}", patience) as session:
            await replayed(session)
            taking = asyncio.create_task(session.next())
            await answered(session)
            taking.cancel()


async def test_a_node_that_no_longer_answers_is_left() -> None:
    async def converse(socket: ServerConnection) -> None:
        await socket.wait_closed()

    patience = NodeTimeouts(answer=0.1, asking=0.02, replay=0.05)
    async with asyncio.timeout(30), serve(converse, "127.0.0.1", 0, compression=None) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        socket = await open_connection(f"ws://127.0.0.1:{port}")
        session = Session(socket, patience, [], lambda _: None)
        await replayed(session)
        with pytest.raises(SourceFault, match="no answer"):
            await session.next()
        await socket.close()
