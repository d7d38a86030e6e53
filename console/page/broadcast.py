"""Server-sent events for all who look at the page. While nobody does, nothing is read.

https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from console.faults import AwsError, explained

_BACKLOG = 1_000
"""Messages that one viewer may be behind: who is slower is disconnected, and starts anew."""
FAULT = "fault"
"""The event with the name of a reading's own and why AWS refused it, in `words`: empty once it no longer does."""


@dataclass(frozen=True)
class Reading:
    """What is looked at every so many `seconds`: the event's data, or None for no news.

    Of its events, as many as `kept` are sent to who comes later.
    """

    event: str
    seconds: float
    read: Callable[[], Awaitable[Any]]
    kept: int = 1


class Broadcast:
    def __init__(self, readings: Sequence[Reading]) -> None:
        self._readings = readings
        self._kept = {one.event: deque[str](maxlen=one.kept) for one in readings}
        self._kept[FAULT] = deque(maxlen=len(readings))
        self._viewers: set[asyncio.Queue[str | None]] = set()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def viewers(self) -> int:
        return len(self._viewers)

    @property
    def reads(self) -> bool:
        """Whether anything is read."""
        return bool(self._tasks)

    async def messages(self) -> AsyncGenerator[str]:
        """All that one viewer gets, beginning with what is kept. Ends for a viewer that is too slow."""
        queue = asyncio.Queue[str | None](_BACKLOG)
        kept = [message for messages in self._kept.values() for message in messages]
        self._enter(queue)
        try:
            for earlier in kept:
                yield earlier
            while (message := await queue.get()) is not None:
                yield message
        finally:
            self._leave(queue)

    def _enter(self, queue: asyncio.Queue[str | None]) -> None:
        self._viewers.add(queue)
        if not self._tasks:
            self._tasks = [asyncio.create_task(self._repeat(reading)) for reading in self._readings]

    def _leave(self, queue: asyncio.Queue[str | None]) -> None:
        self._viewers.discard(queue)
        if not self._viewers:
            for task in self._tasks:
                task.cancel()
            self._tasks = []

    async def _repeat(self, reading: Reading) -> None:
        before = ""
        while True:
            try:
                data, fault = await reading.read(), ""
            except AwsError as error:
                data, fault = None, explained(error)
            if fault != before:
                self._publish(FAULT, {"event": reading.event, "words": fault})
            if data is not None:
                self._publish(reading.event, data)
            before = fault
            await asyncio.sleep(reading.seconds)

    def _publish(self, event: str, data: Any) -> None:
        message = sse(event, data)
        self._kept[event].append(message)
        for queue in list(self._viewers):
            try:
                queue.put_nowait(message)
            except asyncio.QueueFull:
                _end(queue)
                self._viewers.discard(queue)


def sse(event: str, data: Any) -> str:
    """JSON in one line, so that no content can end the event or begin another."""
    return f"event: {event}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n"


def _end(queue: asyncio.Queue[str | None]) -> None:
    with suppress(asyncio.QueueEmpty):
        while True:
            queue.get_nowait()
    queue.put_nowait(None)
