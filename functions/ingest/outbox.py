"""Statements on their way to the queue: held until SQS has taken them, bounded in bytes.

Open in the leader, which sends; shut in the standby, which keeps what it would send and lets go of what is old.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from uuid import UUID

from botocore.exceptions import BotoCoreError, ClientError

from ingest.fingerprints import Fingerprint

BATCH_MESSAGES = 10
BATCH_BYTES = 1_048_576
"""What SendMessageBatch takes; https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessageBatch.html"""

ENVELOPE_BYTES = 256
"""More than a message has around its statement."""

_LINGER = 0.02
"""Seconds that a batch waits for company: SQS bills by the batch."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Letter:
    """A statement to be sent; `observed_at` is in UNIX milliseconds."""

    receipt: UUID
    observed_at: int
    fingerprint: Fingerprint
    statement: bytes

    @property
    def oversize(self) -> bool:
        return _base64_size(self.statement) + ENVELOPE_BYTES > BATCH_BYTES

    @property
    def wire_size(self) -> int:
        """Bytes that it takes up of a batch, at most; one that is oversize travels by its location alone."""
        return ENVELOPE_BYTES if self.oversize else _base64_size(self.statement) + ENVELOPE_BYTES

    @property
    def held_size(self) -> int:
        """Bytes that it takes up here, roughly."""
        return len(self.statement) + ENVELOPE_BYTES


def _base64_size(content: bytes) -> int:
    return -(-len(content) // 3) * 4


class Outbox:
    """A queue of letters for one `send_forever`. `add` always takes; who adds awaits `settle` before adding more."""

    def __init__(self, capacity: int, handled: Callable[[Fingerprint], None]) -> None:
        """`capacity` is in bytes; `handled` is told of each statement that has left."""
        self._capacity = capacity
        self._handled = handled
        self._waiting: deque[Letter] = deque()
        self._in_flight: dict[UUID, Letter] = {}
        self._held_bytes = 0
        self._sendable, self._roomy, self._empty = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.is_open = False
        self._tell()

    def __len__(self) -> int:
        """How many letters SQS has not confirmed."""
        return len(self._waiting) + len(self._in_flight)

    @property
    def oldest(self) -> int | None:
        """When the oldest letter here was observed."""
        held = chain(self._waiting, self._in_flight.values())
        return min((letter.observed_at for letter in held), default=None)

    def add(self, letter: Letter) -> None:
        self._waiting.append(letter)
        self._held_bytes += letter.held_size
        self._tell()

    async def settle(self) -> None:
        """Wait until there is room for more, and give way in any case: a node may send on without a pause."""
        await asyncio.sleep(0)
        await self._roomy.wait()

    async def take(self) -> list[Letter]:
        """Wait until it is open and holds letters, then take as many as one batch may hold, until `done`."""
        while True:
            await self._sendable.wait()
            if len(self._waiting) < BATCH_MESSAGES:
                await asyncio.sleep(_LINGER)
            if self._sendable.is_set():
                return self._batch()

    def done(self, batch: Sequence[Letter], failed: Sequence[Letter] = ()) -> None:
        """Let go of `batch`, except for what SQS did not take, which is first in line again."""
        kept = {letter.receipt for letter in failed}
        for letter in batch:
            del self._in_flight[letter.receipt]
            if letter.receipt not in kept:
                self._let_go(letter)
        self._waiting.extendleft(reversed(failed))
        self._tell()

    def set_open(self, *, is_open: bool) -> None:
        self.is_open = is_open
        self._tell()

    def drop_before(self, observed_at: int) -> None:
        """Let go of what was observed before: the leader has passed it on."""
        while self._waiting and self._waiting[0].observed_at < observed_at:
            self._let_go(self._waiting.popleft())
        self._tell()

    async def empty(self) -> None:
        """Wait until SQS has everything."""
        await self._empty.wait()

    def _batch(self) -> list[Letter]:
        batch: list[Letter] = []
        room = BATCH_BYTES
        while self._waiting and len(batch) < BATCH_MESSAGES and self._waiting[0].wire_size <= room:
            letter = self._waiting.popleft()
            room -= letter.wire_size
            batch.append(letter)
            self._in_flight[letter.receipt] = letter
        self._tell()
        return batch

    def _let_go(self, letter: Letter) -> None:
        self._held_bytes -= letter.held_size
        self._handled(letter.fingerprint)

    def _tell(self) -> None:
        """Wake those who wait for what is true now."""
        for event, holds in (
            (self._sendable, self.is_open and bool(self._waiting)),
            (self._roomy, self._held_bytes < self._capacity),
            (self._empty, not len(self)),
        ):
            if holds:
                event.set()
            else:
                event.clear()


async def send_forever(outbox: Outbox, send: Callable[[Sequence[Letter]], list[Letter]], in_flight: int) -> None:
    """Send what is in the outbox, so many batches at once; what fails is held and tried again after a pause.

    `send` blocks, so it runs in a thread; it returns the letters that SQS did not take.
    """
    pause = 0.0

    async def deliver(batch: Sequence[Letter]) -> None:
        nonlocal pause
        failed: Sequence[Letter] = batch
        try:
            failed = await asyncio.to_thread(send, batch)
        except (BotoCoreError, ClientError) as error:
            log.warning("the queue took nothing", extra={"error": repr(error)})
        finally:
            outbox.done(batch, failed)
        pause = min(_LONGEST_PAUSE, pause * 2 or _FIRST_PAUSE) if failed else 0.0
        if failed:
            log.warning("statements held", extra={"failed": len(failed), "held": len(outbox)})
            await asyncio.sleep(pause)
        free.release()

    free = asyncio.Semaphore(in_flight)
    async with asyncio.TaskGroup() as deliveries:
        while True:
            await free.acquire()
            deliveries.create_task(deliver(await outbox.take()))
