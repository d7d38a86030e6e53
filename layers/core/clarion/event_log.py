"""How events reach the lake: by Firehose, or by the queue of late events while Firehose takes none.

    component ─┬─ taken ───────▶ Firehose ──▶ lake
               │                    ▲
               └─ refused ─┐        └─ function `late-events`
                           ▼              ▲
                     queue `late-events` ─┘

Pushes travel by SQS as well, so an event is lost only where no push would be sent either. A worker that Firehose has
failed goes straight to the queue for a while: an outage costs it one request in each `PAUSE_SECONDS`, after the
pushes of an invocation have been sent. A connection that was closed while it was idle is no such failure.

Firehose bills each record as at least 5 KB, so the lines of one invocation travel packed, in one call. A record that is
refused becomes one message.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import batched
from random import uniform
from typing import TYPE_CHECKING

from botocore.exceptions import ConnectionClosedError

from clarion import sqs
from clarion.batching import by_size
from clarion.events import Event
from clarion.faults import AWS_ERRORS, describe
from clarion.settings import EventSettings
from clarion.sqs import SqsMessage

if TYPE_CHECKING:
    from mypy_boto3_firehose import FirehoseClient
    from mypy_boto3_firehose.type_defs import PutRecordBatchOutputTypeDef, RecordTypeDef
    from mypy_boto3_sqs import SQSClient

RECORD_BYTES = 900_000
"""Firehose takes records of up to 1,000 KiB, SQS messages of 1,024.

https://docs.aws.amazon.com/firehose/latest/dev/limits.html
"""
RECORDS_PER_CALL = 4
PAUSE_SECONDS = 60.0
"""So long on average, lest all workers ask a Firehose that hangs at the same time."""
CLOSED_SECONDS = 0.5
"""By then a request has met that its connection was closed before."""

log = logging.getLogger(__name__)

type Pack = list[bytes]
"""What shares a record: lines, or some of them already joined."""


class EventStream:
    """Firehose, a call at a time; see `calls`."""

    def __init__(self, firehose: "FirehoseClient", name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._firehose = firehose
        self._name = name
        self._clock = clock

    def put(self, packs: Sequence[Pack]) -> list[Pack]:
        """Return what Firehose did not take. Raise what the SDK raises."""
        entries: list[RecordTypeDef] = [{"Data": b"".join(pack)} for pack in packs]
        answer = self._ask(entries)
        if not answer["FailedPutCount"]:
            return []
        codes = [outcome.get("ErrorCode") for outcome in answer["RequestResponses"]]
        log.warning("events are late: %s from PutRecordBatch", ", ".join(sorted({code for code in codes if code})))
        return [pack for pack, code in zip(packs, codes, strict=True) if code]

    def _ask(self, entries: "Sequence[RecordTypeDef]") -> "PutRecordBatchOutputTypeDef":
        """Once more at once if the connection proves to be closed, as one is that was idle while Lambda held the function."""
        asked_at = self._clock()
        try:
            return self._firehose.put_record_batch(DeliveryStreamName=self._name, Records=entries)
        except ConnectionClosedError:
            if self._clock() - asked_at > CLOSED_SECONDS:
                raise
        return self._firehose.put_record_batch(DeliveryStreamName=self._name, Records=entries)


class EventWriter:
    """Firehose, and the queue for what it does not take. Several threads may write."""

    def __init__(
        self,
        firehose: "FirehoseClient",
        queues: "SQSClient",
        settings: EventSettings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = EventStream(firehose, settings.events_stream, clock)
        self._queues = queues
        self._late_queue_url = settings.late_events_queue_url
        self._clock = clock
        self._paused_until = float("-inf")

    def write(self, lines: Iterable[bytes]) -> list[bytes]:
        """Return the lines that neither took."""
        return [line for packs in calls(lines) for line in self._send(self._put(packs))]

    def _put(self, packs: Sequence[Pack]) -> Sequence[Pack]:
        """Return what Firehose did not take, or was not asked to."""
        if self._clock() < self._paused_until:
            return packs
        try:
            return self._stream.put(packs)
        except AWS_ERRORS as error:
            self._paused_until = self._clock() + PAUSE_SECONDS * uniform(0.5, 1.5)  # noqa: S311 - it spreads load
            log.warning("events are late: %s", describe(error))
            return packs

    def _send(self, packs: Sequence[Pack]) -> Iterator[bytes]:
        """The lines that the queue did not take."""
        messages = [SqsMessage(b"".join(pack).decode()) for pack in packs]
        refusals = sqs.send(self._queues, self._late_queue_url, messages)
        return (line for pack, refusal in zip(packs, refusals, strict=True) if refusal for line in pack)


class EventLog:
    """Collects the events of one invocation and writes them at its end."""

    def __init__(self, writer: EventWriter) -> None:
        self._writer = writer
        self._lines: list[bytes] = []

    def add(self, event: Event) -> None:
        self._lines.append(event.to_line())

    def flush(self) -> int:
        """Write what was collected and return how many lines are lost.

        That fails no invocation: what was decided has been done, and would be done again, with a push for each time.
        """
        lines, self._lines = self._lines, []
        return len(self._writer.write(lines))


def calls(lines: Iterable[bytes]) -> Iterator[tuple[Pack, ...]]:
    """What to `put`, call by call."""
    return batched(by_size(lines, len, RECORD_BYTES), RECORDS_PER_CALL, strict=False)
