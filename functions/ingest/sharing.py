"""Divides the work with the other tasks, by the shards of those at work.

renew the lease ──▶ who is at work? ──▶ whose is which shard? ──▶ what others have delivered is handled,
                                                                  what they left is taken in
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from clarion.faults import AWS_ERRORS, describe
from ingest.intake import Intake
from ingest.lease.leases import Leases
from ingest.lease.progress import DeliveryProgress
from ingest.lease.shards import Shards
from ingest.memory.seen import SeenEnvelopes
from ingest.memory.standby import Held, ReceivedEnvelope, Standby
from ingest.turn import Turn

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Sharing:
    """`networks`: to how many networks' sources this task is connected."""

    leases: Leases
    shards: Shards
    standby: Standby
    intake: Intake
    seen: SeenEnvelopes
    progress: DeliveryProgress
    networks: Callable[[], int]
    renewed: asyncio.Event = field(default_factory=asyncio.Event)
    divided: tuple[str | None, ...] = ()
    """The owners by which was taken over last."""
    lease_thread: ThreadPoolExecutor = field(default_factory=partial(ThreadPoolExecutor, 1))
    """Of its own, so that no slow request elsewhere can cost the lease."""

    async def renew_every(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await self.renew()
            except AWS_ERRORS as error:
                log.warning("lease not renewed", extra={"error": describe(error)})

    async def renew(self) -> None:
        """Renew the lease, and share with whoever is at work then. Raise pynamodb's errors."""
        has_gap, through = self.progress.has_gap, self.progress.delivered_through
        try:
            await self._in_thread(partial(self.leases.renew, through, networks=self.networks(), has_gap=has_gap))
            if has_gap:
                self.progress.clear_gap()
        finally:
            self._divide()
            self.renewed.set()

    async def take_over_forever(self) -> None:
        """After each renewal, which waits for none of it: a lease must not run out, however much there is to take in."""
        while True:
            await self.renewed.wait()
            self.renewed.clear()
            await self._remember_delivered()
            await self._take_over()

    async def leave(self) -> None:
        """Raise pynamodb's errors."""
        await self._in_thread(partial(self.leases.release, self.progress.delivered_through))

    async def _in_thread(self, call: Callable[[], None]) -> None:
        await asyncio.get_running_loop().run_in_executor(self.lease_thread, call)

    def _divide(self) -> None:
        before = self.shards.owned
        self.shards.divide(self.leases.tasks)
        if self.shards.owned != before:
            log.info("shards divided", extra={"owned": self.shards.owned, "tasks": len(self.leases.tasks)})

    async def _take_over(self) -> None:
        if self.divided == self.shards.owners:
            return
        self.divided = self.shards.owners
        async for held in _in_turns(self.standby.take_own()):
            self.intake.take_held(held)

    async def _remember_delivered(self) -> None:
        async for held in _in_turns(self.standby.take_delivered(self.leases.delivered_through)):
            if isinstance(held, ReceivedEnvelope):
                self.seen.remember(held.fingerprint, held.source)


async def _in_turns(each: Iterable[Held]) -> AsyncIterator[Held]:
    """Give way to others in between."""
    turn = Turn()
    for one in each:
        yield one
        if turn.is_over:
            await turn.give_way()
