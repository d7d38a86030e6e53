"""Which SMP servers have a connection: a task bears only so many, and whoever has a phone can name fifty servers.

    unproven ──in turn──▶ tried ──a subscription accepted──▶ proven ──▶ has a place until another needs it more
        ▲                   │
        └─ a minute is over ┘

Servers that don't answer, or accept nothing, take turns in places of their own, apart from those of the proven servers.
Most of the proven servers' places go to those where most tokens have queues: the one with fewest makes way for one with
more. The others go to those that have waited longest, for `STAY_SECONDS` at least, so that each is reached at times.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Protocol

MOST_PROVEN, MOST_IN_TURN, MOST_UNPROVEN = 500, 100, 150
"""Connections of a task, of some 85 KB each. Those in turn are of the proven."""
TURN_SECONDS = 60.0
"""Of an unproven server that is connected, to accept a subscription."""
STAY_SECONDS = 600.0
LOOK_SECONDS = 1.0


class Claimant(Protocol):
    @property
    def tokens(self) -> int:
        """How many have queues there."""

    def give_way(self) -> None:
        """Another needs its place: it is to give it back soon."""


class WaitingPlaces:
    """So many may go on at a time; the others wait, first come, first served."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._holders: dict[Claimant, float] = {}
        """Each with the time since when."""
        self._waiting: dict[Claimant, asyncio.Future[None]] = {}

    def __len__(self) -> int:
        return len(self._holders)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    async def take(self, claimant: Claimant) -> None:
        granted = self._waiting[claimant] = asyncio.get_running_loop().create_future()
        self._grant()
        try:
            await granted
        except asyncio.CancelledError:
            self._waiting.pop(claimant, None)
            self.give_back(claimant)
            raise

    def give_back(self, claimant: Claimant) -> None:
        """Nothing happens if it has none."""
        self._holders.pop(claimant, None)
        self._grant()

    def _grant(self) -> None:
        while self._waiting and len(self._holders) < self._most:
            claimant = self._next()
            self._holders[claimant] = self._clock()
            self._waiting.pop(claimant).set_result(None)

    def _next(self) -> Claimant:
        return next(iter(self._waiting))


class ProvenPlaces(WaitingPlaces):
    """`in_turn` of the places are for those that have waited longest, the others for those with most tokens."""

    def __init__(self, most: int, in_turn: int, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(most, clock)
        self._most_in_turn = in_turn
        self._in_turn, self._leaving = set[Claimant](), set[Claimant]()

    def give_back(self, claimant: Claimant) -> None:
        self._in_turn.discard(claimant)
        self._leaving.discard(claimant)
        super().give_back(claimant)

    def make_way(self) -> None:
        """Have those give way whose places others need more. To be called now and then."""
        ends = self._clock() - STAY_SECONDS
        self._in_turn = {holder for holder in self._in_turn if self._holders[holder] > ends}
        if not self._waiting:
            return
        staying = (holder for holder in self._holders if holder not in self._leaving | self._in_turn)
        weakest = iter(sorted(staying, key=lambda holder: (holder.tokens, self._holders[holder])))
        turns = min(self._most_in_turn - len(self._in_turn), len(self._waiting)) - len(self._leaving)
        self._ask_to_leave(islice(weakest, max(0, turns)))
        strongest = sorted(self._waiting, key=lambda one: -one.tokens)[len(self._leaving) :]
        pairs = zip(strongest, weakest, strict=False)
        self._ask_to_leave(holder for claimant, holder in pairs if claimant.tokens > holder.tokens)

    def _ask_to_leave(self, holders: Iterable[Claimant]) -> None:
        for holder in tuple(holders):
            self._leaving.add(holder)
            holder.give_way()

    def _next(self) -> Claimant:
        if len(self._in_turn) == self._most_in_turn:
            return max(self._waiting, key=lambda one: one.tokens)
        first = super()._next()
        self._in_turn.add(first)
        return first


class Places:
    """Of one task."""

    def __init__(self, proven: int = MOST_PROVEN, in_turn: int = MOST_IN_TURN, unproven: int = MOST_UNPROVEN) -> None:
        self.proven = ProvenPlaces(proven, in_turn)
        self.unproven = WaitingPlaces(unproven)

    async def make_way_forever(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.proven.make_way()
