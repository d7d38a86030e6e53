"""Whose turn it is, when there is more to do than a pace allows: all share it evenly, however much each asks for.

A task has turns for its addresses, and each address for its sessions.

Each has its turns one after another on a scale of costs, where one begins no sooner than what is being done ends, and ends
as far after its beginning as it costs. Whoever's turn ends first is next; of several, the one that has had none for longest.
So one that has had much of late waits, and one that asks for little goes ahead of those that ask for much at once. It is
self-clocked fair queueing: https://doi.org/10.1109/INFCOM.1994.337677
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from weakref import WeakKeyDictionary

from ntf.pace import Pace


@dataclass(slots=True, order=True)
class _Waiting:
    ends: float
    before: float
    """Where the turn before ended of whoever waits."""
    number: int
    cost: int = field(compare=False)
    turn: asyncio.Future[None] = field(compare=False)


class Turns[Who]:
    """At most `at_once`, at a `pace` of costs. Of one event loop."""

    def __init__(self, at_once: int, pace: Pace) -> None:
        self._free = at_once
        self._pace = pace
        self._place = 0.0
        """Where the turn ends that has begun last."""
        self._ends: WeakKeyDictionary[Who, float] = WeakKeyDictionary()
        """Of everybody's last turn."""
        self._numbers = count()
        self._waiting: list[_Waiting] = []
        self._timer: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @asynccontextmanager
    async def turn(self, who: Who, cost: int, *, within: float | None = None) -> AsyncIterator[None]:
        """Waits for it. Raises `TimeoutError` if it has not begun `within` so many seconds."""
        async with asyncio.timeout(within):
            await self._begin(who, cost)
        try:
            yield
        finally:
            self._end()

    async def _begin(self, who: Who, cost: int) -> None:
        before = self._ends.get(who, 0.0)
        ends = self._ends[who] = max(self._place, before) + cost
        turn = asyncio.get_running_loop().create_future()
        heappush(self._waiting, _Waiting(ends, before, next(self._numbers), cost, turn))
        self._grant()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._grant()
            else:  # it had begun
                self._end()
            raise

    def _end(self) -> None:
        self._free += 1
        self._grant()

    def _grant(self) -> None:
        """A turn to each that waits, as far as there are free ones and the pace allows."""
        now = asyncio.get_running_loop().time()
        while self._free and (first := self._first()):
            if wait := self._pace.until(now, min(first.cost, self._pace.burst)):
                self._grant_later(wait)
                return
            heappop(self._waiting)
            self._free -= 1
            self._place = first.ends
            self._pace.spend(now, first.cost)
            first.turn.set_result(None)

    def _first(self) -> _Waiting | None:
        """Of those that have not given up."""
        while self._waiting and self._waiting[0].turn.done():
            heappop(self._waiting)
        return self._waiting[0] if self._waiting else None

    def _grant_later(self, seconds: float) -> None:
        """Who is first by now may have less to wait for than who was."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        self._grant()
