"""Turns on the event loop, for tasks that compute for long."""

import asyncio
import time

_TURN_SECONDS = 0.005


class Turn:
    """So long may one task keep the event loop before it yields to the others."""

    def __init__(self) -> None:
        self._ends = 0.0

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._ends

    async def give_way(self) -> None:
        """Yield to the other tasks, then begin the next turn."""
        await asyncio.sleep(0)
        self._ends = time.monotonic() + _TURN_SECONDS
