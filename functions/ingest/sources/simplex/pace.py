"""How fast a server is read: so fast that all of its queues can reach their limit, and no faster.

The rest waits in its socket, which costs us nothing; each message that is read costs a part of a request.
"""

import asyncio
import time
from collections.abc import Callable

_BASE = 50.0
_EACH_QUEUE = 1.0
"""Twice what the network's limit lets through of one sender, in the long run."""
_BURST_SECONDS = 20.0


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
        rate = _BASE + _EACH_QUEUE * self._queues()
        now = self._clock()
        self._spent = max(0.0, self._spent - (now - self._at) * rate) + count
        self._at = now
        return max(0.0, self._spent / rate - _BURST_SECONDS)
