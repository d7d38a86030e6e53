"""Tasks that end, by SIGTERM or by a crash, and those that go on in their place."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError

from clarion.clock import now_ms
from clarion.metrics import Metric
from clarion.networks import STATEMENTS, network
from clarion.networks.statements.codec import digest
from clarion.storage import SEEN_PREFIX
from clarion.tables import Lease
from ingest.filter.fingerprints import of_envelope
from ingest.filter.rule_feed import StreamsClient
from ingest.lease.shards import SHARDS
from ingest.task import Task
from ingest.wiring import AwsClients, wire
from tests.ingest.conftest import MakeSettings, MakeStatement, WriteRule, saved

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from tests.ingest.conftest import FakeNode, ReceivedQueue, Run


pytestmark = pytest.mark.usefixtures("rule")


OTHER = b"\x71" * 32
LASTING = 600.0
"""The time of a lease, in seconds, that does not run out within a test, and is renewed by `renew_until` alone."""


async def crashing(task: Task) -> asyncio.Task[None]:
    """Run `task`, to be cancelled: it gets no chance to hand over."""
    return asyncio.create_task(task.run(asyncio.Event()))


async def crash(running: asyncio.Task[None]) -> None:
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


async def owns(task: Task, least: int = SHARDS) -> None:
    """Wait until so many shards are its own."""
    while task.sharing.shards.owned < least:
        await asyncio.sleep(0.01)


async def renew_until(holds: Callable[[], bool], *tasks: Task) -> None:
    while not holds():
        for task in tasks:
            await task.sharing.renew()
        await asyncio.sleep(0.01)


def share_all(one: Task, other: Task) -> bool:
    """Whether each shard is one's or the other's, as both see it, and each has some."""
    return 0 < one.sharing.shards.owned == SHARDS - other.sharing.shards.owned < SHARDS


def delivered_through() -> int:
    """As the one task that there is says."""
    (lease,) = Lease.scan()
    return int(lease.delivered_through)


async def test_after_a_restart_only_what_arrived_meanwhile_is_forwarded(
    node: "FakeNode",
    running: "Run",
    received: "ReceivedQueue",
    make_settings: MakeSettings,
    make_statement: MakeStatement,
    s3: "S3Client",
) -> None:
    node.stored = [make_statement(number) for number in range(100)]
    async with running(make_settings(node)) as task:
        await node.subscribed()
        node.show(make_statement(100))
        await received.holds(1)
        await saved(s3)
        while not task.counts["envelopes_forwarded"] or task.status()["forwarded_lately"]:
            await asyncio.sleep(0.01)
    node.stored.append(make_statement(101))
    async with running(make_settings(node)):
        await received.holds(2)
    assert received.statements() == sorted([make_statement(100), make_statement(101)])


async def test_a_rule_added_while_the_task_was_down_does_not_push_what_is_old(
    node: "FakeNode",
    running: "Run",
    received: "ReceivedQueue",
    make_settings: MakeSettings,
    make_statement: MakeStatement,
    write_rule: WriteRule,
    s3: "S3Client",
) -> None:
    old = make_statement(1, topics=(OTHER,))
    async with running(make_settings(node)) as task:
        await node.subscribed()
        node.show(old)
        node.show(make_statement(2))
        await received.holds(1)
        await saved(s3)
        while not task.counts["envelope_unmatched"]:
            await asyncio.sleep(0.01)
    write_rule(topic=OTHER)
    async with running(make_settings(node)):
        await node.subscribed()
        node.show(make_statement(3, topics=(OTHER,)))
        await received.holds(2)
    assert old not in received.statements()


async def test_what_a_crashed_task_had_not_sent_is_sent_by_the_next(
    node: "FakeNode",
    running: "Run",
    clients: AwsClients,
    received: "ReceivedQueue",
    make_settings: MakeSettings,
    make_statement: MakeStatement,
    s3: "S3Client",
) -> None:
    async with asyncio.timeout(60):
        stuck = make_settings(node, envelopes_queue_url=received.url + "-gone")
        task = await crashing(wire(stuck, clients))
        await node.subscribed()
        node.show(make_statement(1))
        await saved(s3)
        await crash(task)
    assert received.statements() == []
    async with running(make_settings(node)):
        await received.holds(1)
    assert received.statements() == [make_statement(1)]


async def test_a_task_takes_over_from_one_that_crashed_and_nothing_is_lost(
    node: "FakeNode",
    running: "Run",
    clients: AwsClients,
    received: "ReceivedQueue",
    make_settings: MakeSettings,
    make_statement: MakeStatement,
) -> None:
    settings = make_settings(node)
    crashing_task = wire(settings, clients)
    crashed = await crashing(crashing_task)
    await owns(crashing_task)
    async with running(settings) as other:
        await owns(other, 1)
        for number in range(60):
            node.show(make_statement(number))
            await asyncio.sleep(0.005)
            if number == 20:
                await crash(crashed)
        await owns(other)
        while len(set(received.statements())) < 60:
            await asyncio.sleep(0.01)
    assert set(received.statements()) == {make_statement(number) for number in range(60)}


async def test_two_tasks_divide_the_work_and_forward_nothing_twice(
    node: "FakeNode",
    running: "Run",
    received: "ReceivedQueue",
    make_settings: MakeSettings,
    make_statement: MakeStatement,
) -> None:
    settings = make_settings(node, lease_seconds=LASTING)
    async with running(settings) as one, running(settings) as other:
        await renew_until(lambda: share_all(one, other), one, other)
        for number in range(60):
            node.show(make_statement(number))
        await received.holds(60)
        while one.counts[Metric.ENVELOPES_FORWARDED] + other.counts[Metric.ENVELOPES_FORWARDED] < 60:
            await asyncio.sleep(0.01)
        assert one.counts[Metric.ENVELOPES_FORWARDED]
        assert other.counts[Metric.ENVELOPES_FORWARDED]
        assert len(received.read()) == 60


async def test_a_task_keeps_what_another_without_nodes_was_never_shown(
    node: "FakeNode",
    make_node: Callable[..., "FakeNode"],
    running: "Run",
    clients: AwsClients,
    received: "ReceivedQueue",
    make_settings: MakeSettings,
    make_statement: MakeStatement,
) -> None:
    async with make_node() as gone:
        cut_off = wire(make_settings(gone, lease_seconds=2.0), clients)
        crashed = await crashing(cut_off)
        await owns(cut_off)
    async with running(make_settings(node, overlap_seconds=0)) as other:
        await node.subscribed()
        for number in range(10):
            node.show(make_statement(number))
        await crash(crashed)
        await received.holds(10)
        await owns(other)


async def test_what_a_task_does_not_own_it_remembers_once_the_owner_has_delivered_it(
    node: "FakeNode",
    running: "Run",
    received: "ReceivedQueue",
    make_settings: MakeSettings,
    make_statement: MakeStatement,
) -> None:
    settings = make_settings(node, overlap_seconds=0)
    async with running(settings) as one:
        await owns(one)
        async with running(settings) as other:
            await owns(other, 1)
            for number in range(20):
                node.show(make_statement(number))
            while [(task.status()["seen"], task.status()["standby"]) for task in (one, other)] != [(20, 0)] * 2:
                node.show(make_statement(0))  # so that the watermark advances
                await asyncio.sleep(0.05)
    assert set(received.statements()) == {make_statement(number) for number in range(20)}


async def test_what_a_lost_node_alone_may_have_shown_is_kept_until_it_is_back_or_was_awaited_for_long(
    node: "FakeNode",
    make_node: Callable[..., "FakeNode"],
    running: "Run",
    make_settings: MakeSettings,
    make_statement: MakeStatement,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with make_node() as lost, running(make_settings(node, lost)) as task:
        await owns(task)
        await node.subscribed()
        await lost.subscribed()
        while not delivered_through():
            await asyncio.sleep(0.01)
        await lost.__aexit__()
        while len(task.status()["connected"]) > 1:  # type: ignore[arg-type] # a list
            await asyncio.sleep(0.01)
        lost_at = now_ms()
        await node.hang_up()
        while node.subscriptions < 2:
            await asyncio.sleep(0.01)
        await node.subscribed()
        node.show(make_statement(1))
        await asyncio.sleep(0.6)  # some renewals of the lease
        assert 0 < delivered_through() <= lost_at
        monkeypatch.setattr("ingest.lease.progress._AWAITED_SECONDS", 0.1)
        while delivered_through() <= lost_at:
            await asyncio.sleep(0.05)


class UnreadableStream:
    """Says where it is, and nothing of what it holds."""

    def __init__(self, client: StreamsClient) -> None:
        self.describe_stream = client.describe_stream
        self.get_shard_iterator = client.get_shard_iterator

    def get_records(self, **_: Any) -> dict[str, Any]:
        raise ClientError({"Error": {"Code": "ThrottlingException"}}, "GetRecords")


def is_of(task: Task, raw: bytes) -> bool:
    """Whether a statement's shard is the task's."""
    return task.sharing.shards.owns(of_envelope(digest(raw), bytes([network(STATEMENTS).number])))


async def test_a_task_keeps_what_the_owner_does_not_know_the_rule_for(
    node: "FakeNode",
    make_node: Callable[..., "FakeNode"],
    running: "Run",
    clients: AwsClients,
    received: "ReceivedQueue",
    make_settings: MakeSettings,
    make_statement: MakeStatement,
    write_rule: WriteRule,
) -> None:
    """The owner is shown it first: what it was shown later, only the overlap keeps."""
    lasting = {"lease_seconds": LASTING, "overlap_seconds": 0}
    blind = wire(make_settings(node, **lasting), replace(clients, streams=UnreadableStream(clients.streams)))
    crashed = await crashing(blind)
    await renew_until(lambda: blind.sharing.shards.owned == SHARDS, blind)
    async with make_node() as later, running(make_settings(later, **lasting)) as other:
        await renew_until(lambda: share_all(blind, other), blind, other)
        write_rule(topic=OTHER)
        unknown = [raw for number in range(50) if is_of(blind, raw := make_statement(number, topics=(OTHER,)))]
        node.show(*unknown)
        while len(blind.unmatched) < len(unknown):
            await asyncio.sleep(0.01)
        later.show(*unknown)
        while len(other.sharing.standby) < len(unknown):
            await asyncio.sleep(0.01)
        for _ in range(3):
            for task in (blind, other):
                await task.sharing.renew()
            await asyncio.sleep(0.1)
        assert other.status()["standby"] == len(unknown)
        await crash(crashed)
        Lease(blind.sharing.leases.me).delete()  # as if it had run out
        await other.sharing.renew()
        while not set(unknown) <= set(received.statements()):
            await asyncio.sleep(0.01)


async def test_sigterm_hands_over_without_waiting_for_the_lease_to_run_out(
    node: "FakeNode", running: "Run", make_settings: MakeSettings
) -> None:
    settings = make_settings(node, lease_seconds=LASTING)
    async with running(settings) as first:
        await renew_until(lambda: first.sharing.shards.owned == SHARDS, first)
        standby = running(settings)
        second = await standby.__aenter__()
        while node.subscriptions < 2:
            await asyncio.sleep(0.01)
        assert second.sharing.shards.owned < SHARDS
    await renew_until(lambda: second.sharing.shards.owned == SHARDS, second)
    await standby.__aexit__(None, None, None)


class UnwritableS3:
    def __init__(self, client: "S3Client") -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def put_object(self, **_: Any) -> None:
        raise ClientError({"Error": {"Code": "SlowDown"}}, "PutObject")


async def test_a_record_that_cannot_be_saved_keeps_no_shard_from_the_others(
    node: "FakeNode", running: "Run", make_settings: MakeSettings, s3: "S3Client"
) -> None:
    settings = make_settings(node, lease_seconds=LASTING)
    async with running(settings, s3=UnwritableS3(s3)) as first:
        await renew_until(lambda: first.sharing.shards.owned == SHARDS, first)
    (lease,) = Lease.scan()
    assert lease.ended


async def test_a_missing_table_of_leases_stops_the_start(
    node: "FakeNode", clients: AwsClients, make_settings: MakeSettings
) -> None:
    Lease.delete_table()
    with pytest.raises(Exception, match="Failed to scan"):
        await wire(make_settings(node), clients).run(asyncio.Event())


async def test_a_record_that_cannot_be_read_stops_the_start(
    node: "FakeNode", clients: AwsClients, make_settings: MakeSettings, s3: "S3Client"
) -> None:
    """Taking it for a first start would let go of what arrived meanwhile."""
    s3.put_object(Bucket="oversize", Key=f"{SEEN_PREFIX}000000000001-00000001-base", Body=b"something else")
    with pytest.raises(ValueError, match="not a record"):
        await wire(make_settings(node), clients).run(asyncio.Event())
