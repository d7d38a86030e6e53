"""An exact sliding window for one (sender, client) pair: at most so many admitted in any span of the window's length.

The one that would be too many starts a cooldown in which all are refused. Whoever was admitted is remembered by a
mark, so that a retry passes again and is counted once, even after the pair has gone into cooldown.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import NamedTuple

MARK_BYTES = 8
_INSTANT_BYTES = 6
_ENTRY_BYTES = _INSTANT_BYTES + MARK_BYTES
REMEMBERED = 60
"""How many admissions are remembered, however old: as many as leave the table's item within its 1 KB write unit."""


@dataclass(frozen=True, slots=True)
class Limit:
    """Instants and spans are milliseconds."""

    count: int = 30
    window: int = 60_000
    cooldown: int = 120_000


class Admission(NamedTuple):
    at: int
    mark: bytes


@dataclass(frozen=True, slots=True)
class Window:
    """What is known of a pair: the latest admissions, oldest first, and until when it is in cooldown."""

    admitted: tuple[Admission, ...] = ()
    cooldown_until: int = 0

    def knows(self, mark: bytes) -> bool:
        return any(admission.mark == mark for admission in self.admitted)

    def refuses(self, mark: bytes, now: int) -> bool:
        """Whether `mark` is refused without being counted: the pair is in cooldown, and this is no retry."""
        return now < self.cooldown_until and not self.knows(mark)


def mark_of(statement_hash: bytes, subscription_id: str) -> bytes:
    """Tells one notification from another. A sender can't aim at a mark: it doesn't know the subscription's id."""
    return blake2b(statement_hash + subscription_id.encode(), digest_size=MARK_BYTES).digest()


def admit(window: Window, limit: Limit, marks: Sequence[bytes], now: int) -> tuple[Window, list[bool]]:
    """The window after `marks` asked to pass, in this order, and which of them may."""
    verdicts = []
    for mark in marks:
        window, passed = _admit_one(window, limit, mark, now)
        verdicts.append(passed)
    return window, verdicts


def _admit_one(window: Window, limit: Limit, mark: bytes, now: int) -> tuple[Window, bool]:
    if window.knows(mark):
        return window, True
    # Clocks differ between machines; a pair's own clock never runs backwards.
    at = max(now, window.admitted[-1].at) if window.admitted else now
    if at < window.cooldown_until:
        return window, False
    if sum(earlier.at > at - limit.window for earlier in window.admitted) >= limit.count:
        return replace(window, cooldown_until=at + limit.cooldown), False
    kept = max(REMEMBERED, limit.count)
    return replace(window, admitted=(*window.admitted, Admission(at, mark))[-kept:]), True


def pack(admitted: Sequence[Admission]) -> bytes:
    """14 bytes an admission: 6 of its instant (big-endian), 8 of its mark."""
    return b"".join(at.to_bytes(_INSTANT_BYTES) + mark for at, mark in admitted)


def unpack(packed: bytes) -> tuple[Admission, ...]:
    """Undo `pack`."""
    entries = (packed[start : start + _ENTRY_BYTES] for start in range(0, len(packed), _ENTRY_BYTES))
    return tuple(Admission(int.from_bytes(entry[:_INSTANT_BYTES]), entry[_INSTANT_BYTES:]) for entry in entries)
