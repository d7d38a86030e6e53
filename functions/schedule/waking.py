"""Waking who is due: one push message each, ten to a request, many requests at once.

They go to the queues of what can wait, by which no call or alert waits behind them.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from hashlib import sha256
from itertools import batched
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from aws_lambda_powertools import Logger

from clarion.channels import Channel
from clarion.decisions import Purpose, Wanted
from clarion.faults import describe
from clarion.messages import PushMessage
from clarion.own_pushes import WakeUpBody
from clarion.sqs import SqsMessage, send_to_queues
from clarion.tables import WakeUp
from clarion.wake_ups import DueSlot

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

THREADS = 32
BATCH = 300
"""Entries whose messages are sent side by side: no request waits for a thread, so that none is late in a batch."""
BODY = WakeUpBody()

type Queued = tuple[str, SqsMessage]
"""A queue's URL, and what it is sent."""

logger = Logger(service="schedule")


@dataclass(slots=True)
class WakeUpReport:
    """How many messages SQS took, and how many not: those are not sent again, as their next minute is near."""

    sent: int = 0
    unsent: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeUps:
    sqs: "SQSClient"
    held_queues: Mapping[Channel, str]
    executor: Executor

    def run(self, slots: Iterable[DueSlot], until: float) -> WakeUpReport:
        """Wake all in `slots`. What is not sent by `until`, in seconds of the monotonic clock, is only counted."""
        report = WakeUpReport()
        for due, found in _entries(slots, self.executor):
            entries = [entry for entry in found if entry.channel in self.held_queues]
            sent = self._send(self._messages(due, entries)) if time.monotonic() < until else 0
            report.sent += sent
            report.unsent += len(entries) - sent
        return report

    def _messages(self, due: DueSlot, entries: Iterable[WakeUp]) -> Iterator[Queued]:
        for entry in entries:
            if push := _push(entry, due):
                yield self.held_queues[push.channel], SqsMessage(push.to_json())

    def _send(self, messages: Iterable[Queued]) -> int:
        """How many SQS took, at the second attempt at the latest."""
        tried = unsent = list(messages)
        for _ in range(2):
            refusals = send_to_queues(self.sqs, unsent, self.executor)
            unsent = [message for message, refusal in zip(unsent, refusals, strict=True) if refusal]
        return len(tried) - len(unsent)


def wake_up(entry: WakeUp, due: DueSlot) -> PushMessage:
    """One subscription's of one minute: the id stays when it is sent again. It is of use until the next one is due.

    It counts as observed when its minute begins, so that the latency of its push is how late the app is woken.
    """
    return PushMessage(
        network=entry.network,
        purpose=Purpose.WAKE_UP,
        receipt=uuid4(),
        observed_at=due.minute * 60_000,
        envelope_id=sha256(f"wake_up {due.next_minute} {entry.subscription_id}".encode()).digest(),
        subscription_id=UUID(entry.subscription_id),
        client_id=entry.client_id,
        channel=Channel(entry.channel),
        wanted=Wanted.BACKGROUND,
        expires_at=due.next_minute * 60,
        body=BODY,
    )


def _push(entry: WakeUp, due: DueSlot) -> PushMessage | None:
    """None for an entry that can't be read, which must not keep the others asleep."""
    try:
        return wake_up(entry, due)
    except (ValueError, TypeError) as error:
        logger.error("not woken", subscription_id=entry.subscription_id, error=describe(error))  # noqa: TRY400 - its text may quote the row
        return None


def _entries(slots: Iterable[DueSlot], executor: Executor) -> Iterator[tuple[DueSlot, Sequence[WakeUp]]]:
    """Some at a time. All slots are read side by side: clients choose their periods, so there may be 1,400 a minute."""
    listed = list(slots)
    for due, found in zip(listed, executor.map(_read, listed), strict=True):
        for entries in batched(found, BATCH, strict=False):
            yield due, entries


def _read(due: DueSlot) -> list[WakeUp]:
    return list(WakeUp.query(due.slot))
