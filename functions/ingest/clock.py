"""The wall clock, in the unit of messages and tables; and turns on the event loop."""

import asyncio
import time

_TURN_SECONDS = 0.005


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Turn:
    """So long may one task keep the event loop before it yields to the others."""

    def __init__(self) -> None:
        self._ends = 0.0

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._ends

    async def give_way(self) -> None:
        """Let the others have their turn, then begin the next one."""
        await asyncio.sleep(0)
        self._ends = time.monotonic() + _TURN_SECONDS
