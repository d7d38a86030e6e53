"""An exact sliding window for one (sender, client) pair: at most so many admitted in any span of the window's length.

The one that would be too many starts a cooldown in which all are refused. Whoever was admitted is remembered by a
mark, so that a retry passes again and is counted once, even after the pair has gone into cooldown. Whoever was refused
is remembered by the cooldown's end alone: what was observed before it, and not admitted by then, stays refused.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import NamedTuple

MARK_BYTES = 8
_INSTANT_BYTES = 6
_ENTRY_BYTES = _INSTANT_BYTES + MARK_BYTES
REMEMBERED = 60
"""How many admissions a window holds: as many as leave the table's item within its 1 KB write unit."""
RETRIES = 60 * 60_000
"""Milliseconds. What was received once comes again within this: twice what the queue's visibility, and the delays of
what failed, add up to at most."""
SKEW = 5_000
"""Milliseconds by which the clock of who observes may be ahead of the one of who admits."""
REACH = 60 * 60_000
"""Milliseconds. A cooldown's refusals are final for what was observed up to so long before it began."""


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
    """What is known of a pair: the latest admissions, oldest first, and until when it is in cooldown.

    Earlier admissions were set aside in so many `pages`, the last of them made at `paged_until`.
    """

    admitted: tuple[Admission, ...] = ()
    cooldown_until: int = 0
    pages: int = 0
    paged_until: int = 0

    def knows(self, mark: bytes) -> bool:
        return any(admission.mark == mark for admission in self.admitted)

    def refuses(self, limit: Limit, mark: bytes, observed_at: int, now: int) -> bool:
        """Whether `mark` is refused without being counted, now and by every later window: see `REACH`."""
        begun = self.cooldown_until - limit.cooldown
        belongs = begun - REACH <= observed_at < self.cooldown_until
        return (belongs or now < self.cooldown_until) and not self.knows(mark)

    def may_have_set_aside(self, observed_at: int) -> bool:
        """Whether what was observed then may have been admitted by one of the `pages`. Clocks differ a little."""
        return observed_at <= self.paged_until + SKEW


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
    kept = max(REMEMBERED, 2 * limit.count)
    return replace(window, admitted=(*window.admitted, Admission(at, mark))[-kept:]), True


def make_room(window: Window, limit: Limit, asking: int, now: int) -> tuple[Window, tuple[Admission, ...]]:
    """The window with room for `asking` more, and the page of admissions to be set aside for that, if any.

    A page is as many as one window admits, none of which counts towards the limit any more, always from the oldest on:
    so whoever makes a page of that number makes the same. One that is too old for retries gets a number, but no page.
    """
    page = window.admitted[: limit.count]
    roomy = len(window.admitted) + asking <= max(REMEMBERED, 2 * limit.count)
    if roomy or len(page) < limit.count or page[-1].at > now - limit.window:
        return window, ()
    rest = window.admitted[limit.count :]
    after = replace(window, admitted=rest, pages=window.pages + 1, paged_until=page[-1].at)
    return after, page if page[-1].at > now - RETRIES else ()


def pack(admitted: Sequence[Admission]) -> bytes:
    """14 bytes an admission: 6 of its instant (big-endian), 8 of its mark."""
    return b"".join(at.to_bytes(_INSTANT_BYTES) + mark for at, mark in admitted)


def unpack(packed: bytes) -> tuple[Admission, ...]:
    """Undo `pack`."""
    entries = (packed[start : start + _ENTRY_BYTES] for start in range(0, len(packed), _ENTRY_BYTES))
    return tuple(Admission(int.from_bytes(entry[:_INSTANT_BYTES]), entry[_INSTANT_BYTES:]) for entry in entries)
