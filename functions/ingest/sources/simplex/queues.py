"""The queues of one SMP server that this task follows.

added ──▶ waiting ──▶ asked for ──OK──▶ subscribed ──END, DELD, or another token's──▶ dropped
             ▲                              │
             └────────── connection lost ◀──┘
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from clarion.networks.simplex.addresses import SmpQueue


@dataclass(slots=True, eq=False)
class WatchedQueue:
    """A row, as it was read: `sealed_key` is what its notifier signs by. `status` is the one that the row has by now.

    `changed_at` is the row's, in UNIX milliseconds: an agent that asks for the queue anew raises it.
    """

    key: bytes = field(repr=False)
    queue: SmpQueue = field(repr=False)
    sealed_key: bytes = field(repr=False)
    token_id: str = field(repr=False)
    status: str
    changed_at: int

    @property
    def notifier_id(self) -> bytes:
        return self.queue.notifier_id


class ServerQueues:
    def __init__(self) -> None:
        self._all: dict[bytes, WatchedQueue] = {}
        """By notifier id."""
        self._waiting: OrderedDict[bytes, WatchedQueue] = OrderedDict()
        self._any_waiting = asyncio.Event()

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[WatchedQueue]:
        return iter(tuple(self._all.values()))

    def get(self, notifier_id: bytes) -> WatchedQueue | None:
        return self._all.get(notifier_id)

    def add(self, queue: WatchedQueue) -> None:
        """To be subscribed to, in place of an earlier row of the same queue."""
        self._all[queue.notifier_id] = queue
        self._wait([queue])

    def drop(self, queue: WatchedQueue) -> None:
        """Unless another row has taken its place."""
        if self._all.get(queue.notifier_id) is queue:
            del self._all[queue.notifier_id]
            self._waiting.pop(queue.notifier_id, None)

    def subscribe_anew(self) -> None:
        """A connection begins, in which nothing is subscribed to."""
        self._waiting.clear()
        self._wait(self._all.values())

    async def take_waiting(self, most: int) -> list[WatchedQueue]:
        """At least one, as soon as there is one."""
        while not self._waiting:
            self._any_waiting.clear()
            await self._any_waiting.wait()
        return [self._waiting.popitem(last=False)[1] for _ in range(min(most, len(self._waiting)))]

    def _wait(self, queues: Iterable[WatchedQueue]) -> None:
        self._waiting.update((queue.notifier_id, queue) for queue in queues)
        if self._waiting:
            self._any_waiting.set()
