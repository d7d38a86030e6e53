import asyncio
import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from clarion.metrics import Metric
from clarion.tables import Rule
from ingest.health import main, serve_health
from ingest.settings import IngestSettings

if TYPE_CHECKING:
    from tests.ingest.conftest import FakeNode, ReceivedQueue, Run

type Settings = Callable[..., IngestSettings]
type Make = Callable[..., bytes]


async def test_a_subscription_that_went_quiet_is_renewed_and_brings_what_was_missed(
    node: "FakeNode",
    running: "Run",
    received: "ReceivedQueue",
    make_settings: Settings,
    make_statement: Make,
    write_rule: Callable[..., Rule],
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
    make_settings: Settings,
    make_statement: Make,
) -> None:
    async with make_node() as other, running(make_settings(node, other, watch_seconds=0.2)):
        await node.subscribed()
        await other.subscribed()
        node.go_mute()
        for number in range(10_000):
            other.show(make_statement(number))
            await asyncio.sleep(0.002)
            if node.subscriptions > 1:
                break
    assert (node.subscriptions, other.subscriptions) == (2, 1)


async def test_an_old_subscription_is_renewed_at_times(
    node: "FakeNode", running: "Run", make_settings: Settings, make_statement: Make
) -> None:
    async with running(make_settings(node, watch_seconds=0.05, renew_seconds=0.2)):
        while node.subscriptions < 3:
            await node.subscribed()
            node.show(make_statement(node.subscriptions))
            await asyncio.sleep(0.02)


async def test_after_a_complete_replay_what_was_not_in_it_is_forgotten(
    node: "FakeNode", running: "Run", make_settings: Settings, make_statement: Make
) -> None:
    node.standing = [make_statement(number) for number in range(100)]
    settings = make_settings(node, watch_seconds=0.05, renew_seconds=0.2, forget_seconds=0.05)
    async with running(settings) as task:
        while task.status()["seen"] != 100:
            await asyncio.sleep(0.01)
        del node.standing[60:]
        while task.status()["seen"] != 60:
            await asyncio.sleep(0.01)


async def test_a_node_that_lost_its_store_makes_nothing_forgotten(
    node: "FakeNode",
    running: "Run",
    received: "ReceivedQueue",
    make_settings: Settings,
    make_statement: Make,
    write_rule: Callable[..., Rule],
) -> None:
    """Its peers will tell it everything again, as if it were new."""
    write_rule()
    standing = [make_statement(number) for number in range(100)]
    node.standing = list(standing)
    async with running(make_settings(node, forget_seconds=0.01, watch_seconds=10)) as task:
        while task.status()["seen"] != 100:
            await asyncio.sleep(0.01)
        node.standing = []
        await node.hang_up()
        while node.subscriptions < 2:
            await asyncio.sleep(0.01)
        await node.subscribed()
        await asyncio.sleep(0.1)
        node.show(*standing, make_statement(100))
        await received.holds(1)
    assert received.statements() == [make_statement(100)]


async def test_statements_are_not_forgotten_while_one_node_has_yet_to_replay(
    node: "FakeNode",
    make_node: Callable[..., "FakeNode"],
    running: "Run",
    make_settings: Settings,
    make_statement: Make,
) -> None:
    node.standing = [make_statement(number) for number in range(10)]
    absent = make_node()
    async with absent:
        pass
    settings = make_settings(node, absent, watch_seconds=0.05, renew_seconds=0.1, forget_seconds=0.01)
    async with running(settings) as task:
        while task.status()["seen"] != 10:
            await asyncio.sleep(0.01)
        node.standing.pop()
        renewed = node.subscriptions + 3
        while node.subscriptions < renewed:
            await asyncio.sleep(0.01)
        assert task.status()["seen"] == 10


async def test_it_is_told_how_far_the_filter_is_behind_the_rules(
    node: "FakeNode", running: "Run", make_settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running(make_settings(node, stream_poll_seconds=3600, stage="blue")):
        await asyncio.sleep(0.3)
    (told,) = capsys.readouterr().out.splitlines()
    (block,) = json.loads(told)["_aws"]["CloudWatchMetrics"]
    assert (json.loads(told)["service"], json.loads(told)["stage"]) == ("ingest", "blue")
    assert {"Name": "rules_behind", "Unit": "Milliseconds"} in block["Metrics"]
    assert 300 <= json.loads(told)["rules_behind"][0] < 60_000


async def test_the_keys_in_a_node_s_url_are_told_to_nobody(
    node: "FakeNode", running: "Run", make_settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    url = node.url.replace("//", "//me:secret@") + "/secret?key=secret"
    with caplog.at_level("INFO", "ingest"):
        async with running(make_settings(node_urls=[url])) as task:
            await node.subscribed()
            assert task.status()["connected"] == [node.url]
            await node.hang_up()
            while not task.counts[Metric.NODE_FAULTS]:
                await asyncio.sleep(0.01)
    assert {"node subscribed", "node lost"} <= {record.message for record in caplog.records}
    assert not any("secret" in str(vars(record)) for record in caplog.records)


async def test_health_is_an_answer_with_the_state_of_things() -> None:
    server = await serve_health(0, lambda: {"leading": True})
    port = server.sockets[0].getsockname()[1]
    async with server:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        assert head.startswith(b"HTTP/1.1 200 OK\r\n")
        assert json.loads(body) == {"leading": True}
        assert await asyncio.to_thread(main, port) == 0
    assert await asyncio.to_thread(main, port) == 1


async def test_health_survives_whoever_hangs_up() -> None:
    server = await serve_health(0, dict)
    port = server.sockets[0].getsockname()[1]
    async with server:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"G")
        writer.close()
        await writer.wait_closed()
        assert await asyncio.to_thread(main, port) == 0
