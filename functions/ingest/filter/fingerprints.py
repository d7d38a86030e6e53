"""A set of 64-bit fingerprints that takes 9 bytes a slot, where a `set` of ints takes 60 and more an element.

Open addressing with linear probing over an `array`, in 256 segments: each grows, is swept and is copied by itself, in
some ten milliseconds, so that a set of millions never stops the event loop. At 50 to 70 % full, ten million take
130 to 190 MB.
"""

from array import array
from collections.abc import Collection, Iterator, Sequence

SEGMENTS = 256
_FIRST_SLOTS = 64
_MOST_FULL = 0.7
_GROWTH = 1.5
OWNERS = 64
_ROUND_BITS = 0b11
_NETWORK_SHIFT = 56
_FORGET_NONE = bytes(256)
"""Rounds are 1 and 2."""

type Fingerprint = int
"""Signed, and never 0."""


NETWORKS = range(256)
"""All numbers that networks may have."""


def of_envelope(envelope_id: bytes, network: bytes) -> Fingerprint:
    """The head of its id, which is a hash, and on top its network's number, a byte; the same in every process.

    So no id that somebody chooses in one network can hide an envelope of another. Of one network's envelopes, among ten
    million that are seen one in seven billion is taken for another.
    """
    return int.from_bytes(envelope_id[:7] + network, "little", signed=True) or 1


def of_key(key: bytes) -> Fingerprint:
    """Python's SipHash, whose key is this process's secret: nobody can make the keys of rules or envelopes collide."""
    return hash(key) or 1


class Fingerprints:
    """Each is marked with its owner, and with the round in which it was last shown, so that a round's end can forget the rest.

    Each network has rounds of its own.
    """

    def __init__(self) -> None:
        self._slots = [_blank(_FIRST_SLOTS) for _ in range(SEGMENTS)]
        self._marks = [bytearray(_FIRST_SLOTS) for _ in range(SEGMENTS)]
        self._used = [0] * SEGMENTS
        self._rounds = bytearray([1]) * len(NETWORKS)
        """By the number on top of a fingerprint, shifted down with its sign: -1 stands for 255, as an index does."""
        self.owned = [0] * OWNERS
        """How many fingerprints each owner has."""
        self.of_network = [0] * len(NETWORKS)
        """How many fingerprints each network has, by its number as `_rounds`."""

    def __len__(self) -> int:
        return sum(self._used)

    def __contains__(self, fingerprint: Fingerprint) -> bool:
        slots = self._slots[fingerprint % SEGMENTS]
        size = len(slots)
        index = (fingerprint >> 8) % size
        while (found := slots[index]) != fingerprint:
            if not found:
                return False
            index += 1
            if index == size:
                index = 0
        return True

    def refresh(self, fingerprint: Fingerprint) -> bool:
        """Mark `fingerprint` with this round if it is known; whether it is."""
        segment = fingerprint % SEGMENTS
        slots = self._slots[segment]
        size = len(slots)
        index = (fingerprint >> 8) % size
        while (found := slots[index]) != fingerprint:
            if not found:
                return False
            index += 1
            if index == size:
                index = 0
        marks = self._marks[segment]
        marks[index] = marks[index] & ~_ROUND_BITS | self._rounds[fingerprint >> _NETWORK_SHIFT]
        return True

    def insert(self, fingerprint: Fingerprint, owner: int = 0) -> None:
        """Add what is not known yet; `owner` is below `OWNERS`."""
        segment = fingerprint % SEGMENTS
        slots = self._slots[segment]
        size = len(slots)
        index = (fingerprint >> 8) % size
        while slots[index]:
            index = (index + 1) % size
        slots[index] = fingerprint
        self._marks[segment][index] = owner << 2 | self._rounds[fingerprint >> _NETWORK_SHIFT]
        self.owned[owner] += 1
        self.of_network[fingerprint >> _NETWORK_SHIFT] += 1
        self._used[segment] += 1
        if self._used[segment] > _MOST_FULL * size:
            self._rebuild(segment, int(size * _GROWTH), _FORGET_NONE)

    def add(self, fingerprint: Fingerprint) -> bool:
        """Mark `fingerprint` with this round; whether it is new."""
        if self.refresh(fingerprint):
            return False
        self.insert(fingerprint)
        return True

    def begin_round(self, networks: Collection[int] = NETWORKS) -> None:
        """What of `networks` is not added again from now on is forgotten by the next `sweep` of them."""
        for number in networks:
            self._rounds[number] = 3 - self._rounds[number]

    def sweep(self, networks: Collection[int] = NETWORKS) -> Iterator[int]:
        """Forget what of `networks` was not added in their round, a segment at each step, which yields how many that were."""
        forget = bytearray(_FORGET_NONE)
        for number in networks:
            forget[number] = 3 - self._rounds[number]
        for segment in range(SEGMENTS):
            yield self._rebuild(segment, _FIRST_SLOTS, forget)

    def segments(self) -> Iterator[list[Fingerprint]]:
        """All fingerprints, a segment at a time; what is added meanwhile may be among them or not."""
        for slots in self._slots:
            yield [fingerprint for fingerprint in slots if fingerprint]

    def _rebuild(self, segment: int, least: int, forget: Sequence[int]) -> int:
        """Move one segment's fingerprints to `least` slots or more, but for those with the mark in `forget`; how many those are.

        `forget` has one mark for each network's number.
        """
        kept = []
        for fingerprint, mark in zip(self._slots[segment], self._marks[segment], strict=True):
            if not fingerprint:
                continue
            if mark & _ROUND_BITS == forget[fingerprint >> _NETWORK_SHIFT]:
                self.owned[mark >> 2] -= 1
                self.of_network[fingerprint >> _NETWORK_SHIFT] -= 1
            else:
                kept.append((fingerprint, mark))
        size = max(least, int(len(kept) / _MOST_FULL * _GROWTH))
        slots, marks = _blank(size), bytearray(size)
        for fingerprint, mark in kept:
            index = (fingerprint >> 8) % size
            while slots[index]:
                index = (index + 1) % size
            slots[index] = fingerprint
            marks[index] = mark
        forgotten = self._used[segment] - len(kept)
        self._slots[segment], self._marks[segment], self._used[segment] = slots, marks, len(kept)
        return forgotten


def _blank(size: int) -> "array[int]":
    return array("q", bytes(8 * size))
