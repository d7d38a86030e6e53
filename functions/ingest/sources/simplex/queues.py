"""The queues of one SMP server that this task follows.

added ──▶ waiting ──▶ asked for ──OK──▶ subscribed ──END, DELD, or another token's──▶ dropped
             ▲                              │
             └────────── connection lost ◀──┘
"""

import asyncio
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from clarion.networks.simplex.addresses import SmpQueue, SmpServer
from ingest.sources.simplex.pace import ReadingPace


@dataclass(slots=True, eq=False)
class WatchedQueue:
    """A row, as it was read: `sealed_key` is what its notifier signs by. `status` is the one that the row has by now.

    `changed_at` is the row's, in UNIX milliseconds: an agent that asks for the queue anew raises it. All queues of a
    server share `server`.
    """

    key: bytes = field(repr=False)
    server: SmpServer = field(repr=False)
    notifier_id: bytes = field(repr=False)
    sealed_key: bytes = field(repr=False)
    token_id: str = field(repr=False)
    status: str
    changed_at: int

    @property
    def address(self) -> SmpQueue:
        return SmpQueue(self.server, self.notifier_id)


class ServerQueues:
    def __init__(self) -> None:
        self.pace = ReadingPace(lambda: len(self))
        """Of all sessions with their server."""
        self._all: dict[bytes, WatchedQueue] = {}
        """By notifier id."""
        self._of_tokens = Counter[str]()
        self._waiting = deque[WatchedQueue]()
        self._any_waiting = asyncio.Event()
        self._connected = False

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[WatchedQueue]:
        return iter(tuple(self._all.values()))

    @property
    def tokens(self) -> int:
        """How many have queues here."""
        return len(self._of_tokens)

    def get(self, notifier_id: bytes) -> WatchedQueue | None:
        return self._all.get(notifier_id)

    def add(self, queue: WatchedQueue) -> None:
        """To be subscribed to, in place of an earlier row of the same queue."""
        if before := self._all.get(queue.notifier_id):
            self.drop(before)
        self._all[queue.notifier_id] = queue
        self._of_tokens[queue.token_id] += 1
        if self._connected:
            self._wait([queue])

    def drop(self, queue: WatchedQueue) -> None:
        """Unless another row has taken its place."""
        if self._all.get(queue.notifier_id) is queue:
            del self._all[queue.notifier_id]
            self._of_tokens[queue.token_id] -= 1
            if not self._of_tokens[queue.token_id]:
                del self._of_tokens[queue.token_id]

    def begin(self) -> None:
        """A connection begins, in which nothing is subscribed to."""
        self._connected = True
        self._waiting.clear()
        self._wait(self._all.values())

    def end(self) -> None:
        """It is over: what is added waits for no more than the next one."""
        self._connected = False
        self._waiting.clear()

    async def take_waiting(self, most: int) -> list[WatchedQueue]:
        """At least one, as soon as there is one."""
        while not (taken := self._take(most)):
            self._any_waiting.clear()
            await self._any_waiting.wait()
        return taken

    def _take(self, most: int) -> list[WatchedQueue]:
        taken: list[WatchedQueue] = []
        while self._waiting and len(taken) < most:
            queue = self._waiting.popleft()
            if self._all.get(queue.notifier_id) is queue:  # it may have been dropped
                taken.append(queue)
        return taken

    def _wait(self, queues: Iterable[WatchedQueue]) -> None:
        self._waiting.extend(queues)
        self._any_waiting.set()
