"""Which tasks are at work: each renews a lease of its own, a row in DynamoDB, and reads those of the others.

    task A renews   8 ─ 9 ─ 10 ✕                (paused, dead or cut off)
    task B sees       8 ─ 9 ─ 10 ├─ no change for `seconds` ─┤ A is not at work: its shards are the others'

Whoever judges goes by its own monotonic clock; at first sight by the row's time, lest it wait for one that crashed long
ago. A lease excludes nobody: a task that was taken for dead goes on, and what two forward costs a claim that is refused.
See docs/decisions/0012-shards.md.
"""

import time
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from clarion.clock import now_ms
from clarion.tables import Lease

_KEPT_SECONDS = 86_400
"""After which TTL removes the row of a task that is no more."""


class _Seen(NamedTuple):
    """A row, since when it has been seen unchanged, and its `delivered_through`, less what its clock is ahead of ours."""

    row: Lease
    since: float
    delivered_through: int


class Leases:
    """Blocks while it talks to DynamoDB; one call at a time."""

    def __init__(self, me: str, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.me = me
        self._seconds = seconds
        self._clock = clock
        self._seen: dict[str, _Seen] = {}
        self.holders: Mapping[str, str] = {}
        """Who has which part (`ingest.lease.parts`), as the table said last."""
        self._connected_at = self._left_at = float("-inf")
        self._left_through = self._networks = 0
        self._joined = False

    @property
    def tasks(self) -> Collection[str]:
        """Those at work, this one among them once it has joined; also while DynamoDB can't be reached."""
        others = [row.name for row in self._others]
        return [*others, self.me] if self._joined else others

    def delivered_through(self, task: str) -> int:
        """As its row said last, in UNIX milliseconds; 0 if it never had any."""
        return self._seen[task].delivered_through if task in self._seen else 0

    @property
    def all_delivered_through(self) -> int:
        """Through when the tasks that renewed their leases last have delivered; 0 if there were none."""
        seen = self._seen.values()
        latest = max((one.row.version for one in seen), default=0)
        together = (one for one in seen if one.row.version > latest - self._seconds * 1000)
        return min((one.delivered_through for one in together), default=0)

    def renew(self, delivered_through: int, *, networks: int, has_gap: bool = False) -> None:
        """Look at the others' leases, and renew this one. Raise pynamodb's errors.

        `networks`: to how many networks' sources this task is connected. It joins once these are no fewer than another's,
        and it has delivered what was replayed to it since it left: until then its shards would wait for the replay. If
        nobody else is at work, it joins at once. It leaves after two periods with fewer networks than another, or with
        none; and at once for a period if it `has_gap`: others may have been shown what it was not, and take that in.
        """
        self._look()
        self._networks = networks
        others = self._others
        if networks and networks >= max((int(row.networks) for row in others), default=0):
            self._connected_at = self._clock()
        recently_connected = self._clock() - self._connected_at < 2 * self._seconds
        may_work = not has_gap if self._joined else self._may_rejoin(delivered_through)
        if recently_connected and (may_work or not others):
            self._joined = True
            self._save(delivered_through)
        elif self._joined:
            self.release(delivered_through)

    def release(self, delivered_through: int) -> None:
        """Leave: the others need not wait."""
        self._save(delivered_through, ended=True)
        self._joined = False
        self._left_at, self._left_through = self._clock(), delivered_through

    def _may_rejoin(self, delivered_through: int) -> bool:
        return delivered_through > self._left_through and self._clock() - self._left_at >= self._seconds

    @property
    def _others(self) -> list[Lease]:
        since = self._clock() - self._seconds
        seen = self._seen.values()
        return [one.row for one in seen if one.since > since and not one.row.ended and one.row.name != self.me]

    def _save(self, delivered_through: int, *, ended: bool = False) -> None:
        version = now_ms()
        row = Lease(self.me, version=version, delivered_through=delivered_through, ended=ended)
        row.networks = self._networks
        row.ttl = version // 1000 + _KEPT_SECONDS
        row.save()

    def _look(self) -> None:
        rows = list(Lease.scan(consistent_read=True))
        self._seen = {row.name: self._see(row) for row in rows if row.holder is None}
        self.holders = {row.name: row.holder for row in rows if row.holder is not None}

    def _see(self, row: Lease) -> _Seen:
        ahead_ms = int(row.version) - now_ms()
        delivered_through = int(row.delivered_through) - max(0, ahead_ms)
        if before := self._seen.get(row.name):
            since = before.since if before.row.version == row.version else self._clock()
        else:
            since = self._clock() if -ahead_ms < self._seconds * 1000 else float("-inf")
        return _Seen(row, since, delivered_through)
