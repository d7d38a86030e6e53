"""An exact sliding window for one (sender, client) pair, by the time at which envelopes were observed.

An envelope observed at `t` passes if, with `t` among the times of those admitted, no `count + 1` lie within less than
`window`. One that does not pass starts a cooldown, `[t, t + cooldown)`, in which all that was observed is refused,
whenever it is judged. An admitted envelope is known by its mark: it passes again, uncounted, whatever came since.

    own mark known ───▶ passes, uncounted
    in a cooldown ────▶ refused
    too many ─────────▶ refused, and starts a cooldown
    else ─────────────▶ passes, and is counted

So verdicts are a function of the observations in the order in which they were judged. A cooldown revokes nothing, and
what was refused stays refused for as long as its surroundings are kept (`LATENESS`).
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

MARK_BYTES = 8
_INSTANT_BYTES = 6
_ADMISSION_BYTES = _INSTANT_BYTES + MARK_BYTES
_COOLDOWN_BYTES = 2 * _INSTANT_BYTES
MAX_PACKED_BYTES = 870
"""Bytes of packed admissions and cooldowns that leave the table's item within its 1 KB write unit."""
LATENESS = 60 * 60_000
"""Milliseconds. What is judged later than this after it was observed is judged as if observed so long ago."""
RETRIES = 60 * 60_000
"""Milliseconds. What was received once comes again within this: twice what the queue's visibility, and the delays of
what failed, add up to at most."""
SKEW = 5_000
"""Milliseconds by which the clock of who observes may be ahead of the one of who admits."""


@dataclass(frozen=True, slots=True)
class Limit:
    """Instants and spans are milliseconds."""

    count: int
    window: int
    cooldown: int


SUBSCRIPTION_CAP = Limit(count=300, window=60_000, cooldown=0)
"""The default for a subscription, whoever sends it: `match.caps`."""


class Admitted(NamedTuple):
    """`at` is the time that the envelope counts for: see `judged_at`."""

    at: int
    mark: bytes


class Cooldown(NamedTuple):
    """What was observed from `begin` up to but without `end` is refused."""

    begin: int
    end: int


class Window(NamedTuple):
    """What is known of a pair: whom it admitted, sorted, and its cooldowns, sorted and apart from each other."""

    admitted: tuple[Admitted, ...] = ()
    cooldowns: tuple[Cooldown, ...] = ()

    def knows(self, mark: bytes) -> bool:
        return any(admission.mark == mark for admission in self.admitted)

    def refuses(self, at: int) -> bool:
        return any(begin <= at < end for begin, end in self.cooldowns)

    @property
    def size(self) -> int:
        """Bytes, packed."""
        return len(self.admitted) * _ADMISSION_BYTES + len(self.cooldowns) * _COOLDOWN_BYTES


def mark_of(envelope_id: bytes) -> bytes:
    """The mark of one envelope, distinct from those of the pair's others."""
    return blake2b(envelope_id, digest_size=MARK_BYTES).digest()


def judged_at(observed_at: int, now: int) -> int:
    """The time that an envelope is judged by and counts for."""
    return min(max(observed_at, now - LATENESS), now + SKEW)


def judge(window: Window, limit: Limit, mark: bytes, at: int) -> tuple[Window, bool]:
    """The window after one more asked to pass, and whether it may. `at` is what `judged_at` makes of its time."""
    if window.knows(mark):
        return window, True
    if window.refuses(at):
        return window, False
    place = bisect_left(window.admitted, Admitted(at, mark))
    near = window.admitted[max(0, place - limit.count) : place + limit.count]
    if not fits([admission.at for admission in near], limit, at):
        return start_cooldown(window, limit, at), False
    return count(window, Admitted(at, mark)), True


def fits(times: Sequence[int], limit: Limit, at: int) -> bool:
    """Whether, with `at` among the sorted `times`, no `count + 1` lie within less than a window."""
    place = bisect_left(times, at)
    near = [*times[max(0, place - limit.count) : place], at, *times[place : place + limit.count]]
    return all(last - first >= limit.window for first, last in zip(near, near[limit.count :], strict=False))


def count(window: Window, *admissions: Admitted) -> Window:
    """The window with `admissions` among the admitted."""
    return window._replace(admitted=tuple(sorted({*window.admitted, *admissions})))


def start_cooldown(window: Window, limit: Limit, at: int) -> Window:
    """Cooldowns that overlap, as they may if envelopes are judged out of order, become one."""
    if not limit.cooldown:
        return window
    begin, end = at, at + limit.cooldown
    apart = [one for one in window.cooldowns if one.end < begin or one.begin > end]
    overlapping = [one for one in window.cooldowns if one not in apart]
    begin = min([begin, *(one.begin for one in overlapping)])
    end = max([end, *(one.end for one in overlapping)])
    return window._replace(cooldowns=tuple(sorted([*apart, Cooldown(begin, end)])))


def remembered_since(limit: Limit, observed_at: int, now: int) -> int:
    """What was admitted at this time or before has no bearing on an envelope that was observed then.

    One that is late beyond `LATENESS` may have been admitted by an earlier attempt, under an earlier time.
    """
    late = observed_at < now - LATENESS
    return forgotten(limit, now) if late else judged_at(observed_at, now) - limit.window


def forgotten(limit: Limit, now: int) -> int:
    """What was admitted before this time can have no bearing on what is judged from now on, nor come again."""
    return now - LATENESS - max(RETRIES, limit.window) - SKEW


def forget(window: Window, limit: Limit, now: int) -> Window:
    """The window without what has no bearing any more."""
    since = forgotten(limit, now)
    return Window(
        tuple(admission for admission in window.admitted if admission.at >= since),
        tuple(cooldown for cooldown in window.cooldowns if cooldown.end > now - LATENESS - SKEW),
    )


def set_aside(seen: Window, after: Window, limit: Limit) -> tuple[Window, tuple[Admitted, ...]]:
    """The window `after` a change of `seen`, and the page of admissions that is to be kept elsewhere to make room.

    A page consists of admissions that were seen, all but the latest `count`: so it never holds one whose write fails,
    and no other envelope that comes in order needs it, since they lie a whole window before the latest.
    """
    early = seen.admitted[: -limit.count]
    page = tuple(admission for admission in early if admission in after.admitted)
    if after.size <= MAX_PACKED_BYTES or not page:
        return after, ()
    return after._replace(admitted=tuple(one for one in after.admitted if one not in page)), page


def pack(admitted: Iterable[Admitted]) -> bytes:
    """14 bytes an admission: 6 of its instant (big-endian), 8 of its mark."""
    return b"".join(pack_instants([at]) + mark for at, mark in admitted)


def unpack(packed: bytes) -> tuple[Admitted, ...]:
    """Undo `pack`."""
    entries = _parts(packed, _ADMISSION_BYTES)
    return tuple(Admitted(int.from_bytes(entry[:_INSTANT_BYTES]), entry[_INSTANT_BYTES:]) for entry in entries)


def pack_cooldowns(cooldowns: Iterable[Cooldown]) -> bytes:
    """12 bytes a cooldown: its begin and its end."""
    return b"".join(map(pack_instants, cooldowns))


def unpack_cooldowns(packed: bytes) -> tuple[Cooldown, ...]:
    """Undo `pack_cooldowns`."""
    instants = unpack_instants(packed)
    return tuple(map(Cooldown, instants[::2], instants[1::2]))


def pack_instants(instants: Iterable[int]) -> bytes:
    """6 bytes an instant, big-endian."""
    return b"".join(instant.to_bytes(_INSTANT_BYTES) for instant in instants)


def unpack_instants(packed: bytes) -> tuple[int, ...]:
    """Undo `pack_instants`."""
    return tuple(int.from_bytes(entry) for entry in _parts(packed, _INSTANT_BYTES))


def _parts(packed: bytes, size: int) -> list[bytes]:
    return [packed[start : start + size] for start in range(0, len(packed), size)]
