"""What is on its way: held until those it goes to have taken it, and bounded in bytes.

    intake ─┬──────────────────────────────────────▶ outbox to the queue ──SQS has it──▶ outbox to the lake
            └─ oversize ──▶ outbox to S3 ──S3 has it──▲

    outbox to the lake ──Firehose has it, or SQS, late──▶ handled, see `forwarded`

Each has a budget of its own. What is oversize waits for S3 by itself and delays nothing else, until it takes the share
of its source: nothing may be lost, so that source is read no further. While Firehose takes nothing, the queue of late
events does: the last outbox fills only if SQS fails, too. And what only the queue of envelopes has when a task crashes
is not handled, so another one sends it again, and the lake gets it then.

    source 1 ──▶ entry entry entry ─┐
    source 2 ──▶ entry ─────────────┴─ one of each in turn ──▶ batch

The bytes are divided among the sources. So one that shows more than can be sent waits alone, and delays no other.
"""

import asyncio
import logging
import math
import time
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Protocol

from clarion.faults import AWS_ERRORS, describe

if TYPE_CHECKING:
    from uuid import UUID

BATCH_BYTES = 1_048_576
"""What SendMessageBatch takes, and a quarter of what PutRecordBatch does.

https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessageBatch.html
"""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0

log = logging.getLogger(__name__)


class Entry(Protocol):
    """What an outbox holds. No two have the same `id`; all that comes of one observation shares its `receipt`.

    `observed_at` is in UNIX milliseconds, `source` the number of the source it came from. `wire_size` are the bytes that
    it takes up of a batch, `held_size` those that it takes up here.
    """

    @property
    def id(self) -> "UUID": ...
    @property
    def receipt(self) -> "UUID": ...
    @property
    def observed_at(self) -> int: ...
    @property
    def source(self) -> int: ...
    @property
    def wire_size(self) -> int: ...
    @property
    def held_size(self) -> int: ...


class Share:
    """So many bytes for entries of one source. `take` always gives; who takes awaits `free` before taking more."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._taken = 0
        self._free = asyncio.Event()
        self.full = True
        self.give_back(0)

    @property
    def crowded(self) -> bool:
        return self._taken * 2 >= self._capacity

    def take(self, size: int) -> None:
        self._taken += size
        if self._taken >= self._capacity:
            self.full = True
            self._free.clear()

    def give_back(self, size: int) -> None:
        self._taken -= size
        if self.full and self._taken < self._capacity:
            self.full = False
            self._free.set()

    async def free(self) -> None:
        await self._free.wait()


class Budget:
    """So many bytes for entries, wherever they wait, divided among the sources; the share of each by its number."""

    def __init__(self, capacity: int, sources: int = 1) -> None:
        self._shares = defaultdict[int, Share](lambda: Share(capacity // sources))

    def __getitem__(self, source: int) -> Share:
        return self._shares[source]


class Outbox[E: Entry]:
    """Entries for one `send_forever`. `add` always takes; who adds awaits `wait_for_space` before adding more."""

    def __init__(  # noqa: PLR0913 - each by name
        self,
        *,
        to: str,
        budget: Budget,
        beside: Sequence[Budget] = (),
        most: int,
        linger: float,
        patience: Callable[[E], float] = lambda _: 0.0,
        taken: Callable[[E], None],
    ) -> None:
        """`most` entries share a batch, which waits `linger` seconds for company: AWS bills by the batch.

        It waits longer if each of its entries has `patience` for so many seconds. `to` names who takes them, `taken` is
        called with each entry that was, and `beside` are the budgets of where entries come from and of where they go then.
        """
        self.to = to
        self._budget = budget
        self._budgets = (budget, *beside)
        self._most = most
        self._linger = linger
        self._patience = patience
        self._due = math.inf
        """When the batch has waited long enough, by the monotonic clock."""
        self._taken = taken
        self._waiting: OrderedDict[int, deque[E]] = OrderedDict()
        """By source, those with entries only; the one whose turn it is comes first."""
        self._waiting_count = self._waiting_bytes = 0
        self._in_flight: dict[UUID, E] = {}
        self._of_receipt: Counter[UUID] = Counter()
        """How many entries are here, by receipt."""
        self._sendable, self._full, self._empty = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._draining = False
        self._signal()

    def __len__(self) -> int:
        """How many entries are here, in flight or not."""
        return self._waiting_count + len(self._in_flight)

    @property
    def oldest(self) -> int | None:
        """When the oldest entry here was observed."""
        held = chain(*self._waiting.values(), self._in_flight.values())
        return min((entry.observed_at for entry in held), default=None)

    def holds(self, receipt: "UUID") -> bool:
        """Whether an entry with this receipt is here, in flight or not."""
        return receipt in self._of_receipt

    def add(self, entry: E) -> None:
        self._budget[entry.source].take(entry.held_size)
        self._of_receipt[entry.receipt] += 1
        self._queue_of(entry).append(entry)
        self._let_wait(max(self._linger, self._patience(entry)))
        self._signal()

    def is_crowded(self, source: int) -> bool:
        """Whether half of the source's share is taken."""
        return self._budget[source].crowded

    def is_full(self, source: int) -> bool:
        """Whether the source's share is taken, here or where its entries come from or go to."""
        return any(budget[source].full for budget in self._budgets)

    async def wait_for_space(self, source: int) -> None:
        """Wait while `is_full`."""
        while self.is_full(source):
            for budget in self._budgets:
                await budget[source].free()

    async def take(self) -> list[E]:
        """Wait until it holds entries, then take as many as one batch may hold, until `done`."""
        while True:
            await self._sendable.wait()
            while not self._full.is_set() and (left := self._due - time.monotonic()) > 0:
                # One with less patience may come meanwhile.
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._full.wait(), min(left, self._linger))
            if self._sendable.is_set():
                return self._batch()

    def done(self, batch: Sequence[E], failed: Sequence[E] = ()) -> None:
        """Let go of `batch`, except for what was not taken, which is first of its source's again."""
        kept = {entry.id for entry in failed}
        for entry in batch:
            del self._in_flight[entry.id]
            if entry.id not in kept:
                self._leave(entry)
                self._taken(entry)
        for entry in reversed(failed):
            self._queue_of(entry).appendleft(entry)
            self._let_wait(self._linger)
        self._signal()

    async def drain(self) -> None:
        """Wait until everything was taken, and let nothing linger any more."""
        self._draining = True
        self._signal()
        await self._empty.wait()

    def _batch(self) -> list[E]:
        """At least one entry, if any waits: one that is larger than a batch may be leaves alone."""
        batch: list[E] = []
        free = BATCH_BYTES
        while self._waiting and len(batch) < self._most:
            source, entries = next(iter(self._waiting.items()))
            if batch and entries[0].wire_size > free:
                break
            entry = self._next(source)
            free -= entry.wire_size
            batch.append(entry)
            self._in_flight[entry.id] = entry
        self._due = math.inf
        if self._waiting:
            self._let_wait(self._linger)
        self._signal()
        return batch

    def _let_wait(self, seconds: float) -> None:
        self._due = min(self._due, time.monotonic() + seconds)

    def _queue_of(self, entry: E) -> deque[E]:
        """Where to put the `entry`, which is counted."""
        self._waiting_count += 1
        self._waiting_bytes += entry.wire_size
        return self._waiting.setdefault(entry.source, deque())

    def _next(self, source: int) -> E:
        """Take out the first entry of `source`, whose next turn comes after all others'."""
        entries = self._waiting[source]
        entry = entries.popleft()
        self._waiting_count -= 1
        self._waiting_bytes -= entry.wire_size
        if entries:
            self._waiting.move_to_end(source)
        else:
            del self._waiting[source]
        return entry

    def _leave(self, entry: E) -> None:
        self._budget[entry.source].give_back(entry.held_size)
        self._of_receipt[entry.receipt] -= 1
        if not self._of_receipt[entry.receipt]:
            del self._of_receipt[entry.receipt]

    def _signal(self) -> None:
        """Wake those who wait for what is true now."""
        waiting = self._waiting_count
        for event, holds in (
            (self._sendable, waiting > 0),
            (self._full, self._draining or waiting >= self._most or self._waiting_bytes >= BATCH_BYTES),
            (self._empty, not len(self)),
        ):
            if holds:
                event.set()
            else:
                event.clear()


async def send_forever[E: Entry](outbox: Outbox[E], send: Callable[[Sequence[E]], list[E]], in_flight: int) -> None:
    """Send what is in the outbox, so many batches at once; what fails is held and tried again after a pause.

    `send` blocks, so it runs in a thread; it returns the entries that were not taken.
    """
    pause = 0.0

    async def deliver(batch: Sequence[E]) -> None:
        nonlocal pause
        failed: Sequence[E] = batch
        try:
            failed = await asyncio.to_thread(send, batch)
        except AWS_ERRORS as error:
            log.warning("nothing was taken", extra={"by": outbox.to, "error": describe(error)})
        finally:
            outbox.done(batch, failed)
        pause = min(_LONGEST_PAUSE, pause * 2 or _FIRST_PAUSE) if failed else 0.0
        if failed:
            log.warning("messages held", extra={"by": outbox.to, "failed": len(failed), "held": len(outbox)})
            await asyncio.sleep(pause)
        free.release()

    free = asyncio.Semaphore(in_flight)
    async with asyncio.TaskGroup() as deliveries:
        while True:
            await free.acquire()
            deliveries.create_task(deliver(await outbox.take()))
