"""How fast a server is read: so fast that all of its queues can reach their limit, and no faster.

The rest waits in its socket, which costs us nothing; each message that is read costs a part of a request. A new connection
brings no more.
"""

import asyncio
import time
from collections.abc import Callable

_BASE = 5.0
_EACH_QUEUE = 1.0
"""Twice what the network's limit lets through of one sender, in the long run."""
_BURST, _BURST_SECONDS = 1_000, 20.0
"""At once: so many, and what its queues may have in so long. It may have kept them for us."""


class ReadingPace:
    """`queues` is how many there are of it just now. Rates are transmissions in a second."""

    def __init__(self, queues: Callable[[], int], clock: Callable[[], float] = time.monotonic) -> None:
        self._queues = queues
        self._clock = clock
        self._spent = 0.0
        self._at = clock()

    async def spend(self, count: int) -> None:
        """Count them, and wait as long as they are too many."""
        if wait := self.excess(count):
            await asyncio.sleep(wait)

    def excess(self, count: int) -> float:
        """Count them; for how many seconds nothing more is to be read."""
        of_queues = _EACH_QUEUE * self._queues()
        rate, burst = _BASE + of_queues, _BURST + _BURST_SECONDS * of_queues
        now = self._clock()
        self._spent = max(0.0, self._spent - (now - self._at) * rate) + count
        self._at = now
        return max(0.0, (self._spent - burst) / rate)
