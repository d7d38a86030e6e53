import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any

import pytest
from websockets.asyncio.server import ServerConnection, serve

from clarion.health import serve_health
from clarion.networks import STATEMENTS
from ingest.health import HOST, main
from ingest.sources.statements.node import State
from ingest.sources.statements.watch import FEWEST, SLOW_SECONDS, SubscriptionWatch
from tests.ingest.conftest import MakeSettings, MakeStatement, WriteRule, node_faults

if TYPE_CHECKING:
    from tests.ingest.conftest import FakeNode, ReceivedQueue, Run


async def test_a_subscription_that_went_quiet_is_renewed_and_brings_what_was_missed(
    node: "FakeNode",
    running: "Run",
    received: "ReceivedQueue",
    make_settings: MakeSettings,
    make_statement: MakeStatement,
    write_rule: WriteRule,
) -> None:
    write_rule()
    async with running(make_settings(node, watch_seconds=0.05, quiet_seconds=0.3)):
        await node.subscribed()
        node.go_mute()
        node.show(make_statement(1))
        await received.holds(1)
    assert received.statements() == [make_statement(1)]


async def test_a_node_that_shows_less_than_its_peer_is_asked_again(
    node: "FakeNode",
    make_node: Callable[..., "FakeNode"],
    running: "Run",
    make_settings: MakeSettings,
    make_statement: MakeStatement,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ingest.sources.statements.watch.SLOW_SECONDS", inf)
    async with make_node() as other, running(make_settings(node, other, watch_seconds=0.2)):
        await node.subscribed()
        await other.subscribed()
        node.go_mute()
        number = 0
        while node.subscriptions == 1:
            other.show(*(make_statement(number := number + 1) for _ in range(FEWEST)))
            await asyncio.sleep(0.02)
    assert (node.subscriptions, other.subscriptions) == (2, 1)


async def test_an_old_subscription_is_renewed_at_times(
    node: "FakeNode", running: "Run", make_settings: MakeSettings, make_statement: MakeStatement
) -> None:
    async with running(make_settings(node, watch_seconds=0.05, renew_seconds=0.2)):
        while node.subscriptions < 3:
            await node.subscribed()
            node.show(make_statement(node.subscriptions))
            await asyncio.sleep(0.02)


async def test_after_a_complete_replay_what_was_not_in_it_is_forgotten(
    node: "FakeNode", running: "Run", make_settings: MakeSettings, make_statement: MakeStatement
) -> None:
    node.stored = [make_statement(number) for number in range(100)]
    settings = make_settings(node, watch_seconds=0.05, renew_seconds=0.2, forget_seconds=0.05)
    async with running(settings) as task:
        while task.status()["seen"] != 100:
            await asyncio.sleep(0.01)
        del node.stored[60:]
        while task.status()["seen"] != 60:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("reconnections", [0, 3])
async def test_a_node_that_lost_its_store_makes_nothing_forgotten(
    reconnections: int,
    node: "FakeNode",
    running: "Run",
    received: "ReceivedQueue",
    make_settings: MakeSettings,
    make_statement: MakeStatement,
    write_rule: WriteRule,
) -> None:
    """Its peers will show it everything again, as if it were new."""
    write_rule()
    stored = [make_statement(number) for number in range(100)]
    node.stored = list(stored)
    async with running(make_settings(node, forget_seconds=0.01, watch_seconds=0.05, renew_seconds=0.1)) as task:
        while task.status()["seen"] != 100:
            await asyncio.sleep(0.01)
        node.stored = stored[:10]
        await node.hang_up()
        while node.subscriptions < 2 + reconnections:
            await asyncio.sleep(0.01)
        await node.subscribed()
        await asyncio.sleep(0.1)
        node.stored.clear()
        node.show(*stored, make_statement(100))
        await received.holds(1)
    assert received.statements() == [make_statement(100)]


async def test_statements_are_not_forgotten_while_one_node_has_yet_to_replay(
    node: "FakeNode",
    make_node: Callable[..., "FakeNode"],
    running: "Run",
    make_settings: MakeSettings,
    make_statement: MakeStatement,
) -> None:
    node.stored = [make_statement(number) for number in range(10)]
    absent = make_node()
    async with absent:
        pass
    settings = make_settings(node, absent, watch_seconds=0.05, renew_seconds=0.1, forget_seconds=0.01)
    async with running(settings) as task:
        while task.status()["seen"] != 10:
            await asyncio.sleep(0.01)
        node.stored.pop()
        renewed = node.subscriptions + 3
        while node.subscriptions < renewed:
            await asyncio.sleep(0.01)
        assert task.status()["seen"] == 10


async def test_a_replay_that_never_comes_to_an_end_keeps_nothing_from_being_forgotten(
    node: "FakeNode", running: "Run", make_settings: MakeSettings, make_statement: MakeStatement
) -> None:
    async def replay_drop_by_drop(socket: ServerConnection) -> None:
        for result in ({"methods": ["statement_subscribeStatement"]}, "subscription"):
            asked = json.loads(await socket.recv())
            await socket.send(json.dumps({"id": asked["id"], "result": result}))
        for remaining in range(4_000_000, 0, -1):
            event = {"event": "newStatements", "data": {"statements": [], "remaining": remaining}}
            await socket.send(json.dumps({"method": "statement_statement", "params": {"result": event}}))
            await asyncio.sleep(0.05)

    node.stored = [make_statement(number) for number in range(100)]
    async with serve(replay_drop_by_drop, "127.0.0.1", 0) as server:
        hostile = f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}"
        often = {"watch_seconds": 0.05, "renew_seconds": 0.2, "forget_seconds": 0.05, "absent_seconds": 1.5}
        async with running(make_settings(nodes={STATEMENTS: [hostile, node.url]}, **often)) as task:
            while task.status()["seen"] != 100:
                await asyncio.sleep(0.01)
            del node.stored[60:]
            while task.status()["seen"] != 60:
                await asyncio.sleep(0.01)


@dataclass(eq=False)
class WatchedNode:
    """A node as the watch sees it, and why it was renewed."""

    began: float = 0.0
    last_shown_at: float = 0.0
    live: int = 0
    replaying: bool = False
    longest_wait: float = 0.0
    renewals: list[str] = field(default_factory=list)

    @property
    def session(self) -> "WatchedNode":
        return self

    @property
    def subscription(self) -> "WatchedNode":
        return self

    @property
    def state(self) -> State:
        return State.REPLAYING if self.replaying else State.LIVE

    def renew(self, reason: str, *, may_have_missed: bool = True) -> None:
        self.renewals.append(reason)


class Watched:
    """A watch over nodes, and its clock."""

    def __init__(self, count: int, *, oldest: float = 3600.0) -> None:
        self.now = 0.0
        self.nodes = [WatchedNode() for _ in range(count)]
        nodes: Any = self.nodes
        self.watch = SubscriptionWatch(
            nodes, lambda: False, window=15, oldest=oldest, quiet=120, clock=lambda: self.now
        )

    def pass_window(self, *shown: int) -> None:
        self.now += 15
        for node, live in zip(self.nodes, shown, strict=True):
            node.live += live
            node.last_shown_at = self.now
        self.watch.look()


def test_a_node_that_makes_things_up_does_not_keep_another_in_replays() -> None:
    watched = Watched(2)
    for _ in range(240):  # an hour
        watched.pass_window(1_000_000, 10)
    _, honest = watched.nodes
    assert 1 < honest.renewals.count("behind") <= 8


def test_a_subscription_that_was_read_slowly_is_renewed_but_not_again_and_again() -> None:
    """By a reader that is always slow, who would only have more to read."""
    watched = Watched(1)
    watched.pass_window(5)
    (node,) = watched.nodes
    node.longest_wait = SLOW_SECONDS + 1
    for _ in range(40):  # ten minutes
        watched.pass_window(5)
    assert node.renewals == ["slow"] * 6


def test_a_node_that_falls_behind_on_another_day_is_doubted_at_once() -> None:
    watched = Watched(2, oldest=600)
    for _ in range(2):
        watched.pass_window(100, 10)
    watched.now += 86_400
    watched.pass_window(100, 100)
    before = watched.nodes[1].renewals.count("behind")
    watched.pass_window(100, 10)
    assert watched.nodes[1].renewals.count("behind") == before + 1


def test_a_node_is_not_judged_by_what_it_showed_while_it_still_replayed() -> None:
    watched = Watched(2)
    watched.nodes[1].replaying = True
    watched.pass_window(100, 0)
    watched.pass_window(100, 0)
    watched.nodes[1].replaying = False
    watched.pass_window(100, 1)
    assert watched.nodes[1].renewals == []
    watched.pass_window(100, 1)
    assert watched.nodes[1].renewals == ["behind"]


def test_nodes_are_not_renewed_all_at_once_for_their_age() -> None:
    """While one replays, the other shows what is new."""
    watched = Watched(2)
    watched.now = 3600
    watched.pass_window(1, 1)
    assert sorted(len(node.renewals) for node in watched.nodes) == [0, 1]


async def test_it_is_told_how_far_the_filter_is_behind_the_rules(
    node: "FakeNode", running: "Run", make_settings: MakeSettings, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running(make_settings(node, stream_poll_seconds=3600, stage="blue")) as task:
        while not task.candidates.fresh_as_of:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.4)
    (line,) = [line for line in map(json.loads, capsys.readouterr().out.splitlines()) if "network" not in line]
    (block,) = line["_aws"]["CloudWatchMetrics"]
    assert (line["service"], line["stage"]) == ("ingest", "blue")
    assert {"Name": "rules_behind", "Unit": "Milliseconds"} in block["Metrics"]
    assert 300 <= line["rules_behind"][0] < 60_000


async def test_the_keys_in_a_node_s_url_are_told_to_nobody(
    node: "FakeNode", running: "Run", make_settings: MakeSettings, caplog: pytest.LogCaptureFixture
) -> None:
    url = node.url.replace("//", "//me:secret@") + "/secret?key=secret"
    with caplog.at_level("INFO", "ingest"):
        async with running(make_settings(nodes={STATEMENTS: [url]})) as task:
            await node.subscribed()
            while task.status()["connected"] != [node.url]:
                await asyncio.sleep(0.01)
            await node.hang_up()
            while not node_faults(task):
                await asyncio.sleep(0.01)
    assert {"node subscribed", "node lost"} <= {record.message for record in caplog.records}
    assert not any("secret" in str(vars(record)) for record in caplog.records)


@pytest.fixture
def patient_health(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits for an answer for longer than a busy machine may take."""
    monkeypatch.setattr("ingest.health.CHECK_SECONDS", 60.0)
    monkeypatch.setattr("clarion.health._REQUEST_SECONDS", 60.0)


async def test_health_is_an_answer_with_the_state_of_things_and_good_once_the_task_is_ready(
    patient_health: None,
) -> None:
    ready = asyncio.Event()
    server = await serve_health(HOST, 0, ready.is_set, lambda: {"shards": 256})
    port = server.sockets[0].getsockname()[1]
    async with server:
        assert await health_of(port) == ("503 Service Unavailable", {"shards": 256})
        assert await asyncio.to_thread(main, port) == 1
        ready.set()
        assert await health_of(port) == ("200 OK", {"shards": 256})
        assert await asyncio.to_thread(main, port) == 0
    assert await asyncio.to_thread(main, port) == 1


async def health_of(port: int) -> tuple[str, object]:
    """The status, and what the answer says."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return head.split(b"\r\n")[0].decode().removeprefix("HTTP/1.1 "), json.loads(body)


async def test_health_survives_whoever_hangs_up(patient_health: None) -> None:
    server = await serve_health(HOST, 0, lambda: True, dict)
    port = server.sockets[0].getsockname()[1]
    async with server:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"G")
        writer.close()
        await writer.wait_closed()
        assert await asyncio.to_thread(main, port) == 0


def test_the_health_check_imports_nothing_that_takes_long() -> None:
    """It runs every half a minute beside a task that has a part of a processor."""
    program = "import sys, ingest.health; print(*sys.modules)"
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert not {"pydantic", "boto3", "clarion"} & set(printed.split())
