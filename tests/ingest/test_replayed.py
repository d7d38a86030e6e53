"""How old what a replay brings may be."""

import asyncio
from functools import partial
from typing import TYPE_CHECKING

import pytest

from clarion.clock import now_ms
from clarion.messages import RepetitionMessage
from clarion.metrics import Metric
from clarion.tables import Lease
from ingest.sources.statements.session import NodeTimeouts
from tests.hostile import Replaying, hostile
from tests.ingest.conftest import MakeSettings, MakeStatement

if TYPE_CHECKING:
    from tests.ingest.conftest import FakeNode, ReceivedQueue, Run


pytestmark = pytest.mark.usefixtures("rule")


async def test_what_a_node_shows_live_is_not_taken_for_replayed(
    node: "FakeNode",
    running: "Run",
    received: "ReceivedQueue",
    make_settings: MakeSettings,
    make_statement: MakeStatement,
) -> None:
    async with running(make_settings(node)):
        await node.subscribed()
        node.show(make_statement(1))
        [message] = await received.holds(1)
    assert message.replayed_since is None


async def test_what_a_first_replay_brings_is_of_unknown_age(
    node: "FakeNode",
    running: "Run",
    received: "ReceivedQueue",
    make_settings: MakeSettings,
    make_statement: MakeStatement,
) -> None:
    node.stored = [make_statement(1)]
    async with running(make_settings(node, first_replay="handle")):
        [message] = await received.holds(1)
    assert message.replayed_since == 0


async def test_what_came_while_a_node_was_lost_is_as_old_as_its_loss_at_most(
    node: "FakeNode",
    running: "Run",
    received: "ReceivedQueue",
    make_settings: MakeSettings,
    make_statement: MakeStatement,
) -> None:
    before = now_ms()
    async with running(make_settings(node)):
        await node.subscribed()
        node.show(make_statement(1))
        await received.holds(1)
        await node.hang_up()
        lost = now_ms()
        node.stored.append(make_statement(2))
        [_, message] = await received.holds(2)
    assert message.replayed_since is not None
    assert before <= message.replayed_since <= lost
    assert message.observed_at >= lost


async def test_what_came_while_a_node_was_lost_is_so_old_whatever_another_node_shows_meanwhile(
    node: "FakeNode",
    make_node: type["FakeNode"],
    running: "Run",
    received: "ReceivedQueue",
    make_settings: MakeSettings,
    make_statement: MakeStatement,
) -> None:
    """The other one may conceal it, and be as live as can be."""
    async with make_node() as other, running(make_settings(node, other)):
        await node.subscribed()
        await other.subscribed()
        node.show(make_statement(1))
        await received.holds(1)
        node.stored.append(make_statement(2))
        await node.hang_up()
        lost = now_ms()
        await asyncio.sleep(0.1)
        other.show(make_statement(3))
        messages = await received.holds(3)
    [late] = [message for message in messages if message.raw == make_statement(2)]
    assert late.replayed_since is not None
    assert late.replayed_since <= lost


async def test_a_replay_that_does_not_end_makes_no_call_old_that_another_node_shows_live(
    node: "FakeNode",
    running: "Run",
    received: "ReceivedQueue",
    make_settings: MakeSettings,
    make_statement: MakeStatement,
) -> None:
    lying = Replaying()
    settings = {"first_replay": "handle"}
    async with hostile(lying.behave) as liar, running(make_settings(liar, node, **settings)) as task:
        await node.subscribed()
        lying.show(make_statement(1))
        await received.holds(1)
        while not task.counts[Metric.ENVELOPES_FORWARDED]:
            await asyncio.sleep(0.01)
        node.show(make_statement(1))
        replayed, live = await received.holds(2)
        assert task.counts[Metric.ENVELOPES_FORWARDED] == 1
    assert replayed.replayed_since == 0
    assert isinstance(live, RepetitionMessage)
    assert (live.receipt, live.observed_at, live.raw) == (replayed.receipt, replayed.observed_at, replayed.raw)
    assert live.replayed_since is None


async def test_what_came_while_no_task_was_at_work_is_as_old_as_the_time_through_which_the_last_one_delivered(
    node: "FakeNode",
    running: "Run",
    received: "ReceivedQueue",
    make_settings: MakeSettings,
    make_statement: MakeStatement,
) -> None:
    async with running(make_settings(node)) as task:
        await node.subscribed()
        node.show(make_statement(1))
        await received.holds(1)
        while not task.counts["envelopes_forwarded"] or task.status()["forwarded_lately"]:
            await asyncio.sleep(0.01)
    ended = now_ms()
    (lease,) = Lease.scan()
    delivered_through = int(lease.delivered_through)
    node.stored.append(make_statement(2))
    async with running(make_settings(node)):
        [_, message] = await received.holds(2)
    assert 0 < delivered_through <= ended
    assert message.replayed_since == delivered_through


async def test_a_node_that_dropped_its_subscriber_without_a_word_was_live_only_until_it_last_showed_something(
    node: "FakeNode",
    running: "Run",
    received: "ReceivedQueue",
    make_settings: MakeSettings,
    make_statement: MakeStatement,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It goes on answering, which proves nothing."""
    monkeypatch.setattr("ingest.sources.statements.source.NodeTimeouts", partial(NodeTimeouts, asking=0.05))
    settings = make_settings(node, quiet_seconds=1.0, watch_seconds=0.2)
    async with running(settings):
        await node.subscribed()
        node.show(make_statement(1))
        await received.holds(1)
        dropped = now_ms()
        node.go_mute()
        node.stored.append(make_statement(2))
        [_, message] = await received.holds(2)
    assert message.replayed_since is not None
    assert message.replayed_since <= dropped
