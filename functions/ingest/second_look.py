"""Statements that no rule wanted when they came, kept until the filter knows every rule from before they came."""

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ingest.fingerprints import Fingerprint

_OVERHEAD_BYTES = 480


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
    """In the order of arrival at each node, and bounded in bytes, which are divided among the nodes.

    So a node can push out only what it showed itself.
    """

    def __init__(self, capacity: int, nodes: int = 1) -> None:
        self._share = capacity // nodes
        self._held: defaultdict[int, OrderedDict[Fingerprint, Unmatched]] = defaultdict(OrderedDict)
        self._bytes: Counter[int] = Counter()

    def __len__(self) -> int:
        return sum(map(len, self._held.values()))

    @property
    def oldest(self) -> int | None:
        """When the oldest statement here was observed."""
        first_of_each = (next(iter(held.values())) for held in self._held.values() if held)
        return min((unmatched.observed_at for unmatched in first_of_each), default=None)

    def add(self, unmatched: Unmatched) -> None:
        self._held[unmatched.node][unmatched.fingerprint] = unmatched
        self._bytes[unmatched.node] += unmatched.held_size

    def shown_by(self, node: int) -> Sequence[Unmatched]:
        """What is held of `node` now."""
        return tuple(self._held[node].values())

    def remove(self, unmatched: Unmatched) -> bool:
        """Take it out; whether it was still here."""
        if self._held[unmatched.node].pop(unmatched.fingerprint, None) is None:
            return False
        self._bytes[unmatched.node] -= unmatched.held_size
        return True

    def due(self, node: int, observed_by: int) -> Iterator[Unmatched]:
        """Take out what `node` showed until then."""
        held = self._held[node]
        while held and next(iter(held.values())).observed_at <= observed_by:
            yield self._take(node)

    def overflow(self, node: int) -> Iterator[Unmatched]:
        """Take out what the share of `node` has no space for: it can't be known in time whether a rule wants it."""
        while self._bytes[node] > self._share:
            yield self._take(node)

    def _take(self, node: int) -> Unmatched:
        _, unmatched = self._held[node].popitem(last=False)
        self._bytes[node] -= unmatched.held_size
        return unmatched
