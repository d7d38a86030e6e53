"""The ingest task follows SMP servers."""

import asyncio
from collections.abc import Mapping

import boto3
import pytest

from clarion.clock import now_ms
from clarion.metrics import Metric
from clarion.networks.simplex.queues import BUCKETS, ENDED, FollowedQueue
from clarion.tables import PartLease
from ingest.lease.parts import FREE
from ingest.sources.simplex.source import SmpServers
from ingest.task import Task
from tests.ingest.conftest import ReceivedQueue, Run
from tests.ingest.simplex.conftest import (
    MakeSmpSettings,
    add_queue,
    add_row,
    becomes,
    forwards,
    key_of_row,
    nonces,
    status_of,
)
from tests.ingest.simplex.smp_server import SmpTestServer

pytestmark = pytest.mark.usefixtures("tables")


async def test_a_message_in_a_followed_queue_goes_to_match(
    smp: SmpTestServer, running: Run, smp_settings: MakeSmpSettings, received: ReceivedQueue
) -> None:
    queue = add_queue(smp)
    async with running(smp_settings()):
        await smp.subscribes(queue)
        sent = smp.notify(queue)
        await forwards(received, sent)
        await becomes(smp, queue, "ACTIVE")
    (message,) = received.messages
    assert message.network == "simplex"


async def test_what_a_server_kept_before_the_subscription_goes_to_match(
    smp: SmpTestServer, running: Run, smp_settings: MakeSmpSettings, received: ReceivedQueue
) -> None:
    queue = add_queue(smp)
    sent = smp.notify(queue, queue)
    async with running(smp_settings()):
        await forwards(received, sent)


async def test_a_queue_that_is_added_later_is_subscribed_to_by_the_same_connection(
    smp: SmpTestServer, running: Run, smp_settings: MakeSmpSettings
) -> None:
    first = add_queue(smp)
    async with running(smp_settings()):
        await smp.subscribes(first)
        second = add_queue(smp)
        await smp.subscribes(second)
    assert smp.connections == 1


async def test_queues_are_subscribed_to_by_blocks_that_are_full(
    smp: SmpTestServer, running: Run, smp_settings: MakeSmpSettings
) -> None:
    queues = [add_queue(smp) for _ in range(300)]
    async with running(smp_settings()):
        await smp.subscribes(*queues)
    assert max(smp.batches) == 135
    assert len(smp.subscribed) == 300


async def test_the_refused_the_deleted_and_those_taken_away_show_their_status_and_are_left_alone(
    smp: SmpTestServer, running: Run, smp_settings: MakeSmpSettings
) -> None:
    deleted, taken, unknown, failing, kept = (add_queue(smp) for _ in range(5))
    del smp.queues[unknown]
    smp.queues[failing].refusal = b"QUOTA"
    async with running(smp_settings()):
        await smp.subscribes(deleted, taken, kept)
        for queue in (deleted, taken, kept):
            await becomes(smp, queue, "ACTIVE")
        smp.delete(deleted)
        smp.take_away(taken)
        for queue, status in ((deleted, "DELETED"), (taken, "END"), (unknown, "AUTH"), (failing, "ERR QUOTA")):
            await becomes(smp, queue, status)
        smp.subscribed.clear()
        await smp.stop()
        await smp.start()
        await smp.subscribes(kept)
    assert smp.subscribed == [kept]


async def test_a_status_that_has_not_changed_is_not_written(
    smp: SmpTestServer,
    running: Run,
    smp_settings: MakeSmpSettings,
    received: ReceivedQueue,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written: list[str] = []
    monkeypatch.setattr("ingest.sources.simplex.statuses._update", lambda _queue, status: written.append(status))
    queue = add_queue(smp, status="ACTIVE")
    async with running(smp_settings()):
        await smp.subscribes(queue)
        await forwards(received, smp.notify(queue))
    assert written == []


async def test_a_lost_connection_is_made_again_and_nothing_is_lost_that_the_server_kept(
    smp: SmpTestServer, running: Run, smp_settings: MakeSmpSettings, received: ReceivedQueue
) -> None:
    queue = add_queue(smp)
    async with running(smp_settings()):
        await smp.subscribes(queue)
        await smp.stop()
        await smp.until(lambda: not smp.clients)
        sent = smp.notify(queue)
        await smp.start()
        await forwards(received, sent)
        assert status_of(smp, queue) == "ACTIVE"


async def test_queues_of_a_server_that_stays_away_are_inactive_until_it_is_back(
    smp: SmpTestServer, running: Run, smp_settings: MakeSmpSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = add_queue(smp)
    async with running(smp_settings()):
        await becomes(smp, queue, "ACTIVE")
        # Not before: on a busy machine to connect takes as long, and rows become inactive once an hour.
        monkeypatch.setattr("ingest.sources.simplex.server.AWAY_SECONDS", 0.2)
        await smp.stop()
        await becomes(smp, queue, "INACTIVE")
        await smp.start()
        await becomes(smp, queue, "ACTIVE")


async def test_a_newer_subscription_of_the_same_queue_keeps_its_status(
    smp: SmpTestServer, running: Run, smp_settings: MakeSmpSettings
) -> None:
    notifier_id, key = smp.add_queue()
    smp.queues[notifier_id].refusal = b"QUOTA"
    add_row(smp, notifier_id, key)
    async with running(smp_settings()):
        await becomes(smp, notifier_id, "ERR QUOTA")
        smp.queues[notifier_id].refusal = None
        add_row(smp, notifier_id, key)
        await becomes(smp, notifier_id, "ACTIVE")


async def test_a_queue_that_was_given_up_is_dropped_and_its_server_left_with_the_last(
    smp: SmpTestServer, running: Run, smp_settings: MakeSmpSettings
) -> None:
    queue = add_queue(smp)
    async with running(smp_settings()):
        await becomes(smp, queue, "ACTIVE")
        row = FollowedQueue.get(key_of_row(smp, queue))
        row.bucket, row.changed_at = ENDED, now_ms()
        row.save()
        await smp.until(lambda: not smp.clients)


async def test_a_queue_that_is_subscribed_to_again_is_not_dropped_for_having_been_given_up_before(
    smp: SmpTestServer, running: Run, smp_settings: MakeSmpSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an index shows it that is behind."""
    notifier_id, key = smp.add_queue()
    ended = (bytes(add_row(smp, notifier_id, key).queue_key), now_ms())
    reads = 0

    def read_what_was_ended(_since: int) -> list[tuple[bytes, int]]:
        nonlocal reads
        reads += 1
        return [ended]

    await asyncio.sleep(0.01)
    add_row(smp, notifier_id, key)
    monkeypatch.setattr("ingest.sources.simplex.news.read_ended", read_what_was_ended)
    async with running(smp_settings()):
        await becomes(smp, notifier_id, "ACTIVE")
        seen = reads
        while reads < seen + 3:
            await asyncio.sleep(0.02)
        assert smp.clients, "it has no other queue there"


@pytest.mark.parametrize("attribute", ["notifier_key", "queue", "status"])
async def test_a_row_that_lacks_an_attribute_costs_its_own_queue_alone_and_is_counted(
    attribute: str, smp: SmpTestServer, running: Run, smp_settings: MakeSmpSettings
) -> None:
    spoiled, honest = add_queue(smp), add_queue(smp)
    row = FollowedQueue.get(key_of_row(smp, spoiled))
    boto3.client("dynamodb").update_item(
        TableName=FollowedQueue.Meta.table_name,
        Key={"queue_key": {"B": bytes(row.queue_key)}},
        UpdateExpression="REMOVE #attribute",
        ExpressionAttributeNames={"#attribute": attribute},
    )
    async with running(smp_settings()) as task:
        await becomes(smp, honest, "ACTIVE")
        assert task.counts[Metric.INTERNAL_ERRORS] > 0


async def test_a_key_that_cant_be_opened_costs_its_own_queue_alone(
    smp: SmpTestServer, running: Run, smp_settings: MakeSmpSettings
) -> None:
    honest, spoiled = add_queue(smp), add_queue(smp)
    row = FollowedQueue.get(key_of_row(smp, spoiled))
    row.notifier_key = bytes(60)
    row.save()
    async with running(smp_settings()):
        await becomes(smp, honest, "ACTIVE")
        await becomes(smp, spoiled, "ERR CRYPTO")


async def test_a_task_that_ends_leaves_in_good_order_and_the_next_one_misses_nothing(
    smp: SmpTestServer, running: Run, smp_settings: MakeSmpSettings, received: ReceivedQueue
) -> None:
    queue = add_queue(smp)
    sent: list[bytes] = []
    async with running(smp_settings()):
        await smp.subscribes(queue)
        sent += smp.notify(*[queue] * 100)
    assert PartLease.get(lease_of(smp, queue)).holder == FREE
    await smp.until(lambda: not smp.clients)
    sent += smp.notify(*[queue] * 100)
    async with running(smp_settings()):
        await forwards(received, sent)
    assert sorted(nonces(received)) == sorted(sent)
    assert not smp.ended
    assert status_of(smp, queue) == "ACTIVE"


def lease_of(server: SmpTestServer, notifier_id: bytes) -> str:
    return f"simplex/{int(FollowedQueue.get(key_of_row(server, notifier_id)).bucket)}"


def held(task: Task) -> frozenset[str]:
    """The buckets that it follows, by the names of their leases."""
    return frozenset(name for source in task.sources if isinstance(source, SmpServers) for name in source.leases.mine)


async def divide(*tasks: Task) -> None:
    """Wait until each bucket is one task's, and each task has some."""
    while not all(map(held, tasks)) or sum(len(held(task)) for task in tasks) != BUCKETS:
        await asyncio.sleep(0.02)


def held_of(task: Task, queues: Mapping[SmpTestServer, bytes]) -> set[str]:
    """Those of these queues."""
    return {lease_of(server, queue) for server, queue in queues.items()} & held(task)


async def test_two_tasks_share_the_servers_and_hand_over_during_traffic_without_a_loss_or_an_end(
    smp: SmpTestServer,
    more_smp: list[SmpTestServer],
    running: Run,
    smp_settings: MakeSmpSettings,
    received: ReceivedQueue,
) -> None:
    queues, sent, handed_over = {server: add_queue(server) for server in (smp, *more_smp)}, list[bytes](), False

    async def send_forever() -> None:
        while True:
            for server, queue in queues.items():
                sent.extend(server.notify(queue))
            # More would be more than a busy machine takes.
            await asyncio.sleep(0.1)

    async def subscribed() -> None:
        for server, queue in queues.items():
            await server.subscribes(queue)

    async with running(smp_settings()) as first:
        for server, queue in queues.items():
            await becomes(server, queue, "ACTIVE")
        sending = asyncio.create_task(send_forever())
        while not handed_over:  # a second task may be due none of these few
            async with running(smp_settings()) as second:
                await divide(first, second)
                await subscribed()
                handed_over = bool(held_of(second, queues))
            await divide(first)
            await subscribed()
        sending.cancel()
        await forwards(received, sent)
    assert len(nonces(received)) == len(sent), "each once"
    for server, queue in queues.items():
        assert not server.ended
        assert status_of(server, queue) == "ACTIVE"


async def test_an_end_that_another_task_has_caused_is_not_taken_for_the_agents(
    smp: SmpTestServer, running: Run, smp_settings: MakeSmpSettings
) -> None:
    """It took this one for dead, and the bucket with it."""
    queue = add_queue(smp)
    async with running(smp_settings()) as task:
        await becomes(smp, queue, "ACTIVE")
        name = lease_of(smp, queue)
        PartLease(name, holder="another", version=1).save()
        smp.take_away(queue)
        while name in held(task):
            await asyncio.sleep(0.02)
        # "another" is not at work, so this task has it again in the end.
        await smp.subscribes(queue)
        assert status_of(smp, queue) == "ACTIVE"
