"""Statements on their way: held until those they go to have taken them, and bounded in bytes.

    intake ──▶ outbox to the queue ──SQS has it──▶ outbox to the lake ──Firehose has it──▶ handled, see `forwarded`

The first is open in the leader, which sends, and shut in the standby, which keeps what it would send and lets go of
what is old. Each has a room of its own: while the lake takes nothing, pushes go on until the second is full. And what
only SQS has when a task crashes is not handled, so the next one sends it again, and the lake is told of it.

    node 1 ──▶ letter letter letter ─┐
    node 2 ──▶ letter ───────────────┴─ one of each in turn ──▶ batch

The bytes are divided among the nodes. So one that shows more than can be sent waits alone, and delays no other.
"""

import asyncio
import logging
from collections import OrderedDict, defaultdict, deque
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


class Share:
    """So many bytes for letters of one node. `take` always gives; who takes awaits `free` before taking more."""

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


class Room:
    """So many bytes for letters, wherever they wait, divided among the nodes; the share of each by its number."""

    def __init__(self, capacity: int, nodes: int = 1) -> None:
        self._shares = defaultdict[int, Share](lambda: Share(capacity // nodes))

    def __getitem__(self, node: int) -> Share:
        return self._shares[node]


class Outbox:
    """Letters for one `send_forever`. `add` always takes; who adds awaits `wait_for_space` before adding more."""

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
        self._waiting: OrderedDict[int, deque[Letter]] = OrderedDict()
        """By node, those with letters only; the one whose turn it is comes first."""
        self._waiting_letters = self._waiting_bytes = 0
        self._in_flight: dict[UUID, Letter] = {}
        self._sendable, self._full, self._empty = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._draining = False
        self.is_open = is_open
        self._tell()

    def __len__(self) -> int:
        """How many letters are here, in flight or not."""
        return self._waiting_letters + len(self._in_flight)

    @property
    def oldest(self) -> int | None:
        """When the oldest letter here was observed."""
        held = chain(*self._waiting.values(), self._in_flight.values())
        return min((letter.observed_at for letter in held), default=None)

    def add(self, letter: Letter) -> None:
        self._room[letter.node].take(letter.held_size)
        self._queue_of(letter).append(letter)
        self._tell()

    def is_crowded(self, node: int) -> bool:
        """Whether half of the node's share is taken."""
        return self._room[node].crowded

    def is_full(self, node: int) -> bool:
        """Whether the node's share is taken, here or where its letters go next."""
        return self._room[node].full or self._next_room[node].full

    async def wait_for_space(self, node: int) -> None:
        """Wait while `is_full`."""
        while self.is_full(node):
            await self._room[node].free()
            await self._next_room[node].free()

    async def take(self) -> list[Letter]:
        """Wait until it is open and holds letters, then take as many as one batch may hold, until `done`."""
        while True:
            await self._sendable.wait()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._full.wait(), self._linger)
            if self._sendable.is_set():
                return self._batch()

    def done(self, batch: Sequence[Letter], failed: Sequence[Letter] = ()) -> None:
        """Let go of `batch`, except for what was not taken, which is first of its node's again."""
        kept = {letter.key for letter in failed}
        for letter in batch:
            del self._in_flight[letter.key]
            if letter.key not in kept:
                self._gone(letter)
                self._room[letter.node].give_back(letter.held_size)
        for letter in reversed(failed):
            self._queue_of(letter).appendleft(letter)
        self._tell()

    def set_open(self, *, is_open: bool) -> None:
        self.is_open = is_open
        self._tell()

    def drop_before(self, observed_at: int, *, only_if_full: bool = False) -> list[Letter]:
        """Let go of what was observed before, and return it: the leader has passed it on.

        `only_if_full`: only of nodes whose share is taken.
        """
        dropped = []
        for node, letters in tuple(self._waiting.items()):
            if only_if_full and not self._room[node].full:
                continue
            while letters and letters[0].observed_at < observed_at:
                dropped.append(self._next(node))
                self._room[node].give_back(dropped[-1].held_size)
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
        while self._waiting and len(batch) < self._most:
            node, letters = next(iter(self._waiting.items()))
            if letters[0].wire_size > room:
                break
            letter = self._next(node)
            room -= letter.wire_size
            batch.append(letter)
            self._in_flight[letter.key] = letter
        self._tell()
        return batch

    def _queue_of(self, letter: Letter) -> deque[Letter]:
        """Where to put the `letter`, which is counted."""
        self._waiting_letters += 1
        self._waiting_bytes += letter.wire_size
        return self._waiting.setdefault(letter.node, deque())

    def _next(self, node: int) -> Letter:
        """Take out the first letter of `node`, whose next turn comes after all others'."""
        letters = self._waiting[node]
        letter = letters.popleft()
        self._waiting_letters -= 1
        self._waiting_bytes -= letter.wire_size
        if letters:
            self._waiting.move_to_end(node)
        else:
            del self._waiting[node]
        return letter

    def _tell(self) -> None:
        """Wake those who wait for what is true now."""
        waiting = self._waiting_letters
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
