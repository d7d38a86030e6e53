import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from websockets.asyncio.server import ServerConnection, serve

from clarion.metrics import Metric
from clarion.tables import Rule
from ingest.protocol import MAX_STORE_STATEMENTS
from ingest.session import MAX_FRAME
from ingest.settings import IngestSettings

if TYPE_CHECKING:
    from tests.ingest.conftest import FakeNode, ReceivedQueue, Run

type Behaviour = Callable[[ServerConnection], Awaitable[None]]


class HostileNode:
    def __init__(self, url: str) -> None:
        self.url = url


@asynccontextmanager
async def hostile(behave: Behaviour) -> AsyncIterator[HostileNode]:
    async with serve(behave, "127.0.0.1", 0, compression=None, close_timeout=0.1) as server:
        yield HostileNode(f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}")


async def accept_subscription(socket: ServerConnection) -> None:
    for result in ({"methods": ["statement_subscribeStatement"]}, "subscription"):
        asked = json.loads(await socket.recv())
        await socket.send(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}))


def after_subscribing(*frames: str | bytes) -> Behaviour:
    async def behave(socket: ServerConnection) -> None:
        await accept_subscription(socket)
        for frame in frames:
            await socket.send(frame)
        await socket.wait_closed()

    return behave


def notification(**data: Any) -> str:
    result = {"event": "newStatements", "data": data}
    return json.dumps({"method": "statement_statement", "params": {"subscription": 1, "result": result}})


async def never_answers(socket: ServerConnection) -> None:
    await socket.wait_closed()


async def answers_another_question(socket: ServerConnection) -> None:
    await socket.recv()
    await socket.send('{"id": 99, "result": true}')
    await socket.wait_closed()


async def refuses(socket: ServerConnection) -> None:
    async for text in socket:
        await refuse(socket, json.loads(text))


async def refuse(socket: ServerConnection, asked: dict[str, Any]) -> None:
    await socket.send(json.dumps({"id": asked["id"], "error": {"code": -32601, "message": "Method not found"}}))


async def shows_instead_of_answering(socket: ServerConnection) -> None:
    await socket.recv()
    for _ in range(10):
        await socket.send(notification(statements=["0x00"]))
    await socket.wait_closed()


async def offers_only_a_draft_that_is_full(socket: ServerConnection) -> None:
    for result in ({"methods": ["statement_unstable_subscribe"]}, "subscription", {"result": "limitReached"}):
        asked = json.loads(await socket.recv())
        await socket.send(json.dumps({"id": asked["id"], "result": result}))
    await socket.wait_closed()


async def hangs_up(socket: ServerConnection) -> None:
    await socket.close()


async def cuts_the_line(socket: ServerConnection) -> None:
    await accept_subscription(socket)
    socket.transport.abort()


async def replays_without_end(socket: ServerConnection) -> None:
    await accept_subscription(socket)
    while True:
        await socket.send(notification(statements=["0x00"], remaining=5))
        await asyncio.sleep(0.001)


BEHAVIOURS = {
    "never answers": never_answers,
    "answers another question": answers_another_question,
    "refuses": refuses,
    "shows instead of answering": shows_instead_of_answering,
    "takes no more filters": offers_only_a_draft_that_is_full,
    "hangs up": hangs_up,
    "cuts the line": cuts_the_line,
    "replays without end": replays_without_end,
    "stops in the midst of a replay": after_subscribing(notification(statements=[], remaining=5)),
    "replays more than there was": after_subscribing(
        notification(statements=[], remaining=5), notification(statements=[], remaining=6)
    ),
    "replays after the end": after_subscribing(
        notification(statements=[], remaining=0), notification(statements=[], remaining=0)
    ),
    "says garbage": after_subscribing("garbage"),
    "says bytes": after_subscribing(b"\x00\xff"),
    "says a deep nesting": after_subscribing("[" * 1_000_000),
    "says wrong types": after_subscribing(notification(statements={"0x00": 1})),
    "says an absurd number": after_subscribing(notification(statements=[], remaining=MAX_STORE_STATEMENTS + 1)),
    "sends an oversized frame": after_subscribing(b" " * (MAX_FRAME + 1)),
}


@pytest.fixture(params=list(BEHAVIOURS.values()), ids=list(BEHAVIOURS))
async def hostile_node(request: pytest.FixtureRequest) -> AsyncIterator[HostileNode]:
    async with hostile(request.param) as node:
        yield node


async def test_a_hostile_node_is_counted_and_left_while_another_is_followed(
    hostile_node: "FakeNode",
    node: "FakeNode",
    running: "Run",
    received: "ReceivedQueue",
    make_settings: Callable[..., IngestSettings],
    make_statement: Callable[..., bytes],
    write_rule: Callable[..., Rule],
) -> None:
    write_rule()
    settings = make_settings(hostile_node, node, answer_seconds=0.2, replay_seconds=0.2)
    async with running(settings) as task:
        await node.subscribed()
        while not task.counts[Metric.NODE_FAULTS]:
            await asyncio.sleep(0.01)
        node.show(make_statement(1))
        await received.holds(1)
    assert received.statements() == [make_statement(1)]


async def test_a_node_that_does_not_list_its_methods_is_followed(
    running: "Run",
    received: "ReceivedQueue",
    make_settings: Callable[..., IngestSettings],
    make_statement: Callable[..., bytes],
    write_rule: Callable[..., Rule],
) -> None:
    async def behave(socket: ServerConnection) -> None:
        await refuse(socket, json.loads(await socket.recv()))
        asked = json.loads(await socket.recv())
        await socket.send(json.dumps({"id": asked["id"], "result": "subscription", "error": None}))
        await socket.send(notification(statements=[], remaining=0))
        await socket.send(notification(statements=["0x" + make_statement(1).hex()]))
        await socket.wait_closed()

    write_rule()
    async with hostile(behave) as node, running(make_settings(node)):
        await received.holds(1)


async def test_bytes_that_are_no_statement_are_counted_and_never_make_us_leave(
    running: "Run",
    received: "ReceivedQueue",
    make_settings: Callable[..., IngestSettings],
    make_statement: Callable[..., bytes],
    write_rule: Callable[..., Rule],
) -> None:
    """Anybody may publish them, and nobody may make us leave an honest node."""
    write_rule()
    bad = ["0x", "0x00", "0xzz", "nonsense", None, 7, "0x" + make_statement(1).hex() + "00"]
    good = "0x" + make_statement(1).hex()
    behave = after_subscribing(notification(statements=[], remaining=0), notification(statements=[*bad, good]))
    async with hostile(behave) as node, running(make_settings(node)) as task:
        await received.holds(1)
        assert task.counts["statement_malformed"] == len(bad)
        assert not task.counts[Metric.NODE_FAULTS]
    assert received.statements() == [make_statement(1)]
