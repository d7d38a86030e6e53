import asyncio
import json
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError, NoCredentialsError

from console.page.broadcast import SKIPPED, Broadcast, Reading, sse
from tests.page.listening import PATIENCE_S

QUICK_S = 0.005
NEVER_S = 3600


class Counter:
    """Counts how often it was read; `fault`, while there is one, is raised."""

    def __init__(self) -> None:
        self.reads = 0
        self.fault: Exception | None = None

    async def read(self) -> int:
        self.reads += 1
        if self.fault:
            raise self.fault
        return self.reads


def viewer(broadcast: Broadcast) -> aclosing[AsyncGenerator[str]]:
    return aclosing(broadcast.messages())


def data_of(message: str) -> Any:
    event, data, *_ = message.split("\n")
    return event.removeprefix("event: "), json.loads(data.removeprefix("data: "))


async def test_nothing_is_read_before_somebody_looks_and_after_the_last_has_left() -> None:
    counter = Counter()
    broadcast = Broadcast([Reading("count", QUICK_S, counter.read)])
    await asyncio.sleep(10 * QUICK_S)
    assert counter.reads == 0

    async with viewer(broadcast) as one, viewer(broadcast) as other:
        assert data_of(await anext(one)) == ("count", 1)
        await anext(other)
    await asyncio.sleep(0)
    read = counter.reads
    await asyncio.sleep(10 * QUICK_S)
    assert (counter.reads, broadcast.reads) == (read, False)


async def test_ten_viewers_cost_one_reading() -> None:
    counter = Counter()
    broadcast = Broadcast([Reading("count", NEVER_S, counter.read)])
    viewers = [broadcast.messages() for _ in range(10)]
    first = await asyncio.gather(*(anext(one) for one in viewers))
    assert {data_of(message) for message in first} == {("count", 1)}
    assert counter.reads == 1
    for one in viewers:
        await one.aclose()


async def test_who_comes_later_begins_with_what_is_kept() -> None:
    counter = Counter()
    broadcast = Broadcast([Reading("count", QUICK_S, counter.read, kept=2)])
    async with viewer(broadcast) as early:
        for _ in range(3):
            await anext(early)
        async with viewer(broadcast) as late:
            assert [data_of(await anext(late))[1] for _ in range(2)] == [2, 3]


async def test_what_is_published_while_a_viewer_enters_comes_once() -> None:
    """Its items are put together in a thread meanwhile."""
    counter = Counter()

    def snapshot() -> list[str]:
        time.sleep(20 * QUICK_S)
        return ["an item"]

    quick = Reading("count", QUICK_S, counter.read, kept=1_000)
    slow = Reading("items", NEVER_S, Counter().read, snapshot=snapshot)
    async with viewer(Broadcast([slow, quick])) as one:
        events = [data_of(await anext(one)) for _ in range(60)]
    counts = [data for event, data in events if event == "count"]
    assert counts == list(range(1, len(counts) + 1))


async def test_no_news_is_no_event() -> None:
    async def nothing() -> None:
        return None

    broadcast = Broadcast([Reading("nothing", QUICK_S, nothing), Reading("count", 10 * QUICK_S, Counter().read)])
    async with viewer(broadcast) as one:
        assert [data_of(await anext(one))[0] for _ in range(3)] == ["count"] * 3


async def test_why_aws_refuses_is_said_once_and_taken_back() -> None:
    counter = Counter()
    counter.fault = NoCredentialsError()
    broadcast = Broadcast([Reading("count", QUICK_S, counter.read)])
    async with viewer(broadcast) as one:
        event, data = data_of(await anext(one))
        assert (event, data["event"]) == ("fault", "count")
        assert "no AWS credentials" in data["words"]
        while counter.reads < 3:
            await asyncio.sleep(QUICK_S)
        counter.fault = None
        assert data_of(await anext(one)) == ("fault", {"event": "count", "words": ""})
        assert data_of(await anext(one))[0] == "count"


@pytest.mark.parametrize(
    ("url", "host"),
    [("https://lake.example:444/?prefix=day%3D2026&start-after=key", "lake.example:444"), (None, "AWS")],
)
async def test_an_address_that_does_not_answer_is_named_by_its_host_alone(url: str | None, host: str) -> None:
    """The SDK names none for what stalls within an answer."""
    counter = Counter()
    counter.fault = EndpointConnectionError(endpoint_url=url)  # type: ignore[arg-type] # the stubs know no None
    async with viewer(Broadcast([Reading("count", QUICK_S, counter.read)])) as one:
        _, data = data_of(await anext(one))
    assert data["words"] == f"{host} does not answer (EndpointConnectionError)"


async def test_a_viewer_that_falls_behind_skips_what_it_missed_and_is_told_so() -> None:
    counter = Counter()
    broadcast = Broadcast([Reading("count", 0, counter.read)], backlog_bytes=2_000)
    async with asyncio.timeout(PATIENCE_S), viewer(broadcast) as slow:
        await anext(slow)
        while broadcast.viewers:
            await asyncio.sleep(QUICK_S)
        event, data = data_of(await anext(slow))
        newest = counter.reads
        assert event == SKIPPED
        assert 1 < data["messages"] < 2_000 / len("event: count")
        assert data_of(await anext(slow)) == ("count", newest)
        assert broadcast.reads


async def test_nothing_is_read_for_those_who_have_fallen_behind() -> None:
    counter = Counter()
    broadcast = Broadcast([Reading("count", 0, counter.read)], backlog_bytes=2_000)
    async with asyncio.timeout(PATIENCE_S), viewer(broadcast) as slow:
        await anext(slow)
        while broadcast.reads:
            await asyncio.sleep(QUICK_S)
        before = counter.reads
        await asyncio.sleep(10 * QUICK_S)
        assert counter.reads == before
        await anext(slow)
        while counter.reads == before:
            await asyncio.sleep(QUICK_S)


async def test_one_who_is_slow_delays_nobody() -> None:
    broadcast = Broadcast([Reading("count", 0, Counter().read)], backlog_bytes=5_000)
    async with asyncio.timeout(PATIENCE_S), viewer(broadcast) as slow, viewer(broadcast) as quick:
        await anext(slow)
        counts = [data_of(await anext(quick)) for _ in range(500)]
        assert [count for event, count in counts if event == "count"] == list(range(counts[0][1], counts[0][1] + 500))
        assert broadcast.viewers == 1


async def test_a_reading_that_fails_unexpectedly_is_said_and_goes_on() -> None:
    counter = Counter()
    counter.fault = KeyError("some secret")
    broadcast = Broadcast([Reading("count", QUICK_S, counter.read)])
    async with asyncio.timeout(PATIENCE_S), viewer(broadcast) as one:
        event, data = data_of(await anext(one))
        assert (event, data["event"]) == ("fault", "count")
        assert "KeyError" in data["words"]
        assert "secret" not in data["words"]
        counter.fault = None
        assert data_of(await anext(one)) == ("fault", {"event": "count", "words": ""})
        assert data_of(await anext(one))[0] == "count"


async def test_data_that_is_no_json_is_a_fault_too() -> None:
    async def odd() -> object:
        return object()

    async with viewer(Broadcast([Reading("odd", NEVER_S, odd)])) as one:
        assert data_of(await anext(one))[0] == "fault"


async def test_who_comes_during_a_fault_is_told_of_it() -> None:
    counter = Counter()
    counter.fault = NoCredentialsError()
    broadcast = Broadcast([Reading("count", NEVER_S, counter.read)])
    async with viewer(broadcast) as early:
        await anext(early)
        async with viewer(broadcast) as late:
            assert data_of(await anext(late))[0] == "fault"


async def test_what_was_being_read_when_all_left_is_kept_for_who_comes_next() -> None:
    reading, release = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        reading.set()
        await release.wait()
        return "read once"

    broadcast = Broadcast([Reading("file", NEVER_S, slow)])
    async with asyncio.timeout(PATIENCE_S):
        leaving = asyncio.create_task(anext(broadcast.messages()))
        await reading.wait()
        leaving.cancel()
        await asyncio.wait([leaving])
        assert broadcast.viewers == 0
        async with viewer(broadcast) as next_one:
            release.set()
            assert data_of(await anext(next_one)) == ("file", "read once")


async def test_who_comes_and_goes_costs_no_more_than_who_stays() -> None:
    counter = Counter()
    broadcast = Broadcast([Reading("count", NEVER_S, counter.read)])
    async with asyncio.timeout(PATIENCE_S):
        for _ in range(10):
            async with viewer(broadcast) as one:
                assert data_of(await anext(one)) == ("count", 1)
            while broadcast.reads:
                await asyncio.sleep(0)
    assert counter.reads == 1


async def test_the_same_again_is_no_news() -> None:
    reads = 0

    async def same() -> str:
        nonlocal reads
        reads += 1
        return "as it was" if reads < 5 else "changed"

    async with asyncio.timeout(PATIENCE_S), viewer(Broadcast([Reading("same", QUICK_S, same)])) as one:
        assert [data_of(await anext(one))[1] for _ in range(2)] == ["as it was", "changed"]


async def test_who_comes_later_begins_with_the_snapshot_where_there_is_one() -> None:
    reading = Reading("items", NEVER_S, Counter().read, snapshot=lambda: [["a", "b"], ["c"]])
    async with viewer(Broadcast([reading])) as one:
        assert [data_of(await anext(one))[1] for _ in range(3)] == [["a", "b"], ["c"], 1]


@pytest.mark.parametrize("hostile", ["\n\nevent: about\ndata: {}", "\r", "\u2028", "</script>"])
def test_no_content_ends_its_event_or_begins_another(hostile: str) -> None:
    message = sse("items", [hostile])
    assert message.count("\n") == 3
    assert "\r" not in message
    assert data_of(message) == ("items", [hostile])
