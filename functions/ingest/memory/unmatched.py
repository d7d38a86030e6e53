"""Envelopes that no rule wanted when they came, kept until the filter knows every rule from before they came."""

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ingest.filter.fingerprints import Fingerprint

_OVERHEAD_BYTES = 480


class Arrival(NamedTuple):
    """A new envelope. `keys` are what the filter is asked for, `source` is the number of the one that showed it first.

    `replayed_since` is as in the envelope's message.

    A tuple, as one is made of nearly each envelope seen.
    """

    observed_at: int
    fingerprint: Fingerprint
    keys: Sequence[Fingerprint]
    network: str
    raw: bytes
    source: int
    replayed_since: int | None = None

    @property
    def held_size(self) -> int:
        """Bytes that it takes up, roughly."""
        return len(self.raw) + _OVERHEAD_BYTES


class UnmatchedBuffer:
    """In the order of arrival from each source, and bounded in bytes, which are divided among the sources.

    So a source can push out only what it showed itself.
    """

    def __init__(self, capacity: int, sources: int = 1) -> None:
        self._share = capacity // sources
        self._held: defaultdict[int, OrderedDict[Fingerprint, Arrival]] = defaultdict(OrderedDict)
        self._bytes: Counter[int] = Counter()

    def __len__(self) -> int:
        return sum(map(len, self._held.values()))

    @property
    def oldest(self) -> int | None:
        """When the oldest envelope here was observed."""
        first_of_each = (next(iter(held.values())) for held in self._held.values() if held)
        return min((arrival.observed_at for arrival in first_of_each), default=None)

    def add(self, arrival: Arrival) -> None:
        """Hold it, unless it is held already: what was not remembered may be shown again."""
        held = self._held[arrival.source]
        if arrival.fingerprint not in held:
            held[arrival.fingerprint] = arrival
            self._bytes[arrival.source] += arrival.held_size

    def shown_by(self, source: int) -> Sequence[Arrival]:
        """What is held of `source` now."""
        return tuple(self._held[source].values())

    def remove(self, arrival: Arrival) -> bool:
        """Take it out; whether it was still here."""
        if self._held[arrival.source].pop(arrival.fingerprint, None) is None:
            return False
        self._bytes[arrival.source] -= arrival.held_size
        return True

    def due(self, source: int, observed_by: int) -> Iterator[Arrival]:
        """Take out what `source` showed until then."""
        held = self._held[source]
        while held and next(iter(held.values())).observed_at <= observed_by:
            yield self._take(source)

    def take_overflow(self, source: int) -> Arrival | None:
        """Take out one that the share of `source` has no space for: it can't be known in time whether a rule wants it."""
        return self._take(source) if self._bytes[source] > self._share else None

    def _take(self, source: int) -> Arrival:
        _, arrival = self._held[source].popitem(last=False)
        self._bytes[source] -= arrival.held_size
        return arrival
