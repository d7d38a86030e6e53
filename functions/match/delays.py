"""How soon what failed comes again: at once at first, for most faults pass, and ever later while they don't.

Left alone, a message stays hidden for the queue's visibility: minutes, and so too late for any call.
"""

from collections.abc import Iterable
from concurrent.futures import Executor
from itertools import batched
from typing import TYPE_CHECKING, NamedTuple

from match.faults import settle
from match.outbox import ENTRIES

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

FIRST, GROWTH, LONGEST = 2, 5, 300
"""Seconds, factor, seconds: 2, 10, 50, 250. Eight receives bridge twenty minutes of trouble."""


class Receipt(NamedTuple):
    """What SQS knows a message by while it is being worked on; `receives` counts from 1."""

    handle: str
    receives: int

    @property
    def delay(self) -> int:
        """Seconds until it is to come again."""
        grown: int = FIRST * GROWTH ** (self.receives - 1)
        return min(grown, LONGEST)


class Delays:
    def __init__(self, sqs: "SQSClient", queue_url: str, pool: Executor) -> None:
        self._sqs = sqs
        self._queue_url = queue_url
        self._pool = pool

    def postpone(self, failed: Iterable[Receipt]) -> None:
        """Each comes again after its delay; one that SQS does not take note of, after the queue's visibility."""
        settle(self._pool, self._hide, batched(failed, ENTRIES, strict=False))

    def _hide(self, failed: tuple[Receipt, ...]) -> None:
        self._sqs.change_message_visibility_batch(
            QueueUrl=self._queue_url,
            Entries=[
                {"Id": str(number), "ReceiptHandle": one.handle, "VisibilityTimeout": one.delay}
                for number, one in enumerate(failed)
            ],
        )
