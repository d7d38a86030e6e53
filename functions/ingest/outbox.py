"""Statements on their way: held until those they go to have taken them, and bounded in bytes.

    intake ──▶ outbox to the queue ──SQS has it──▶ outbox to the lake ──Firehose has it──▶ handled, see `forwarded`

The first is open in the leader, which sends, and shut in the standby, which keeps what it would send and lets go of
what is old. Each has a room of its own: while the lake takes nothing, pushes go on until the second is full. And what
only SQS has when a task crashes is not handled, so the next one sends it again, and the lake is told of it.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from ingest.letter import Letter

if TYPE_CHECKING:
    from uuid import UUID

BATCH_BYTES = 1_048_576
"""What SendMessageBatch takes, and a quarter of what PutRecordBatch does.

https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessageBatch.html
"""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0

log = logging.getLogger(__name__)


class Room:
    """So many bytes for letters, wherever they wait. `take` always gives; who takes awaits `free` before taking more."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._taken = 0
        self._free = asyncio.Event()
        self.give_back(0)

    @property
    def full(self) -> bool:
        return self._taken >= self._capacity

    @property
    def crowded(self) -> bool:
        return self._taken * 2 >= self._capacity

    def take(self, size: int) -> None:
        self._taken += size
        if self.full:
            self._free.clear()

    def give_back(self, size: int) -> None:
        self._taken -= size
        if not self.full:
            self._free.set()

    async def free(self) -> None:
        await self._free.wait()


class Outbox:
    """A queue of letters for one `send_forever`. `add` always takes; who adds awaits `settle` before adding more."""

    def __init__(  # noqa: PLR0913 - each by name
        self,
        *,
        to: str,
        room: Room,
        next_room: Room | None = None,
        most: int,
        linger: float,
        gone: Callable[[Letter], None],
        is_open: bool,
    ) -> None:
        """`most` letters share a batch, which waits `linger` seconds for company: AWS bills by the batch.

        `to` names who takes them, `gone` is told of each letter that was taken, and `next_room` is where it goes then.
        """
        self.to = to
        self._room = room
        self._next_room = next_room or room
        self._most = most
        self._linger = linger
        self._gone = gone
        self._waiting: deque[Letter] = deque()
        self._waiting_bytes = 0
        self._in_flight: dict[UUID, Letter] = {}
        self._sendable, self._full, self._empty = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._draining = False
        self.is_open = is_open
        self._tell()

    def __len__(self) -> int:
        """How many letters are here, in flight or not."""
        return len(self._waiting) + len(self._in_flight)

    @property
    def oldest(self) -> int | None:
        """When the oldest letter here was observed."""
        held = chain(self._waiting, self._in_flight.values())
        return min((letter.observed_at for letter in held), default=None)

    def add(self, letter: Letter) -> None:
        self._room.take(letter.held_size)
        self._waiting.append(letter)
        self._waiting_bytes += letter.wire_size
        self._tell()

    @property
    def is_crowded(self) -> bool:
        """Whether half of the room is taken."""
        return self._room.crowded

    @property
    def is_full(self) -> bool:
        """Whether there is no room for more, also where it goes next."""
        return self._room.full or self._next_room.full

    async def settle(self) -> None:
        """Wait until there is room for more, also where it goes next."""
        while self.is_full:
            await self._room.free()
            await self._next_room.free()

    async def take(self) -> list[Letter]:
        """Wait until it is open and holds letters, then take as many as one batch may hold, until `done`."""
        while True:
            await self._sendable.wait()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._full.wait(), self._linger)
            if self._sendable.is_set():
                return self._batch()

    def done(self, batch: Sequence[Letter], failed: Sequence[Letter] = ()) -> None:
        """Let go of `batch`, except for what was not taken, which is first in line again."""
        kept = {letter.key for letter in failed}
        for letter in batch:
            del self._in_flight[letter.key]
            if letter.key not in kept:
                self._gone(letter)
                self._room.give_back(letter.held_size)
        self._waiting.extendleft(reversed(failed))
        self._waiting_bytes += sum(letter.wire_size for letter in failed)
        self._tell()

    def set_open(self, *, is_open: bool) -> None:
        self.is_open = is_open
        self._tell()

    def drop_before(self, observed_at: int) -> list[Letter]:
        """Let go of what was observed before, and return it: the leader has passed it on."""
        dropped = []
        while self._waiting and self._waiting[0].observed_at < observed_at:
            dropped.append(self._next())
            self._room.give_back(dropped[-1].held_size)
        self._tell()
        return dropped

    async def drain(self) -> None:
        """Wait until everything was taken, and let nothing linger any more."""
        self._draining = True
        self._tell()
        await self._empty.wait()

    def _batch(self) -> list[Letter]:
        batch: list[Letter] = []
        room = BATCH_BYTES
        while self._waiting and len(batch) < self._most and self._waiting[0].wire_size <= room:
            letter = self._next()
            room -= letter.wire_size
            batch.append(letter)
            self._in_flight[letter.key] = letter
        self._tell()
        return batch

    def _next(self) -> Letter:
        letter = self._waiting.popleft()
        self._waiting_bytes -= letter.wire_size
        return letter

    def _tell(self) -> None:
        """Wake those who wait for what is true now."""
        waiting = len(self._waiting)
        for event, holds in (
            (self._sendable, self.is_open and waiting > 0),
            (self._full, self._draining or waiting >= self._most or self._waiting_bytes >= BATCH_BYTES),
            (self._empty, not len(self)),
        ):
            if holds:
                event.set()
            else:
                event.clear()


async def send_forever(outbox: Outbox, send: Callable[[Sequence[Letter]], list[Letter]], in_flight: int) -> None:
    """Send what is in the outbox, so many batches at once; what fails is held and tried again after a pause.

    `send` blocks, so it runs in a thread; it returns the letters that were not taken.
    """
    pause = 0.0

    async def deliver(batch: Sequence[Letter]) -> None:
        nonlocal pause
        failed: Sequence[Letter] = batch
        try:
            failed = await asyncio.to_thread(send, batch)
        except (BotoCoreError, ClientError) as error:
            log.warning("nothing was taken", extra={"by": outbox.to, "error": repr(error)})
        finally:
            outbox.done(batch, failed)
        pause = min(_LONGEST_PAUSE, pause * 2 or _FIRST_PAUSE) if failed else 0.0
        if failed:
            log.warning("statements held", extra={"by": outbox.to, "failed": len(failed), "held": len(outbox)})
            await asyncio.sleep(pause)
        free.release()

    free = asyncio.Semaphore(in_flight)
    async with asyncio.TaskGroup() as deliveries:
        while True:
            await free.acquire()
            deliveries.create_task(deliver(await outbox.take()))
