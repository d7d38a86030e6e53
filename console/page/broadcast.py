"""Server-sent events for all who look at the page. While nobody does, nothing is read.

    reading ──▶ Broadcast ──┬─▶ viewer's backlog ──▶ its stream
                  │ kept    └─▶ …
                  └──────────▶ who enters, or has fallen behind

https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from console.faults import AwsError, explained

BACKLOG_BYTES = 4_000_000
"""Of messages that wait for one viewer. One that is further behind skips them, and begins anew with what is kept."""
_MESSAGE_OVERHEAD = 100
"""Bytes that Python takes for a message beside its text."""
FAULT = "fault"
"""The event with the name of a reading's own and why it failed, in `words`: empty once it no longer does."""
SKIPPED = "skipped"
"""The event for a viewer that fell behind, with how many `messages` it did not get."""


@dataclass(frozen=True)
class Reading:
    """What is looked at every so many `seconds`: the event's data, or None for no news.

    Who comes later begins with what `snapshot` returns, which runs in a thread, one event each; without it, with the
    last `kept` events. Where one is kept, another like it is no news.
    """

    event: str
    seconds: float
    read: Callable[[], Awaitable[Any]]
    kept: int = 1
    snapshot: Callable[[], Sequence[Any]] | None = None


class Broadcast:
    def __init__(self, readings: Sequence[Reading], backlog_bytes: int = BACKLOG_BYTES) -> None:
        self._backlog_bytes = backlog_bytes
        self._repeated = [_Repeated(reading) for reading in readings]
        self._viewers: set[_Backlog] = set()
        self._deserted = asyncio.Event()

    @property
    def viewers(self) -> int:
        """Those that keep up."""
        return len(self._viewers)

    @property
    def reads(self) -> bool:
        """Whether anything is read."""
        return any(one.task and not one.task.done() for one in self._repeated)

    async def messages(self) -> AsyncGenerator[str]:
        """All that one viewer gets, beginning with what is kept. While it is behind it counts as one that has left."""
        backlog, missed = _Backlog(self._backlog_bytes), 0
        try:
            while True:
                backlog.begin()
                self._enter(backlog)
                # Before anything else runs: what is published from now on is in the backlog.
                kept = [one.begin_with() for one in self._repeated]
                if missed:
                    yield sse(SKIPPED, {"messages": missed})
                for some in kept:
                    for first in await some():
                        yield first
                while (message := await backlog.next()) is not None:
                    yield message
                missed += backlog.missed
        finally:
            self._leave(backlog)

    def _enter(self, backlog: "_Backlog") -> None:
        self._viewers.add(backlog)
        self._deserted.clear()
        for one in self._repeated:
            if one.task is None or one.task.done():
                one.task = asyncio.create_task(self._repeat(one))

    def _leave(self, backlog: "_Backlog") -> None:
        self._viewers.discard(backlog)
        if not self._viewers:
            self._deserted.set()

    async def _repeat(self, one: "_Repeated") -> None:
        """Until nobody looks. What is being read then is read to its end: it may be read once only, as a file is."""
        while self._viewers:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._deserted.wait(), one.seconds_left())
            if self._viewers and not one.seconds_left():
                for message in await one.read():
                    self._publish(message)

    def _publish(self, message: str) -> None:
        for backlog in list(self._viewers):
            if not backlog.put(message):
                self._leave(backlog)


class _Repeated:
    """A reading, with when it was read and what is kept of it."""

    def __init__(self, reading: Reading) -> None:
        self.task: asyncio.Task[None] | None = None
        self._reading = reading
        self._kept = deque[str](maxlen=reading.kept)
        self._fault = ""
        self._due = 0.0

    def seconds_left(self) -> float:
        """Until it is read again: who comes and goes costs no more than who stays."""
        return max(0.0, self._due - asyncio.get_running_loop().time())

    def begin_with(self) -> Callable[[], Awaitable[list[str]]]:
        """What is kept now; or of a snapshot, what it is once it is asked for."""
        kept = list(self._kept)
        fault = [self._fault_message()] if self._fault else []

        async def messages() -> list[str]:
            return [*(await asyncio.to_thread(self._snapshot) if self._reading.snapshot else kept), *fault]

        return messages

    async def read(self) -> list[str]:
        try:
            return list(self._news(await self._reading.read(), ""))
        except AwsError as error:
            return list(self._news(None, explained(error)))
        except Exception as error:  # noqa: BLE001 - whatever it is, the page says so, and it is read again
            # Its text may hold what is nobody's business.
            return list(
                self._news(None, f"What is shown as {self._reading.event} cannot be read: {type(error).__name__}.")
            )
        finally:
            self._due = asyncio.get_running_loop().time() + self._reading.seconds

    def _news(self, data: Any, fault: str) -> Iterator[str]:
        message = sse(self._reading.event, data) if data is not None else None
        if fault != self._fault:
            self._fault = fault
            yield self._fault_message()
        if message and not (self._reading.kept == 1 and message in self._kept):
            self._kept.append(message)
            yield message

    def _snapshot(self) -> list[str]:
        assert self._reading.snapshot  # noqa: S101 - it is asked for only then
        return [sse(self._reading.event, data) for data in self._reading.snapshot()]

    def _fault_message(self) -> str:
        return sse(FAULT, {"event": self._reading.event, "words": self._fault})


class _Backlog:
    """The messages that wait for one viewer; none any more once they would be too many."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.begin()

    def begin(self) -> None:
        self.missed = 0
        self._size = 0
        self._messages = deque[str]()
        self._news = asyncio.Event()

    def put(self, message: str) -> bool:
        """Return whether it is kept: from the first that is not, all are missed."""
        self._news.set()
        self._size += len(message) + _MESSAGE_OVERHEAD
        if self._size > self._most:
            self.missed = len(self._messages) + 1
            self._messages.clear()
            return False
        self._messages.append(message)
        return True

    async def next(self) -> str | None:
        """None once some were missed."""
        while not self._messages:
            if self.missed:
                return None
            self._news.clear()
            await self._news.wait()
        message = self._messages.popleft()
        self._size -= len(message) + _MESSAGE_OVERHEAD
        return message


def sse(event: str, data: Any) -> str:
    """JSON in one line, so that no content can end the event or begin another."""
    return f"event: {event}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n"
