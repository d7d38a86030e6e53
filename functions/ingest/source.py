"""A node as the intake knows it: what it has shown so far, and its turn on the event loop."""

import asyncio
import time

from ingest.protocol import NodeFault

_TURN_SECONDS = 0.005
_TOLERATED = 100
"""Malformed statements, below which no node is judged by their share."""
_TOLERATED_SHARE = 0.1
"""Nodes decode what they pass on. A later version of theirs may know fields that we don't, so some are tolerated."""


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


class Source:
    """`number` is from 1 on."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.turn = Turn()
        self._shown = self._malformed = 0

    def reset(self) -> None:
        """Forget what was counted: a new subscription begins."""
        self._shown = self._malformed = 0

    def count(self) -> None:
        """Count one statement that it shows."""
        self._shown += 1

    def count_malformed(self, count: int) -> None:
        """Hold so many against it. Raise `NodeFault` if too much is malformed."""
        self._malformed += count
        if self._malformed > max(_TOLERATED, self._shown * _TOLERATED_SHARE):
            raise NodeFault("too much of what it shows is no statement")
