"""Parts of the work that one task alone may do at a time: each a row beside the leases, which names its holder.

    part ──the task at work that scores highest for it──▶ candidate
    row:  A ──A releases it, or is not at work any more──▶ free ──the candidate writes its name, if nobody else did──▶ B

Its holder is at work as long as its own lease says so, so a part costs a request only when it changes hands. A holder that
was taken for dead may still be doing its part: before it believes what only a second holder can cause, it reads the row.
"""

import asyncio
from collections.abc import Iterable, Iterator
from functools import partial

from pynamodb.expressions.condition import Condition

from clarion.clock import now_ms
from clarion.tables import PartLease, find_row, save_if
from ingest.lease.leases import Leases
from ingest.lease.shards import candidate_for

FREE = "-"


class PartLeases:
    """Of the parts `names`, which are called as `<network>/<part>`. What talks to DynamoDB raises pynamodb's errors."""

    def __init__(self, leases: Leases, names: Iterable[str]) -> None:
        self._leases = leases
        self._names = tuple(names)
        self._mine = set[str]()

    @property
    def mine(self) -> frozenset[str]:
        """Those that this task holds, as far as it knows."""
        return frozenset(self._mine)

    def surplus(self) -> Iterator[str]:
        """Those of this task's that another should have. While nobody is at work, they stay."""
        tasks = self._leases.tasks
        return (name for name in tuple(self._mine) if candidate_for(name, tasks) not in {self._leases.me, None})

    def doubtful(self) -> Iterator[str]:
        """Those of this task's that another may have taken."""
        return (name for name in tuple(self._mine) if self._leases.holders.get(name) not in {self._leases.me, None})

    def due(self) -> Iterator[str]:
        """Those that this task should have, and that are free."""
        me, tasks = self._leases.me, self._leases.tasks
        for name in self._names:
            if name not in self._mine and candidate_for(name, tasks) == me and not self._has_holder(name):
                yield name

    async def acquire(self, name: str) -> bool:
        """Whether it is this task's now. Where it is cancelled, it ends first: its thread writes the row all the same."""
        writing = asyncio.create_task(self._write_own(name))
        try:
            return await asyncio.shield(writing)
        except asyncio.CancelledError:
            await asyncio.gather(writing, return_exceptions=True)
            raise

    async def _write_own(self, name: str) -> bool:
        me, before = self._leases.me, self._leases.holders.get(name)
        unchanged = PartLease.holder.does_not_exist() if before is None else PartLease.holder == before
        if acquired := await asyncio.to_thread(self._save, name, me, unchanged | (PartLease.holder == me)):
            self._mine.add(name)
        return acquired

    async def release(self, name: str) -> None:
        """Let another have it. Where that fails, it stays this task's."""
        await asyncio.to_thread(self._save, name, FREE, PartLease.holder == self._leases.me)
        self._mine.discard(name)

    async def hold(self, name: str) -> bool:
        """Whether it is this task's just now."""
        row = await asyncio.to_thread(partial(find_row, PartLease, name))
        if row is None or row.holder != self._leases.me:
            self._mine.discard(name)
            return False
        return True

    def _has_holder(self, name: str) -> bool:
        return self._leases.holders.get(name) in set(self._leases.tasks) - {self._leases.me}

    @staticmethod
    def _save(name: str, holder: str, condition: Condition) -> bool:
        return save_if(PartLease(name, holder=holder, version=now_ms()), condition=condition)
