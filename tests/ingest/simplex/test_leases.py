"""A task follows each of its buckets once, and lets go of none before all is taken in, whatever fails meanwhile."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import ClassVar

import pytest
from pynamodb.exceptions import PutError
from pynamodb.expressions.condition import Condition

from clarion.networks.simplex.queues import BUCKETS, NEWS
from clarion.tables import PartLease
from ingest.counts import Counts
from ingest.lease.parts import FREE, PartLeases
from ingest.sources.simplex.bucket import FollowedBucket
from ingest.sources.simplex.queues import WatchedQueue
from ingest.sources.simplex.rows import read_rows
from ingest.sources.simplex.server import ServerContext
from ingest.sources.simplex.source import SmpServers
from ingest.task import Task
from tests.ingest.conftest import ReceivedQueue, Run
from tests.ingest.simplex.conftest import MakeSmpSettings, add_queue, forwards
from tests.ingest.simplex.smp_server import SmpTestServer

pytestmark = pytest.mark.usefixtures("tables")

type Save = Callable[[str, str, Condition], bool]


@pytest.fixture
def save() -> Save:
    """As `PartLeases` writes a row."""
    return PartLeases._save


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """How often each bucket began to be followed."""
    counted = Counter[int]()

    def follow(number: int, *others: object) -> FollowedBucket:
        counted[number] += 1
        return FollowedBucket(number, *others)  # type: ignore[arg-type] # as given

    monkeypatch.setattr("ingest.sources.simplex.source.FollowedBucket", follow)
    return counted


def held(task: Task) -> frozenset[str]:
    return frozenset(name for source in task.sources if isinstance(source, SmpServers) for name in source.leases.mine)


async def hold_all(*tasks: Task) -> None:
    """Wait until each bucket is one task's, and each task has some."""
    while not all(map(held, tasks)) or sum(len(held(task)) for task in tasks) != BUCKETS:
        await asyncio.sleep(0.02)


async def test_a_lease_that_is_refused_leaves_no_other_acquired_twice(
    running: Run, smp_settings: MakeSmpSettings, begun: Counter[int], save: Save, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = False

    def refuse_one_and_hang(name: str, holder: str, condition: Condition) -> bool:
        nonlocal refused
        if name == "simplex/0" and not refused:
            refused = True
            raise PutError("throttled")
        if holder != FREE:
            time.sleep(0.6)
        return save(name, holder, condition)

    monkeypatch.setattr(PartLeases, "_save", staticmethod(refuse_one_and_hang))
    async with running(smp_settings()) as task:
        await hold_all(task)
        await asyncio.sleep(1)
    assert begun == dict.fromkeys(range(BUCKETS), 1)


async def test_a_lease_that_is_being_acquired_when_the_task_ends_is_released(
    running: Run, smp_settings: MakeSmpSettings, save: Save, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its thread can't be stopped."""
    acquiring = asyncio.Event()
    loop = asyncio.get_running_loop()

    def save_late(name: str, holder: str, condition: Condition) -> bool:
        if holder != FREE:
            loop.call_soon_threadsafe(acquiring.set)
            time.sleep(0.3)
        return save(name, holder, condition)

    monkeypatch.setattr(PartLeases, "_save", staticmethod(save_late))
    async with running(smp_settings()):
        await acquiring.wait()
    await asyncio.sleep(1)
    assert {row.holder for row in PartLease.scan() if row.holder is not None} <= {FREE}


async def test_a_bucket_whose_lease_was_not_released_is_released_later(
    running: Run, smp_settings: MakeSmpSettings, save: Save, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise nobody would follow it: another task takes no lease of one that is at work."""
    failing, refused = False, set[str]()

    def refuse_once(name: str, holder: str, condition: Condition) -> bool:
        if failing and holder == FREE and name not in refused:
            refused.add(name)
            raise PutError("throttled")
        return save(name, holder, condition)

    monkeypatch.setattr(PartLeases, "_save", staticmethod(refuse_once))
    async with running(smp_settings()) as first:
        await hold_all(first)
        failing = True
        async with running(smp_settings()) as second:
            await hold_all(first, second)
    assert refused


async def test_after_a_bug_all_is_followed_again(
    smp: SmpTestServer,
    running: Run,
    smp_settings: MakeSmpSettings,
    received: ReceivedQueue,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ingest.sources.FAILED_SECONDS", 1.0)
    fails = False

    async def read_or_fail(bucket: int, counts: Counts, since: int = 0) -> AsyncIterator[WatchedQueue]:
        nonlocal fails
        if bucket == NEWS and fails:
            fails = False
            raise ZeroDivisionError
        async for queue in read_rows(bucket, counts, since):
            yield queue

    monkeypatch.setattr("ingest.sources.simplex.news.read_rows", read_or_fail)
    queue = add_queue(smp)
    async with running(smp_settings()) as task:
        await smp.subscribes(queue)
        fails = True
        while fails:
            await asyncio.sleep(0.02)
        smp.subscribed.clear()
        await smp.subscribes(queue)
        await forwards(received, smp.notify(queue))
        await hold_all(task)
    assert {row.holder for row in PartLease.scan() if row.holder is not None} == {FREE}


class SlowBucket:
    """Takes a moment to take in what its servers have sent."""

    counted: ClassVar = Counter[str]()
    servers = ()
    fresh, without_room = True, 0

    def __init__(self, number: int, _context: ServerContext, *_: object) -> None:
        self._number = number

    async def follow(self) -> None:
        SlowBucket.counted["followed"] += 1
        try:
            await asyncio.Event().wait()
        finally:
            SlowBucket.counted["leaving"] += 1
            await asyncio.sleep(0.5)
            SlowBucket.counted["left"] += 1


async def test_a_task_that_ends_waits_for_buckets_that_it_is_handing_over(
    running: Run, smp_settings: MakeSmpSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    SlowBucket.counted.clear()
    monkeypatch.setattr("ingest.sources.simplex.source.FollowedBucket", SlowBucket)
    async with running(smp_settings()):
        while SlowBucket.counted["followed"] < BUCKETS:
            await asyncio.sleep(0.01)
        monkeypatch.setattr(PartLeases, "surplus", lambda leases: iter(leases.mine))
        while not SlowBucket.counted["leaving"]:
            await asyncio.sleep(0.01)
    assert SlowBucket.counted == dict.fromkeys(("followed", "leaving", "left"), BUCKETS)
