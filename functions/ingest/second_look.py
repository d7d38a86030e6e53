"""Statements that no rule wanted when they came, kept until the filter knows every rule from before they came."""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ingest.fingerprints import Fingerprint

_OVERHEAD_BYTES = 320


class Unmatched(NamedTuple):
    """`pairs` are what the filter was asked for, `node` is the number of the node that showed it first.

    `replayed_since` is as in the statement's message.

    A tuple, as one is made of nearly each statement seen.
    """

    observed_at: int
    fingerprint: Fingerprint
    pairs: list[Fingerprint]
    statement: bytes
    node: int
    replayed_since: int | None = None

    @property
    def held_size(self) -> int:
        """Bytes that it takes up, roughly."""
        return len(self.statement) + _OVERHEAD_BYTES


class SecondLook:
    """In the order of arrival at each node, and bounded in bytes.

    The node that holds most has to give way, so that none can push out what another one showed.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._waiting: defaultdict[int, deque[Unmatched]] = defaultdict(deque)
        self._held_by: Counter[int] = Counter()
        self._held_bytes = 0

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    @property
    def oldest(self) -> int | None:
        """When the oldest statement here was observed."""
        return min((waiting[0].observed_at for waiting in self._waiting.values() if waiting), default=None)

    def add(self, unmatched: Unmatched) -> None:
        self._waiting[unmatched.node].append(unmatched)
        self._count(unmatched, unmatched.held_size)

    def wanted(self, wants: Callable[[Unmatched], bool]) -> list[Unmatched]:
        """Take out what is wanted by now."""
        taken = [unmatched for waiting in self._waiting.values() for unmatched in waiting if wants(unmatched)]
        for node in {unmatched.node for unmatched in taken}:
            self._waiting[node] = deque(unmatched for unmatched in self._waiting[node] if not wants(unmatched))
        for unmatched in taken:
            self._count(unmatched, -unmatched.held_size)
        return taken

    def due(self, observed_by: int) -> Iterator[Unmatched]:
        """Take out what was observed until then."""
        for node, waiting in self._waiting.items():
            while waiting and waiting[0].observed_at <= observed_by:
                yield self._take(node)

    def overflow(self) -> Iterator[Unmatched]:
        """Take out what there is no room for: it can't be known in time whether a rule wants it."""
        while self._held_bytes > self._capacity:
            ((node, _),) = self._held_by.most_common(1)
            yield self._take(node)

    def _take(self, node: int) -> Unmatched:
        unmatched = self._waiting[node].popleft()
        self._count(unmatched, -unmatched.held_size)
        return unmatched

    def _count(self, unmatched: Unmatched, size: int) -> None:
        self._held_bytes += size
        self._held_by[unmatched.node] += size
