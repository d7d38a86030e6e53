"""What agents subscribe to is subscribed to soon, and an idle task asks for little."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from clarion.networks.simplex.queues import BUCKETS, ENDED, NEWS, FollowedQueue, bucket_of, queue_of, queues_since
from ingest.sources.simplex import news
from tests.ingest.conftest import Run
from tests.ingest.simplex.conftest import MakeSmpSettings, add_queue, becomes, encoded, key_of_row
from tests.ingest.simplex.smp_server import SmpTestServer
from tests.stalls import Stalls

pytestmark = pytest.mark.usefixtures("tables")

SUBSCRIPTIONS = 40
MOST_SECONDS = 2.0
POLL_SECONDS = news.POLL_SECONDS
"""As it is deployed: the fixtures have others."""


def bucket_in_table(server: SmpTestServer, queue: bytes) -> int:
    return int(FollowedQueue.get(key_of_row(server, queue)).bucket)


async def test_a_new_queue_is_subscribed_to_within_two_seconds(
    smp: SmpTestServer,
    more_smp: list[SmpTestServer],
    running: Run,
    smp_settings: MakeSmpSettings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(news, "POLL_SECONDS", POLL_SECONDS)
    servers, delays = [smp, *more_smp], list[float]()
    dice = random.Random(22)

    async def subscribe(server: SmpTestServer) -> None:
        await asyncio.sleep(dice.uniform(0, 8))
        queue = await asyncio.to_thread(add_queue, server)
        added = time.monotonic()
        await server.subscribes(queue)
        delays.append(time.monotonic() - added)

    async with running(smp_settings()) as task:
        while not task.is_ready:
            await asyncio.sleep(0.02)
        async with Stalls.watched() as stalls:
            await asyncio.gather(*(subscribe(servers[number % 4]) for number in range(SUBSCRIPTIONS)))
    print(f"SNEW to NSUB: {max(delays):.2f} s at most, stalled for {stalls.largest:.2f} s")  # noqa: T201 - the measure
    assert max(delays) < MOST_SECONDS + 5 * stalls.largest


@pytest.fixture
def queries(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """How often each bucket was asked for."""
    asked = Counter[int]()

    def count(bucket: int, since: int = 0) -> Iterator[FollowedQueue]:
        asked[bucket] += 1
        return queues_since(bucket, since)

    monkeypatch.setattr("ingest.sources.simplex.rows.queues_since", count)
    return asked


async def test_an_idle_task_asks_for_what_is_new_and_has_ended_alone(
    smp: SmpTestServer, running: Run, smp_settings: MakeSmpSettings, queries: Counter[int]
) -> None:
    async with running(smp_settings()):
        while queries[NEWS] < 30 or queries[ENDED] < 5:
            await asyncio.sleep(0.02)
        assert {bucket: queries[bucket] for bucket in range(BUCKETS)} == dict.fromkeys(range(BUCKETS), 1)
        queue = add_queue(smp)
        await smp.subscribes(queue)
    assert sum(queries[bucket] for bucket in range(BUCKETS)) == BUCKETS


async def test_a_queue_is_news_until_its_status_is_written(
    smp: SmpTestServer, running: Run, smp_settings: MakeSmpSettings
) -> None:
    queue = add_queue(smp)
    assert bucket_in_table(smp, queue) == NEWS
    async with running(smp_settings()):
        await becomes(smp, queue, "ACTIVE")
    assert bucket_in_table(smp, queue) == bucket_of(queue_of(encoded(smp, queue)).server)


async def test_what_its_server_does_not_answer_is_pending_after_a_minute_and_no_news(
    smp: SmpTestServer, running: Run, smp_settings: MakeSmpSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingest.sources.simplex.server.AWAY_SECONDS", 0.2)
    await smp.stop()
    first = add_queue(smp)
    async with running(smp_settings()):
        await becomes(smp, first, "PENDING")
        later = add_queue(smp)
        await becomes(smp, later, "PENDING")
        assert bucket_in_table(smp, later) == bucket_of(queue_of(encoded(smp, later)).server)
        await smp.start()
        for queue in (first, later):
            await becomes(smp, queue, "ACTIVE")


async def test_a_task_that_begins_follows_what_is_news_still(
    smp: SmpTestServer, running: Run, smp_settings: MakeSmpSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long ago it was new: nobody was there."""
    monkeypatch.setattr("tests.ingest.simplex.conftest.now_ms", lambda: 1_000)
    queue = add_queue(smp)
    async with running(smp_settings()):
        await becomes(smp, queue, "ACTIVE")
