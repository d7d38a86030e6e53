"""Which of what the nodes replay at the first start of all is old."""

import asyncio
from typing import TYPE_CHECKING

import pytest

from clarion.metrics import Metric
from ingest.memory.initial_replay import InitialReplay
from ingest.memory.seen import SeenEnvelopes
from tests.hostile import Replaying, hostile
from tests.ingest.conftest import MakeSettings, MakeStatement, node_faults

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from tests.ingest.conftest import FakeNode, ReceivedQueue, Run


pytestmark = pytest.mark.usefixtures("rule")


async def has_replayed(task: object, count: int) -> None:
    while task.counts[Metric.ENVELOPES_REPLAYED] < count:  # type: ignore[attr-defined] # a task
        await asyncio.sleep(0.01)


async def test_a_replay_that_does_not_end_hides_nothing_that_another_node_shows_live(
    node: "FakeNode",
    running: "Run",
    received: "ReceivedQueue",
    make_settings: MakeSettings,
    make_statement: MakeStatement,
) -> None:
    lying = Replaying()
    async with hostile(lying.behave) as liar, running(make_settings(liar, node)) as task:
        await node.subscribed()
        lying.show(make_statement(1))
        await has_replayed(task, 1)
        node.show(make_statement(1))
        await received.holds(1)
    assert received.statements() == [make_statement(1)]


async def test_a_replay_that_ends_at_once_hides_nothing_that_another_node_shows_live(
    node: "FakeNode",
    running: "Run",
    received: "ReceivedQueue",
    make_settings: MakeSettings,
    make_statement: MakeStatement,
) -> None:
    lying = Replaying()
    settings = {"initial_replay_seconds": 60}
    async with hostile(lying.behave) as liar, running(make_settings(liar, node, **settings)) as task:
        await node.subscribed()
        lying.show(make_statement(1))
        lying.end()
        await has_replayed(task, 1)
        node.show(make_statement(1))
        await received.holds(1)
    assert received.statements() == [make_statement(1)]


async def test_after_a_restart_a_replay_that_does_not_end_hides_nothing_either(
    node: "FakeNode",
    running: "Run",
    received: "ReceivedQueue",
    make_settings: MakeSettings,
    make_statement: MakeStatement,
    s3: "S3Client",
) -> None:
    async with running(make_settings(node)):
        await node.subscribed()
        node.show(make_statement(0))
        await received.holds(1)
    assert any(one["Key"].endswith("base") for one in s3.list_objects_v2(Bucket="oversize")["Contents"])
    lying = Replaying()
    async with hostile(lying.behave) as liar, running(make_settings(liar, node)) as task:
        await node.subscribed()
        lying.show(make_statement(1))
        while not lying.sent:
            await asyncio.sleep(0.01)
        node.show(make_statement(1))
        while make_statement(1) not in received.statements():
            await asyncio.sleep(0.01)
        assert task.counts[Metric.ENVELOPES_REPLAYED] == 0


async def test_a_task_that_ends_before_a_node_has_replayed_all_leaves_no_record_that_makes_the_rest_new(
    running: "Run", received: "ReceivedQueue", make_settings: MakeSettings, make_statement: MakeStatement
) -> None:
    lying, slow = Replaying(), Replaying()
    lying.show(make_statement(0))
    lying.end()
    slow.show(make_statement(1))
    async with hostile(lying.behave) as liar, hostile(slow.behave) as honest:
        settings = make_settings(liar, honest, initial_replay_seconds=0)
        async with running(settings) as task:
            await has_replayed(task, 2)
            while task.status()["seen"] != 1:
                await asyncio.sleep(0.01)
        for statement in (make_statement(1), make_statement(2)):
            slow.show(statement)
        slow.end()
        async with running(settings) as task:
            await has_replayed(task, 2)
    assert received.statements() == []


async def test_a_replay_has_to_end_in_time_even_if_it_goes_on(
    running: "Run", make_settings: MakeSettings, make_statement: MakeStatement, caplog: pytest.LogCaptureFixture
) -> None:
    slow = Replaying()
    settings = {"replay_seconds": 10, "whole_replay_seconds": 0.3}
    async with hostile(slow.behave) as node, running(make_settings(node, **settings)) as task:
        number = 0
        while not node_faults(task):
            slow.show(make_statement(number := number + 1))
            await asyncio.sleep(0.02)
    reasons = {vars(record)["reason"] for record in caplog.records if record.message == "node lost"}
    assert reasons == {"the replay takes too long"}


@pytest.fixture
def seen() -> SeenEnvelopes:
    return SeenEnvelopes(1000)


def replay(initial: InitialReplay, *statements: int) -> None:
    """Let a node replay these, all of which are old to it."""
    one = initial.begin(initial=True)
    assert all(one.record_and_check(statement) for statement in statements)
    initial.complete(1, one)


async def recorded(initial: InitialReplay) -> None:
    recording = asyncio.create_task(initial.record_forever())
    while not initial.idle:
        await asyncio.sleep(0.005)
    recording.cancel()


async def test_what_a_complete_replay_showed_is_recorded_after_a_while(seen: SeenEnvelopes) -> None:
    initial = InitialReplay(seen, 0.05)
    replay(initial, 1, 2)
    assert (initial.idle, seen.size) == (False, 0)
    await recorded(initial)
    restored = SeenEnvelopes(1000)
    await restored.load(seen.delta())
    assert [restored.refresh(number) for number in (1, 2, 3)] == [True, True, False]


async def test_what_waits_to_be_recorded_is_old_to_every_replay(seen: SeenEnvelopes) -> None:
    initial = InitialReplay(seen, 0)
    replay(initial, 1, 2)
    later = initial.begin(initial=False)
    assert [later.record_and_check(number) for number in (1, 2, 3)] == [True, True, False]
    await recorded(initial)
    assert not later.record_and_check(1)


async def test_no_complete_replay_makes_what_another_node_has_yet_to_replay_new(seen: SeenEnvelopes) -> None:
    initial = InitialReplay(seen, 0)
    broken = initial.begin(initial=True)
    assert broken.record_and_check(2)
    replay(initial, 1)
    begun_again = initial.begin(initial=True)
    assert begun_again.record_and_check(2)
    assert begun_again.record_and_check(3)
    initial.complete(2, begun_again)
    await recorded(initial)
    assert seen.size == 3


async def test_what_was_shown_live_meanwhile_stays_in_hand(seen: SeenEnvelopes) -> None:
    initial = InitialReplay(seen, 0)
    replay(initial, 1)
    seen.add(1, 1)
    await recorded(initial)
    assert seen.delta() == b""


async def test_an_empty_replay_leaves_nothing_to_record(seen: SeenEnvelopes) -> None:
    initial = InitialReplay(seen, 0)
    replay(initial)
    assert initial.idle
