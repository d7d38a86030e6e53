"""How much a node may show in a time.

within its budget ──▶ taken at once
beyond it ──────────▶ not read until it is within: HTTP/2 lets the node wait
beyond it for long ─▶ exceeded: the node is left, unless it is the only one that is connected
"""

import asyncio
import time

_SAVED_SECONDS = 10.0
"""For so long what is not used is kept: all nodes show a burst of the network's at once."""
_LEAST_BYTES = 2048
"""What each message counts at least, for the smallest costs as much time as this."""
_SHORTEST_PAUSE = 0.01
_PATIENCE_SECONDS = 60.0


class ByteBudget:
    def __init__(self, bytes_per_second: int) -> None:
        self._rate = bytes_per_second
        self._spent_until = float("-inf")
        """The `time.monotonic` by which it has earned what it has spent."""
        self._over_since: float | None = None

    @property
    def is_exceeded(self) -> bool:
        """Whether what was spent has been beyond it for long."""
        return self._over_since is not None and time.monotonic() - self._over_since > _PATIENCE_SECONDS

    async def spend(self, size: int) -> None:
        """Wait until a message of so many bytes is within the budget."""
        now = time.monotonic()
        earned_since = max(self._spent_until, now - _SAVED_SECONDS)
        self._spent_until = earned_since + max(size, _LEAST_BYTES) / self._rate
        if self._spent_until <= now:
            self._over_since = None
            return
        self._over_since = self._over_since or now
        if self._spent_until - now > _SHORTEST_PAUSE:
            await asyncio.sleep(self._spent_until - now)
