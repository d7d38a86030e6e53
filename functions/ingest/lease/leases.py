"""Which tasks are at work: each renews a lease of its own, a row in DynamoDB, and reads those of the others.

    task A renews   8 ─ 9 ─ 10 ✕                (paused, dead or cut off)
    task B sees       8 ─ 9 ─ 10 ├─ no change for `seconds` ─┤ A is not at work: its shards are the others'

Whoever judges goes by its own monotonic clock; at first sight by the row's time, lest it wait for one that crashed long
ago. A lease excludes nobody: a task that was taken for dead goes on, and what two forward costs a claim that is refused.
See docs/decisions/0012-shards.md.
"""

import time
from collections.abc import Callable, Collection
from typing import NamedTuple

from clarion.clock import now_ms
from clarion.tables import Lease

_KEPT_SECONDS = 86_400
"""After which TTL removes the row of a task that is no more."""


class _Seen(NamedTuple):
    """A row, and since when it has been seen unchanged."""

    row: Lease
    since: float


class Leases:
    """Blocks while it talks to DynamoDB; one call at a time."""

    def __init__(self, me: str, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.me = me
        self._seconds = seconds
        self._clock = clock
        self._seen: dict[str, _Seen] = {}
        self._useful_at = float("-inf")
        self._joined = False

    @property
    def tasks(self) -> Collection[str]:
        """Those at work, this one among them once it has joined; also while DynamoDB can't be reached."""
        return [*self._others, self.me] if self._joined else self._others

    def delivered_through(self, task: str) -> int:
        """As its row said last, in UNIX milliseconds; 0 if it never had any."""
        return int(self._seen[task].row.delivered_through) if task in self._seen else 0

    @property
    def all_delivered_through(self) -> int:
        """Through when the tasks that renewed their leases last have delivered; 0 if there were none."""
        rows = [seen.row for seen in self._seen.values()]
        latest = max((row.version for row in rows), default=0)
        together = (row for row in rows if row.version > latest - self._seconds * 1000)
        return min((int(row.delivered_through) for row in together), default=0)

    def renew(self, delivered_through: int, *, useful: bool) -> None:
        """Look at the others' leases, and renew this one. Raise pynamodb's errors.

        A task joins once it is `useful`, connected to a source or with envelopes to send, and has delivered what was
        replayed to it: until then its shards would wait for the replay. If nobody else is at work, it joins at once. After
        two periods without use it leaves.
        """
        self._look()
        if useful:
            self._useful_at = self._clock()
        in_use = self._clock() - self._useful_at < 2 * self._seconds
        if in_use and (self._joined or delivered_through > 0 or not self._others):
            self._joined = True
            self._save(delivered_through)
        elif self._joined:
            self.release(delivered_through)

    def release(self, delivered_through: int) -> None:
        """Leave: the others need not wait."""
        self._joined = False
        self._save(delivered_through)

    @property
    def _others(self) -> list[str]:
        since = self._clock() - self._seconds
        seen = self._seen.values()
        return [one.row.name for one in seen if one.since > since and not one.row.ended and one.row.name != self.me]

    def _save(self, delivered_through: int) -> None:
        version = now_ms()
        row = Lease(self.me, version=version, delivered_through=delivered_through, ended=not self._joined)
        row.ttl = version // 1000 + _KEPT_SECONDS
        row.save()

    def _look(self) -> None:
        rows = {row.name: row for row in Lease.scan(consistent_read=True)}
        self._seen = {name: self._see(row) for name, row in rows.items()}

    def _see(self, row: Lease) -> _Seen:
        if before := self._seen.get(row.name):
            return _Seen(row, before.since if before.row.version == row.version else self._clock())
        renewed_lately = now_ms() - row.version < self._seconds * 1000
        return _Seen(row, self._clock() if renewed_lately else float("-inf"))
