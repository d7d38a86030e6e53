import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest
from botocore.exceptions import NoCredentialsError

from console.page.broadcast import Broadcast, Reading, sse

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


async def test_a_viewer_that_is_too_slow_is_disconnected() -> None:
    broadcast = Broadcast([Reading("count", 0, Counter().read)])
    async with asyncio.timeout(60):
        async with viewer(broadcast) as slow:
            await anext(slow)
            while broadcast.viewers:
                await asyncio.sleep(0.01)
            assert [message async for message in slow] == []


@pytest.mark.parametrize("hostile", ["\n\nevent: about\ndata: {}", "\r", "\u2028", "</script>"])
def test_no_content_ends_its_event_or_begins_another(hostile: str) -> None:
    message = sse("items", [hostile])
    assert message.count("\n") == 3
    assert "\r" not in message
    assert data_of(message) == ("items", [hostile])
