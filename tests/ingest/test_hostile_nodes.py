import asyncio
import json
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import pytest
from websockets.asyncio.server import ServerConnection

from clarion.metrics import Metric
from ingest.sources.statements.protocol import MAX_STORE_STATEMENTS
from ingest.sources.websocket import MAX_FRAME
from tests.hostile import (
    HostileNode,
    accept_subscription,
    after_subscribing,
    answering,
    floods,
    hostile,
    names_itself,
    notification,
    redirect,
)
from tests.ingest.conftest import MakeSettings, MakeStatement, WriteRule, node_faults

if TYPE_CHECKING:
    from tests.ingest.conftest import FakeNode, ReceivedQueue, Run


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
    "sends many values": after_subscribing("[" + "[]," * 1_000_000 + "[]]"),
    "answers with a nested id": after_subscribing('{"result": 1, "id": ' + "[" * 150 + "]" * 150 + "}"),
    "gives a nested id": names_itself("[" * 10_000 + "]" * 10_000),
    "gives an object for an id": names_itself('{"id": {}}'),
    "gives a flag for an id": names_itself("true"),
    "gives an endless id": names_itself(f'"{"x" * 1_000_000}"'),
    "floods with empty messages": floods(b"\x81\0" * 100_000),
    "floods with empty pings": floods(b"\x89\0" * 100_000),
    "floods with pings and reads nothing": floods((b"\x89\x7d" + bytes(125)) * 10_000),
    "floods with fragments": floods(b"\x01\0" + b"\0\0" * 100_000),
}


RESPONSES = {
    "redirects to nowhere": redirect("ws://[::1"),
    "redirects to a port that is none": redirect("ws://127.0.0.1:99999999/"),
    "redirects to a name that is none": redirect(f"ws://{'é' * 80}.example/"),
    "redirects to two places": redirect("ws://127.0.0.1:1/", "ws://127.0.0.1:2/"),
    "redirects to another node": redirect("ws://127.0.0.1:1/"),
    "redirects to a page": redirect("https://example.com/"),
    "has a length that is none": b"HTTP/1.1 200 OK\r\nContent-Length: 1e9\r\n\r\n",
    "speaks another protocol": b"SSH-2.0-OpenSSH_9.6\r\n" * 100,
}


@pytest.fixture(params=[*BEHAVIOURS, *RESPONSES])
async def hostile_node(request: pytest.FixtureRequest) -> AsyncIterator[HostileNode]:
    name = request.param
    async with hostile(BEHAVIOURS[name]) if name in BEHAVIOURS else answering(RESPONSES[name]) as node:
        yield node


async def test_a_hostile_node_is_counted_and_left_while_another_is_followed(
    hostile_node: "FakeNode",
    node: "FakeNode",
    running: "Run",
    received: "ReceivedQueue",
    make_settings: MakeSettings,
    make_statement: MakeStatement,
    write_rule: WriteRule,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Where a busy machine lets an honest node answer too late, it is soon followed again, and what it holds is new."""
    for pause in ("FAULTY_PAUSE", "LONGEST_PAUSE"):
        monkeypatch.setattr(f"ingest.sources.following.{pause}", 0.5)
    write_rule()
    settings = make_settings(hostile_node, node, answer_seconds=0.2, replay_seconds=0.2, first_replay="handle")
    async with running(settings) as task:
        await node.subscribed()
        while not any(vars(record).get("node") == hostile_node.url for record in caplog.records):
            await asyncio.sleep(0.01)
        assert node_faults(task)
        node.show(make_statement(1))
        await received.holds(1)
    assert received.statements() == [make_statement(1)]


@pytest.mark.parametrize(
    "error",
    [
        RecursionError(),
        UnicodeError(),
        KeyError("a library's"),
        MemoryError(),
        AssertionError(),
        ExceptionGroup("several", [ValueError()]),
    ],
    ids=repr,
)
async def test_an_error_of_any_type_while_a_node_is_read_is_counted_as_its_fault(
    error: Exception,
    node: "FakeNode",
    running: "Run",
    make_settings: MakeSettings,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(_: bytes) -> None:
        raise error

    monkeypatch.setattr("ingest.sources.statements.session.read", fail)
    async with running(make_settings(node)) as task:
        while not node_faults(task):
            await asyncio.sleep(0.01)
        assert not task.counts[Metric.INTERNAL_ERRORS]
    (line,) = (record for record in caplog.records if record.message == "node lost")
    assert line.exc_info
    assert line.exc_info[1] is error


async def test_an_error_of_our_own_is_told_apart_and_logged_with_its_traceback_and_without_its_text(
    node: "FakeNode",
    running: "Run",
    received: "ReceivedQueue",
    make_settings: MakeSettings,
    make_statement: MakeStatement,
    write_rule: WriteRule,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    text = "a bug"

    def fail(*_: object) -> None:
        raise ValueError(text)

    write_rule()
    monkeypatch.setattr("ingest.sources.following.FAULTY_PAUSE", 0.01)
    async with running(make_settings(node)) as task:
        await node.subscribed()
        with monkeypatch.context() as broken:
            broken.setattr("ingest.intake.of_envelope", fail)
            node.show(make_statement(1))
            while not task.counts[Metric.INTERNAL_ERRORS]:
                await asyncio.sleep(0.01)
        assert not node_faults(task)
        await received.holds(1)
    errors = [record for record in caplog.records if record.message == "internal error"]
    assert errors
    assert all("_take_one" in str(vars(record)["errors"]) for record in errors)
    assert "a bug" not in str([vars(record) for record in errors])


async def test_a_node_that_does_not_list_its_methods_is_followed(
    running: "Run",
    received: "ReceivedQueue",
    make_settings: MakeSettings,
    make_statement: MakeStatement,
    write_rule: WriteRule,
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
    make_settings: MakeSettings,
    make_statement: MakeStatement,
    write_rule: WriteRule,
) -> None:
    """Anybody may publish them, and nobody may make us leave an honest node."""
    write_rule()
    bad = ["0x", "0x00", "0xzz", "nonsense", None, 7, "0x" + make_statement(1).hex() + "00"]
    good = "0x" + make_statement(1).hex()
    behave = after_subscribing(notification(statements=[], remaining=0), notification(statements=[*bad, good]))
    async with hostile(behave) as node, running(make_settings(node)) as task:
        await received.holds(1)
        assert task.counts["envelope_malformed"] == len(bad)
        assert not node_faults(task)
    assert received.statements() == [make_statement(1)]
