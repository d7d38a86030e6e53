"""Which task leads: a lease in DynamoDB, for which no two clocks need to agree.

    holder     version+1 ─ version+2 ─ version+3 ✕            (paused, dead or cut off)
    standby      sees it     sees it     sees it ├─ no change for `seconds` ─┤ takes it with version+4
    holder                              last write began ├─ `seconds` ─┤ stops sending by itself

The holder counts from before its last successful write, the standby from after it saw that write, each on its own
monotonic clock: the holder has stopped before the standby begins. The holder need not read what it wrote: its write
is refused if anybody else has written since. Nor does it lead for long with nothing to do.
"""

import threading
import time
from collections.abc import Callable

from pynamodb.exceptions import PutError
from pynamodb.expressions.condition import Condition

from clarion.tables import Lease, refused

LEASE = "ingest"


class Leadership:
    """Blocks while it talks to DynamoDB. Any thread may call it."""

    def __init__(self, me: str, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._me = me
        self._seconds = seconds
        self._clock = clock
        self._one_at_a_time = threading.Lock()
        self._until = float("-inf")
        self._useful_at = float("-inf")
        self._witnessed: tuple[str, int] | None = None
        self._witnessed_at = 0.0
        self._written: Lease | None = None
        """The row as we last wrote it, unless that is in doubt."""
        self.tenure = 0
        """The version under which this task last began to lead; it grows from leader to leader."""
        self.delivered_through = 0
        """The holder's `delivered_through`, as last seen."""

    @property
    def held(self) -> bool:
        return self._clock() < self._until

    def renew(self, delivered_through: int, *, useful: bool = True) -> None:
        """Renew the lease, or acquire it if its holder has gone. Raise pynamodb's errors; then `held` runs out.

        A task acquires the lease only if it is `useful`: connected to a source, or with envelopes to send. It releases it
        after two lease periods without being so.
        """
        with self._one_at_a_time:
            if useful:
                self._useful_at = self._clock()
            if self.held and self._clock() - self._useful_at >= 2 * self._seconds:
                self._release(delivered_through)
            else:
                self._renew(delivered_through, reach=useful)

    def release(self, delivered_through: int) -> None:
        """Hand over: the standby need not wait."""
        with self._one_at_a_time:
            self._release(delivered_through)

    def _release(self, delivered_through: int) -> None:
        row = self._row()
        if row and row.holder == self._me:
            self._write("", int(row.version) + 1, delivered_through, _unchanged(row))
        self._until = float("-inf")

    def _renew(self, delivered_through: int, *, reach: bool) -> None:
        began = self._clock()
        row = self._row()
        if (row and not self._vacant(row)) or not (self.held or reach):
            self._until = float("-inf")
            return
        version = int(row.version) + 1 if row else 1
        if not self._write(self._me, version, delivered_through, _unchanged(row)):
            self._until = float("-inf")
            return
        if not self.held:
            self.tenure = version
        self._until = began + self._seconds

    def _row(self) -> Lease | None:
        row, self._written = self._written, None
        return row or self._read()

    def _read(self) -> Lease | None:
        try:
            row = Lease.get(LEASE, consistent_read=True)
        except Lease.DoesNotExist:
            return None
        self.delivered_through = int(row.delivered_through)
        return row

    def _vacant(self, row: Lease) -> bool:
        witnessed = (row.holder, int(row.version))
        now = self._clock()
        if witnessed != self._witnessed:
            self._witnessed, self._witnessed_at = witnessed, now
        return row.holder in {"", self._me} or now - self._witnessed_at >= self._seconds

    def _write(self, holder: str, version: int, delivered_through: int, condition: Condition) -> bool:
        row = Lease(LEASE, holder=holder, version=version, delivered_through=delivered_through)
        try:
            row.save(condition=condition)
        except PutError as error:
            if not refused(error):
                raise
            if not self._is_written(row):
                return False
        self._written = row
        return True

    def _is_written(self, row: Lease) -> bool:
        """Whether it was our own write that refused: the SDK repeats one whose answer is late."""
        found = self._read()
        return found is not None and (found.holder, found.version) == (row.holder, row.version)


def _unchanged(row: Lease | None) -> Condition:
    return Lease.version == row.version if row else Lease.name.does_not_exist()
