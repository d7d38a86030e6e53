"""What an honest node shows is forwarded once, and how far it has shown is known."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from clarion.clock import now_ms
from clarion.metrics import Metric
from clarion.networks import STATEMENTS, XMTP
from clarion.networks.statements.codec import digest
from local.tls import Localhost
from local.xmtp_node import DevelopmentNode, XmtpNetwork
from tests.ingest.conftest import MakeStatement, node_faults
from tests.ingest.xmtp.conftest import TOPIC, MakeXmtpSettings
from tests.ingest.xmtp.nodes import Context, GrpcNode, envelope

if TYPE_CHECKING:
    from tests.ingest.conftest import FakeNode, ReceivedQueue, Run


async def test_what_two_nodes_show_is_forwarded_once_as_the_bytes_that_came(
    xmtp_node: GrpcNode,
    certificate: Path,
    running: "Run",
    received: "ReceivedQueue",
    xmtp_settings: MakeXmtpSettings,
    topic_rule: None,
) -> None:
    async with GrpcNode(certificate) as another, running(xmtp_settings(xmtp_node, another)) as task:
        await xmtp_node.subscribed()
        await another.subscribed()
        xmtp_node.show(envelope("hello"), envelope("nobody asks", "/xmtp/mls/1/g-bb/proto"))
        another.show(envelope("hello", later_s=2))
        await received.holds(1)
        while task.counts[Metric.ENVELOPES_RECEIVED] < 3:
            await asyncio.sleep(0.01)
        assert task.counts[Metric.ENVELOPES_SKIPPED] == 1
    (message,) = received.read()
    assert message.network == "xmtp"
    assert message.raw in {envelope("hello"), envelope("hello", later_s=2)}


async def test_while_one_node_is_away_what_another_shows_is_forwarded(
    xmtp_node: GrpcNode,
    certificate: Path,
    running: "Run",
    received: "ReceivedQueue",
    xmtp_settings: MakeXmtpSettings,
    topic_rule: None,
) -> None:
    another = GrpcNode(certificate)
    async with another:
        settings = xmtp_settings(xmtp_node, another)
    async with running(settings) as task:
        await xmtp_node.subscribed()
        xmtp_node.show(envelope("meanwhile"))
        await received.holds(1)
        assert task.status()["connected"] == [xmtp_node.url]
        async with another:
            await another.subscribed()
            while len(task.sources.connected) < 2:
                await asyncio.sleep(0.01)
            another.show(envelope("again"))
            await received.holds(2)


async def test_both_networks_are_followed_by_one_task(
    xmtp_node: GrpcNode,
    node: "FakeNode",
    running: "Run",
    received: "ReceivedQueue",
    xmtp_settings: MakeXmtpSettings,
    make_statement: MakeStatement,
    rule: None,
    topic_rule: None,
) -> None:
    settings = xmtp_settings(networks=(STATEMENTS, XMTP), nodes={STATEMENTS: [node.url], XMTP: [xmtp_node.url]})
    async with running(settings) as task:
        await xmtp_node.subscribed()
        await node.subscribed()
        while len(task.sources.connected) < 2:
            await asyncio.sleep(0.01)
        xmtp_node.show(envelope("hello"))
        node.show(make_statement(1))
        await received.holds(2)
    assert digest(make_statement(1)) in {digest(message.raw or b"") for message in received.read()}


async def test_the_watermark_advances_while_a_node_has_nothing_to_show_and_stops_while_it_is_away(
    xmtp_node: GrpcNode,
    running: "Run",
    received: "ReceivedQueue",
    xmtp_settings: MakeXmtpSettings,
    topic_rule: None,
) -> None:
    async with running(xmtp_settings(xmtp_node)) as task:
        await xmtp_node.subscribed()
        xmtp_node.show(envelope("hello"))
        await received.holds(1)
        shown_at = now_ms()
        while task.sharing.progress.delivered_through <= shown_at:
            await asyncio.sleep(0.01)
        await xmtp_node.__aexit__()
        while task.sources.connected:
            await asyncio.sleep(0.01)
        lost_at = now_ms()
        while node_faults(task, XMTP) < 2:  # the loss, and a connection that was refused since
            await asyncio.sleep(0.01)
        assert task.sharing.progress.delivered_through <= lost_at
        await xmtp_node.__aenter__()
        while task.sharing.progress.delivered_through <= lost_at:
            await asyncio.sleep(0.01)


async def test_the_watermark_advances_while_a_node_shows_without_a_pause(
    xmtp_node: GrpcNode, running: "Run", xmtp_settings: MakeXmtpSettings, tables: None
) -> None:
    async with running(xmtp_settings(xmtp_node)) as task:
        await xmtp_node.subscribed()
        began, number = now_ms(), 0
        while task.sharing.progress.delivered_through <= began + 300:
            number += 1
            xmtp_node.show(envelope(f"{number}", f"/xmtp/mls/1/g-{number % 7}/proto"))
            await asyncio.sleep(0.02)
            assert now_ms() - began < 50_000


async def test_the_end_of_the_task_ends_its_subscriptions_at_the_nodes(
    xmtp_node: GrpcNode, running: "Run", xmtp_settings: MakeXmtpSettings, tables: None
) -> None:
    async with running(xmtp_settings(xmtp_node)) as task:
        await xmtp_node.subscribed()
        while not task.sources.connected:
            await asyncio.sleep(0.01)
    async with asyncio.timeout(30):
        while not xmtp_node.gone:
            await asyncio.sleep(0.01)


async def test_a_silent_node_is_asked_anew_ever_more_seldom_until_it_shows_something(
    xmtp_node: GrpcNode, running: "Run", xmtp_settings: MakeXmtpSettings, tables: None
) -> None:
    settings = xmtp_settings(xmtp_node, quiet_seconds=0.1, renew_seconds=0.4)
    async with running(settings) as task:
        await xmtp_node.subscribed(3)
        assert node_faults(task, XMTP) >= 2
        (source,) = task.sources
        assert source._quiet >= 0.4  # type: ignore[attr-defined] # of this source alone
        while source._quiet > 0.1:  # type: ignore[attr-defined]
            xmtp_node.show(envelope("at last"))
            await asyncio.sleep(0.01)


async def test_a_node_counts_as_connected_once_it_has_answered_the_subscription(
    localhost: Localhost, running: "Run", xmtp_settings: MakeXmtpSettings, tables: None
) -> None:
    async with DevelopmentNode(localhost) as stalled:
        stalled.stall()
        async with running(xmtp_settings(stalled)) as task:
            while not stalled.subscribers:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.2)
            assert not task.sources.connected
            stalled.resume()
            while not task.sources.connected:
                await asyncio.sleep(0.01)


async def test_a_node_that_never_answers_the_subscription_is_asked_anew_and_never_connected(
    localhost: Localhost, xmtp_node: GrpcNode, running: "Run", xmtp_settings: MakeXmtpSettings, tables: None
) -> None:
    async with DevelopmentNode(localhost) as stalled:
        stalled.stall()
        async with running(xmtp_settings(stalled, xmtp_node, quiet_seconds=0.2)) as task:
            while node_faults(task, XMTP) < 2:
                assert stalled.url not in task.sources.connected
                await asyncio.sleep(0.01)


async def test_a_node_that_answers_with_its_first_envelope_only_is_waited_for(
    certificate: Path, running: "Run", received: "ReceivedQueue", xmtp_settings: MakeXmtpSettings, topic_rule: None
) -> None:
    due = asyncio.Event()

    async def sends_no_headers_of_their_own(context: Context) -> None:
        await due.wait()
        await context.write(envelope("first"))
        await asyncio.Event().wait()

    async with GrpcNode(certificate, sends_no_headers_of_their_own) as node:
        async with running(xmtp_settings(node, answer_seconds=1.0)) as task:
            await node.subscribed()
            await asyncio.sleep(1.2)
            assert not task.sources.connected
            due.set()
            await received.holds(1)
            assert task.sources.connected == [node.url]
        assert node.subscriptions == 1


async def test_of_nodes_that_are_silent_alike_one_is_always_subscribed_to(
    localhost: Localhost,
    running: "Run",
    received: "ReceivedQueue",
    xmtp_settings: MakeXmtpSettings,
    topic_rule: None,
    true_pauses: None,
) -> None:
    async with DevelopmentNode(localhost) as one, DevelopmentNode(localhost) as other:
        network = XmtpNetwork(one, other)
        async with running(xmtp_settings(one, other, quiet_seconds=0.5)) as task:
            for number in range(3):
                while len(task.sources.connected) < 2:
                    await asyncio.sleep(0.005)
                while one.subscribers and other.subscribers:
                    await asyncio.sleep(0.005)
                network.publish(TOPIC, f"{number}".encode())
                await received.holds(number + 1)


async def test_of_nodes_that_show_more_than_their_budgets_one_is_always_subscribed_to(
    certificate: Path,
    xmtp_node: GrpcNode,
    running: "Run",
    received: "ReceivedQueue",
    xmtp_settings: MakeXmtpSettings,
    topic_rule: None,
    true_pauses: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ingest.sources.xmtp.budget._PATIENCE_SECONDS", 0.5)
    budget = {"message_bytes": 100_000, "bytes_per_second": 400_000}
    async with GrpcNode(certificate) as another:
        nodes = (xmtp_node, another)
        async with running(xmtp_settings(*nodes, node_budgets={XMTP: budget})) as task:
            while len(task.sources.connected) < 2:
                await asyncio.sleep(0.01)
            for node in nodes:
                node.show(*(envelope(f"{number}" + "x" * 40_000, "/xmtp/mls/1/g-bb/proto") for number in range(115)))
            while not node_faults(task, XMTP):
                await asyncio.sleep(0.25)
                for node in nodes:
                    node.show(*(envelope("x" * 40_000, "/xmtp/mls/1/g-bb/proto"),) * 5)
            for node in nodes:
                node.show(envelope("after all that"))
            await received.holds(1)


def test_grpc_is_imported_only_where_xmtp_is_followed() -> None:
    program = """if True:
        import sys
        import ingest.wiring
        from ingest.sources import source_spec
        source_spec("statements")
        assert "grpc" not in sys.modules
        source_spec("xmtp")
        assert "grpc" in sys.modules
    """
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
