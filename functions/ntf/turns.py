"""Whose turn it is, when a task has more to do than it can: addresses share it evenly, however much each asks for.

Each address has its turns one after another on a scale of costs, where one begins as far after the one before as that has
cost, and never before what is being done. Whoever waits at the lowest place is next: an address that has had much of late
lies ahead of the others, and waits first. It is start-time fair queueing: https://dl.acm.org/doi/10.1145/248157.248171
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from weakref import WeakKeyDictionary

from ntf.bounds import Pace, Peer


@dataclass(slots=True, order=True)
class _Waiting:
    place: float
    number: int
    cost: int = field(compare=False)
    turn: asyncio.Future[None] = field(compare=False)


class Turns:
    """At most `at_once`, at a `pace` of costs. Of one event loop."""

    def __init__(self, at_once: int, pace: Pace) -> None:
        self._free = at_once
        self._pace = pace
        self._place = 0.0
        """Of the turn that has begun last."""
        self._next: WeakKeyDictionary[Peer, float] = WeakKeyDictionary()
        """The place of a peer's next turn."""
        self._numbers = count()
        self._waiting: list[_Waiting] = []
        self._timer: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @asynccontextmanager
    async def turn(self, peer: Peer, cost: int) -> AsyncIterator[None]:
        """Waits for it."""
        await self._begin(peer, cost)
        try:
            yield
        finally:
            self._end()

    async def _begin(self, peer: Peer, cost: int) -> None:
        place = max(self._place, self._next.get(peer, 0.0))
        self._next[peer] = place + cost
        turn = asyncio.get_running_loop().create_future()
        heappush(self._waiting, _Waiting(place, next(self._numbers), cost, turn))
        self._grant()
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # it had begun
                self._end()
            raise

    def _end(self) -> None:
        self._free += 1
        self._grant()

    def _grant(self) -> None:
        """A turn to each that waits, as far as there are free ones and the pace allows."""
        now = asyncio.get_running_loop().time()
        while self._waiting and self._free:
            if wait := self._pace.until(now):
                self._grant_later(wait)
                return
            first = heappop(self._waiting)
            if not first.turn.done():
                self._free -= 1
                self._place = first.place
                self._pace.spend(now, first.cost)
                first.turn.set_result(None)

    def _grant_later(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        self._grant()
