"""How much memory a task has for the queues that it follows, and their servers. What it has no room for is not followed.

The sizes are measured, by `make bench-simplex-source`.
"""

MOST_BYTES = 64 * 1024 * 1024
QUEUE_BYTES, SERVER_BYTES = 600, 8_192
"""Of one in memory, at most: a queue of a token of its own; a server without a connection."""


class Room:
    def __init__(self, most: int = MOST_BYTES) -> None:
        self._most = most
        self._taken = 0

    def take(self, size: int) -> bool:
        """Whether there is as much."""
        if has_room := self._taken + size <= self._most:
            self._taken += size
        return has_room

    def give_back(self, size: int) -> None:
        self._taken -= size
