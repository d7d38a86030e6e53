"""Statements that no rule wanted when they came, kept until the filter knows every rule from before they came."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ingest.fingerprints import Fingerprint

_OVERHEAD_BYTES = 320


class Unmatched(NamedTuple):
    """`pairs` are what the filter was asked for; `replayed_since` is as in the statement's message.

    A tuple, as one is made of nearly each statement seen.
    """

    observed_at: int
    fingerprint: Fingerprint
    pairs: list[Fingerprint]
    statement: bytes
    replayed_since: int | None = None

    @property
    def held_size(self) -> int:
        """Bytes that it takes up, roughly."""
        return len(self.statement) + _OVERHEAD_BYTES


class SecondLook:
    """In the order of arrival, bounded in bytes."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._waiting: deque[Unmatched] = deque()
        self._held_bytes = 0

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def oldest(self) -> int | None:
        """When the oldest statement here was observed."""
        return self._waiting[0].observed_at if self._waiting else None

    def add(self, unmatched: Unmatched) -> None:
        self._waiting.append(unmatched)
        self._held_bytes += unmatched.held_size

    def wanted(self, wants: Callable[[Unmatched], bool]) -> list[Unmatched]:
        """Take out what is wanted by now."""
        taken = [unmatched for unmatched in self._waiting if wants(unmatched)]
        if taken:
            self._waiting = deque(unmatched for unmatched in self._waiting if not wants(unmatched))
            self._held_bytes -= sum(unmatched.held_size for unmatched in taken)
        return taken

    def due(self, observed_by: int) -> Iterator[Unmatched]:
        """Take out what was observed until then."""
        while self._waiting and self._waiting[0].observed_at <= observed_by:
            yield self._take()

    def overflow(self) -> Iterator[Unmatched]:
        """Take out what there is no room for: it can't be known in time whether a rule wants it."""
        while self._held_bytes > self._capacity:
            yield self._take()

    def _take(self) -> Unmatched:
        unmatched = self._waiting.popleft()
        self._held_bytes -= unmatched.held_size
        return unmatched
