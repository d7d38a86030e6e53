"""A set of 64-bit fingerprints that takes 9 bytes a slot, where a `set` of ints takes 60 and more an element.

Open addressing with linear probing over an `array`, in 256 segments: each grows, is swept and is copied by itself, in
some ten milliseconds, so that a set of millions never stops the event loop. At 50 to 70 % full, ten million take
130 to 190 MB.
"""

from array import array
from collections.abc import Iterator

SEGMENTS = 256
_FIRST_SLOTS = 64
_MOST_FULL = 0.7
_GROWTH = 1.5
OWNERS = 64
_ROUND_BITS = 0b11
_ROUNDS = bytes(mark & _ROUND_BITS for mark in range(256))

type Fingerprint = int
"""Signed, and never 0."""


def of_envelope(envelope_id: bytes) -> Fingerprint:
    """The head of its id, which is a hash; the same in every process."""
    return int.from_bytes(envelope_id[:8], "little", signed=True) or 1


def of_key(key: bytes) -> Fingerprint:
    """Python's SipHash, whose key is this process's secret: nobody can make the keys of rules or envelopes collide."""
    return hash(key) or 1


class Fingerprints:
    """Each is marked with its owner, and with the round in which it was last shown, so that a round's end can forget the rest."""

    def __init__(self) -> None:
        self._slots = [_blank(_FIRST_SLOTS) for _ in range(SEGMENTS)]
        self._marks = [bytearray(_FIRST_SLOTS) for _ in range(SEGMENTS)]
        self._used = [0] * SEGMENTS
        self._round = 1
        self.owned = [0] * OWNERS
        """How many fingerprints each owner has."""

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
        marks[index] = marks[index] & ~_ROUND_BITS | self._round
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
        self._marks[segment][index] = owner << 2 | self._round
        self.owned[owner] += 1
        self._used[segment] += 1
        if self._used[segment] > _MOST_FULL * size:
            self._rebuild(segment, int(size * _GROWTH), forget=0)

    def add(self, fingerprint: Fingerprint) -> bool:
        """Mark `fingerprint` with this round; whether it is new."""
        if self.refresh(fingerprint):
            return False
        self.insert(fingerprint)
        return True

    def begin_round(self) -> None:
        """What is not added again from now on is forgotten by the next `sweep`."""
        self._round = 3 - self._round

    def sweep(self) -> Iterator[int]:
        """Forget what was not added in this round, a segment at each step, which yields how many that were."""
        for segment, marks in enumerate(self._marks):
            before = self._used[segment]
            slots = int(marks.translate(_ROUNDS).count(self._round) / _MOST_FULL * _GROWTH)
            self._rebuild(segment, max(_FIRST_SLOTS, slots), forget=3 - self._round)
            yield before - self._used[segment]

    def segments(self) -> Iterator[list[Fingerprint]]:
        """All fingerprints, a segment at a time; what is added meanwhile may be among them or not."""
        for slots in self._slots:
            yield [fingerprint for fingerprint in slots if fingerprint]

    def _rebuild(self, segment: int, size: int, *, forget: int) -> None:
        """Move one segment's fingerprints to `size` slots, but for those with the mark `forget`."""
        slots, marks = _blank(size), bytearray(size)
        used = 0
        for fingerprint, mark in zip(self._slots[segment], self._marks[segment], strict=True):
            if not fingerprint:
                continue
            if mark & _ROUND_BITS == forget:
                self.owned[mark >> 2] -= 1
                continue
            index = (fingerprint >> 8) % size
            while slots[index]:
                index = (index + 1) % size
            slots[index] = fingerprint
            marks[index] = mark
            used += 1
        self._slots[segment], self._marks[segment], self._used[segment] = slots, marks, used


def _blank(size: int) -> "array[int]":
    return array("q", bytes(8 * size))
