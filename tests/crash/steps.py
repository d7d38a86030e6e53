"""An event loop that does one thing after the other, and whose time passes only by `pass_time`.

So whatever runs on it calls AWS in the same order every time, however busy the machine is. Sockets are waited for as on any
other loop.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from contextvars import Context
from itertools import count
from time import monotonic
from typing import override

import pytest

STEP = 1.01
"""Seconds: a little more than one, so that what is due in a second is due then."""
_INSTANT = 1e-9
_POLL_SECONDS = 0.002
"""By the clock on the wall."""


class SteppedLoop(asyncio.SelectorEventLoop):
    """`time` is in seconds from the loop's making."""

    def __init__(self) -> None:
        self._now = 0.0
        self._timers = count()
        super().__init__()

    @override
    def time(self) -> float:
        return self._now

    @override
    def call_at[*Arguments](
        self,
        when: float,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """What is due at the same time comes in the order in which it was asked for."""
        return super().call_at(when + next(self._timers) * _INSTANT, callback, *args, context=context)

    @override
    def run_in_executor[*Arguments, R](
        self, executor: Executor | None, func: Callable[[*Arguments], R], *args: *Arguments
    ) -> asyncio.Future[R]:
        """Calls it here and now: no thread is begun."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except BaseException as error:  # noqa: BLE001 - the caller's, as it would be from a thread
            future.set_exception(error)
        return future

    @contextmanager
    def stepped_clocks(self) -> Iterator[None]:
        """UNIX time, which goes on from now, and the monotonic clock pass by `pass_time` alone, too."""
        began_ns = time.time_ns()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(time, "monotonic", self.time)
            patch.setattr(time, "time_ns", lambda: began_ns + round(self._now * 1_000_000_000))
            yield

    async def pass_time(self, seconds: float) -> None:
        for _ in range(round(seconds)):
            self._now += STEP
            await self._finish_due()

    async def _finish_due(self) -> None:
        """Turn until whatever is due is done, and what follows from it at once: else it depended on how long sockets took."""
        await asyncio.sleep(0)
        while self._ready:  # type: ignore[attr-defined] # what is to be called in this turn and the next
            await asyncio.sleep(0)

    async def until(self, holds: Callable[[], bool], seconds: float = 60.0) -> None:
        """Wait for what comes by sockets while no time passes; `seconds` are by the clock on the wall."""
        deadline = monotonic() + seconds
        while not holds():
            assert monotonic() < deadline, "what was awaited did not come"
            time.sleep(_POLL_SECONDS)  # noqa: ASYNC251 - it leaves the processor to gRPC's threads
            await self._finish_due()
        await self._finish_due()
