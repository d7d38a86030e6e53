"""Statements that no rule wanted when they came, kept until the filter knows every rule from before they came."""

from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ingest.fingerprints import Fingerprint

_OVERHEAD_BYTES = 320


class Unmatched(NamedTuple):
    """`pairs` are what the filter was asked for, `node` the number of the node that showed it first.

    A tuple, as one is made of nearly each statement seen.
    """

    observed_at: int
    fingerprint: Fingerprint
    pairs: list[Fingerprint]
    statement: bytes
    node: int

    @property
    def held_size(self) -> int:
        """Bytes that it takes up, roughly."""
        return len(self.statement) + _OVERHEAD_BYTES


class _Queue:
    """What one node showed first, in the order of arrival."""

    def __init__(self) -> None:
        self.waiting: deque[Unmatched] = deque()
        self.held_bytes = 0

    def add(self, unmatched: Unmatched) -> None:
        self.waiting.append(unmatched)
        self.held_bytes += unmatched.held_size

    def take(self) -> Unmatched:
        unmatched = self.waiting.popleft()
        self.held_bytes -= unmatched.held_size
        return unmatched

    def take_wanted(self, wants: Callable[[Unmatched], bool]) -> list[Unmatched]:
        taken = [unmatched for unmatched in self.waiting if wants(unmatched)]
        if taken:
            self.waiting = deque(unmatched for unmatched in self.waiting if not wants(unmatched))
            self.held_bytes -= sum(unmatched.held_size for unmatched in taken)
        return taken


class SecondLook:
    """Bounded in bytes. Who holds most has to give way, so that no node can push out what another one showed."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._queues: defaultdict[int, _Queue] = defaultdict(_Queue)

    def __len__(self) -> int:
        return sum(len(queue.waiting) for queue in self._queues.values())

    @property
    def oldest(self) -> int | None:
        """When the oldest statement here was observed."""
        heads = (queue.waiting[0].observed_at for queue in self._queues.values() if queue.waiting)
        return min(heads, default=None)

    def add(self, unmatched: Unmatched) -> None:
        self._queues[unmatched.node].add(unmatched)

    def wanted(self, wants: Callable[[Unmatched], bool]) -> list[Unmatched]:
        """Take out what is wanted by now."""
        return [unmatched for queue in self._queues.values() for unmatched in queue.take_wanted(wants)]

    def due(self, observed_by: int) -> Iterator[Unmatched]:
        """Take out what was observed until then."""
        for queue in self._queues.values():
            while queue.waiting and queue.waiting[0].observed_at <= observed_by:
                yield queue.take()

    def overflow(self) -> Iterator[Unmatched]:
        """Take out what there is no room for: it can't be known in time whether a rule wants it."""
        while sum(queue.held_bytes for queue in self._queues.values()) > self._capacity:
            yield max(self._queues.values(), key=lambda queue: queue.held_bytes).take()
