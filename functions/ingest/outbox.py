"""Statements on their way to the queue: held until SQS has taken them, bounded in bytes."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from botocore.exceptions import BotoCoreError, ClientError

BATCH_MESSAGES = 10
BATCH_BYTES = 1_048_576
"""What SendMessageBatch takes; https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessageBatch.html"""

ENVELOPE_BYTES = 256
"""More than a message has around its statement."""

_LONGEST_PAUSE = 5.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Letter:
    """A statement to be sent; `observed_at` is in UNIX milliseconds."""

    receipt: UUID
    observed_at: int
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
    """A queue of letters, oldest first. `add` always takes; who adds awaits `settle` before taking in more."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._held = 0
        self._waiting: deque[Letter] = deque()
        self._changed = asyncio.Condition()

    @property
    def held(self) -> int:
        """Bytes that SQS has not confirmed."""
        return self._held

    def add(self, letter: Letter) -> None:
        self._waiting.append(letter)
        self._held += letter.held_size

    async def settle(self) -> None:
        """Wake those who send, then wait until there is room for more."""
        async with self._changed:
            self._changed.notify_all()
            await self._changed.wait_for(lambda: self._held < self._capacity)

    async def take(self) -> list[Letter]:
        """Wait for letters and take as many as one batch may hold; they stay held until `sent`."""
        async with self._changed:
            await self._changed.wait_for(lambda: bool(self._waiting))
            batch: list[Letter] = []
            room = BATCH_BYTES
            while self._waiting and len(batch) < BATCH_MESSAGES and self._waiting[0].wire_size <= room:
                room -= self._waiting[0].wire_size
                batch.append(self._waiting.popleft())
            return batch

    async def sent(self, batch: Sequence[Letter], failed: Sequence[Letter] = ()) -> None:
        """Let go of `batch`, except for what SQS did not take, which is first in line again."""
        async with self._changed:
            self._waiting.extendleft(reversed(failed))
            self._held -= sum(letter.held_size for letter in batch) - sum(letter.held_size for letter in failed)
            self._changed.notify_all()

    async def empty(self) -> None:
        """Wait until SQS has everything."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._held)


async def send_forever(outbox: Outbox, send: Callable[[Sequence[Letter]], list[Letter]]) -> None:
    """Send what is in the outbox, batch after batch; what fails is held and tried again after a growing pause.

    `send` blocks, so it runs in a thread; it returns the letters that SQS did not take.
    """
    pause = 0.0
    while True:
        batch = await outbox.take()
        failed: Sequence[Letter] = batch
        try:
            failed = await asyncio.to_thread(send, batch)
        except (BotoCoreError, ClientError) as error:
            log.warning("the queue took nothing", extra={"error": type(error).__name__})
        finally:
            await outbox.sent(batch, failed)
        if not failed:
            pause = 0.0
            continue
        log.warning("statements held", extra={"count": len(failed), "held_bytes": outbox.held})
        pause = min(_LONGEST_PAUSE, pause * 2 or 0.1)
        await asyncio.sleep(pause)
