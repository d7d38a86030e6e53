"""Whoever has a phone may name fifty SMP servers of its own: what is theirs takes nothing that others need."""

import asyncio
from functools import partial

import pytest

from clarion.clock import now_ms
from clarion.metrics import Metric
from clarion.networks.simplex.queues import ENDED, FollowedQueue
from ingest.sources.simplex.places import Places
from ingest.sources.simplex.room import QUEUE_BYTES, SERVER_BYTES, Room
from ingest.task import Task
from tests.ingest.conftest import ReceivedQueue, Run
from tests.ingest.simplex.conftest import MakeSmpSettings, add_queue, becomes, forwards, key_of_row, status_of
from tests.ingest.simplex.smp_server import SmpTestServer

pytestmark = pytest.mark.usefixtures("tables")


@pytest.fixture
def two_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingest.sources.simplex.source.Places", partial(Places, 2, 1, 1))
    monkeypatch.setattr("ingest.sources.simplex.places.LOOK_SECONDS", 0.05)
    monkeypatch.setattr("ingest.sources.simplex.server.TURN_SECONDS", 0.5)


@pytest.mark.usefixtures("two_places")
async def test_servers_that_shake_hands_and_accept_nothing_hold_up_no_other(
    smp: SmpTestServer, more_smp: list[SmpTestServer], running: Run, smp_settings: MakeSmpSettings
) -> None:
    for stranger in more_smp:
        stranger.mute = True
        add_queue(stranger)
    async with running(smp_settings()):
        await more_smp[0].until(lambda: more_smp[0].clients)
        queue = add_queue(smp)
        await smp.subscribes(queue)
        await becomes(smp, queue, "ACTIVE")
        for stranger in more_smp:
            await stranger.connects(2)
        assert smp.connections == 1


@pytest.mark.usefixtures("two_places")
async def test_servers_of_one_stranger_make_way_for_one_that_two_have_and_it_stays(
    smp: SmpTestServer,
    more_smp: list[SmpTestServer],
    running: Run,
    smp_settings: MakeSmpSettings,
    received: ReceivedQueue,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ingest.sources.simplex.places.STAY_SECONDS", 0.3)
    theirs = [add_queue(stranger, token="5" * 48) for stranger in more_smp]
    async with running(smp_settings()):
        for server, queue in zip(more_smp, theirs, strict=True):
            await becomes(server, queue, "ACTIVE")
        ours = [add_queue(smp, token=token * 48) for token in "ab"]
        await forwards(received, smp.notify(*ours))
        # They go on taking turns with the place that is left.
        for _ in range(2):
            for server in more_smp:
                await server.connects(server.connections + 1)
        assert len(smp.clients) == 1
        assert smp.connections <= 2, "at first it may have waited for its place longer than a turn"
        await forwards(received, smp.notify(*ours))
        assert not smp.ended


@pytest.mark.usefixtures("two_places")
async def test_of_servers_of_one_token_each_has_its_time(
    more_smp: list[SmpTestServer],
    running: Run,
    smp_settings: MakeSmpSettings,
    received: ReceivedQueue,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ingest.sources.simplex.places.STAY_SECONDS", 0.5)
    queues = [add_queue(server) for server in more_smp]
    sent = [nonce for server, queue in zip(more_smp, queues, strict=True) for nonce in server.notify(queue)]
    async with running(smp_settings()):
        await forwards(received, sent)
        for server in more_smp:
            await server.connects(server.connections + 1)


async def test_a_server_whose_queues_have_all_ended_is_left(
    smp: SmpTestServer, running: Run, smp_settings: MakeSmpSettings
) -> None:
    refused, deleted = add_queue(smp), add_queue(smp)
    smp.queues[refused].refusal = b"QUOTA"
    async with running(smp_settings()):
        await becomes(smp, deleted, "ACTIVE")
        smp.delete(deleted)
        await becomes(smp, deleted, "DELETED")
        await smp.until(lambda: not smp.clients)
        again = add_queue(smp)
        await smp.subscribes(again)


async def test_who_adds_and_removes_a_queue_again_and_again_has_us_connect_once(
    smp: SmpTestServer, running: Run, smp_settings: MakeSmpSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingest.sources.simplex.bucket.EMPTY_SECONDS", 30.0)
    async with running(smp_settings()):
        for _ in range(5):
            queue = add_queue(smp)
            await becomes(smp, queue, "ACTIVE")
            smp.delete(queue)
            await becomes(smp, queue, "DELETED")
    assert smp.connections == 1


@pytest.mark.parametrize("reading_seconds", [0.2, 3600.0])
async def test_queues_beyond_the_room_are_counted_and_followed_when_there_is_room(
    reading_seconds: float,
    smp: SmpTestServer,
    running: Run,
    smp_settings: MakeSmpSettings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whether they are read again, or are news still."""
    room = Room(SERVER_BYTES + 3 * QUEUE_BYTES)
    monkeypatch.setattr("ingest.sources.simplex.source.Room", lambda: room)
    monkeypatch.setattr("ingest.sources.simplex.bucket.SECOND_READING_SECONDS", reading_seconds)
    monkeypatch.setattr("ingest.sources.simplex.bucket.READING_SECONDS", reading_seconds)
    queues = [add_queue(smp) for _ in range(5)]
    async with running(smp_settings()) as task:
        await gauge_becomes(task, Metric.SMP_QUEUES_BEYOND, 2)
        await smp.until(lambda: sum(smp.queues[queue].subscriber is not None for queue in queues) == 3)
        followed = [queue for queue in queues if smp.queues[queue].subscriber]
        for queue in followed:
            await becomes(smp, queue, "ACTIVE")
        beyond = [queue for queue in queues if queue not in followed]
        assert [status_of(smp, queue) for queue in beyond] == ["NEW"] * len(beyond)
        for queue in followed[:2]:
            row = FollowedQueue.get(key_of_row(smp, queue))
            row.bucket, row.changed_at = ENDED, now_ms()
            row.save()
        for queue in beyond:
            await becomes(smp, queue, "ACTIVE")
        await gauge_becomes(task, Metric.SMP_QUEUES_BEYOND, 0)
    assert room.take(SERVER_BYTES + 3 * QUEUE_BYTES), "all was given back"


@pytest.mark.parametrize(("status", "alarming"), [("ACTIVE", 1), ("NEW", 0)])
async def test_that_none_of_several_servers_is_reached_is_measured_if_they_have_been_there(
    status: str,
    alarming: int,
    smp: SmpTestServer,
    more_smp: list[SmpTestServer],
    running: Run,
    smp_settings: MakeSmpSettings,
) -> None:
    for server in more_smp:
        add_queue(server, status=status)
        await server.stop()
    async with running(smp_settings()) as task:
        await gauge_becomes(task, Metric.SMP_SERVERS_UNREACHED, 3)
        assert task.gauges()[Metric.SMP_NONE_REACHED] == alarming
        add_queue(smp)
        await gauge_becomes(task, Metric.SMP_SERVERS_REACHED, 1)
        assert task.gauges()[Metric.SMP_NONE_REACHED] == 0
        assert task.gauges()[Metric.SMP_SERVERS_UNREACHED] == 3


async def gauge_becomes(task: Task, metric: Metric, value: int) -> None:
    while task.gauges().get(metric) != value:
        await asyncio.sleep(0.02)
