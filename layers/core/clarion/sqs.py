"""Sending to queues, hiding what is tried again later, and dead-lettering: each as many messages in a request as fit.

https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from itertools import batched
from math import ceil
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from clarion.batching import by_size
from clarion.faults import AWS_ERRORS, describe

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import (
        ChangeMessageVisibilityBatchRequestEntryTypeDef,
        SendMessageBatchRequestEntryTypeDef,
    )

ENTRIES = 10
"""Of one request, at most."""
REQUEST_BYTES = 1 << 20
LONGEST_DELAY = 900
"""Seconds that a message may be delayed when it is sent."""
LONGEST_VISIBILITY = 11 * 3600
"""Seconds; SQS hides a message for 12 hours at most, counted from its receipt."""
REASON = "reason"
"""The attribute that says why a message is among the dead letters."""
_REASON_BYTES = 512


class SqsMessage(NamedTuple):
    """A message to be sent. Numbers become attributes of SQS's type `Number`; `delay` is in seconds."""

    body: str
    attributes: Mapping[str, str | int] = MappingProxyType({})
    delay: float = 0

    @property
    def size(self) -> int:
        """Bytes, as SQS counts them: the body, and each attribute's name, type and value."""
        attributes = sum(
            len(name) + len("String") + len(str(value).encode()) for name, value in self.attributes.items()
        )
        return len(self.body.encode()) + attributes


class Received(NamedTuple):
    """A message as it was received; `receives` counts from 1. `attributes` are those of type String or Number."""

    message_id: str
    receipt_handle: str
    body: str
    receives: int
    attributes: Mapping[str, str] = MappingProxyType({})

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        """A record of a Lambda's event: https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html"""
        attributes = record.get("messageAttributes", {}).items()
        return cls(
            message_id=record["messageId"],
            receipt_handle=record["receiptHandle"],
            body=record["body"],
            receives=int(record["attributes"]["ApproximateReceiveCount"]),
            attributes={name: one["stringValue"] for name, one in attributes if "stringValue" in one},
        )


def dead_letter(body: str, reason: str) -> SqsMessage:
    return SqsMessage(body, {REASON: reason.encode()[:_REASON_BYTES].decode(errors="ignore")})


def send(
    sqs: "SQSClient", queue_url: str, messages: Sequence[SqsMessage], executor: Executor | None = None
) -> list[str | None]:
    """For each message None, or why SQS did not take it. Several requests run at once in `executor`."""
    return send_to_queues(sqs, [(queue_url, message) for message in messages], executor)


def send_to_queues(
    sqs: "SQSClient", messages: Sequence[tuple[str, SqsMessage]], executor: Executor | None = None
) -> list[str | None]:
    """As `send`, but each message to the queue whose URL it comes with."""
    by_queue: dict[str, list[SqsMessage]] = defaultdict(list)
    for queue_url, message in messages:
        by_queue[queue_url].append(message)
    requests = [(queue_url, batch) for queue_url, some in by_queue.items() for batch in batches(some)]
    each = executor.map if executor and len(requests) > 1 else map
    refusals: dict[str, deque[str | None]] = defaultdict(deque)
    answers = each(lambda request: _send(sqs, *request), requests)
    for (queue_url, _), refused in zip(requests, answers, strict=True):
        refusals[queue_url].extend(refused)
    return [refusals[queue_url].popleft() for queue_url, _ in messages]


def batches(messages: Iterable[SqsMessage]) -> Iterator[list[SqsMessage]]:
    """The messages in their order, as many together as one request takes."""
    return by_size(messages, lambda message: message.size, REQUEST_BYTES, ENTRIES)


def change_visibility(
    sqs: "SQSClient", queue_url: str, delays: Iterable[tuple[str, float]], executor: Executor | None = None
) -> None:
    """Hide each message, by its receipt handle, for so many seconds. Where SQS fails, the queue's visibility applies."""
    each = executor.map if executor else map
    for _ in each(partial(_change_visibility, sqs, queue_url), list(batched(delays, ENTRIES, strict=False))):
        pass


def _send(sqs: "SQSClient", queue_url: str, batch: Sequence[SqsMessage]) -> list[str | None]:
    try:
        answer = sqs.send_message_batch(
            QueueUrl=queue_url, Entries=[_entry(str(number), message) for number, message in enumerate(batch)]
        )
    except AWS_ERRORS as error:
        return [describe(error)] * len(batch)
    sent = {entry["Id"] for entry in answer.get("Successful", ())}
    failed = {failure["Id"]: failure["Code"] for failure in answer.get("Failed", ())}
    return [
        None if name in sent else f"{failed.get(name, 'no result')} from SendMessageBatch"
        for name in map(str, range(len(batch)))
    ]


def _entry(number: str, message: SqsMessage) -> "SendMessageBatchRequestEntryTypeDef":
    entry: SendMessageBatchRequestEntryTypeDef = {"Id": number, "MessageBody": message.body}
    if message.delay:
        entry["DelaySeconds"] = min(ceil(message.delay), LONGEST_DELAY)
    if message.attributes:
        entry["MessageAttributes"] = {
            name: {"DataType": "Number" if isinstance(value, int) else "String", "StringValue": str(value)}
            for name, value in message.attributes.items()
        }
    return entry


def _change_visibility(sqs: "SQSClient", queue_url: str, delays: Sequence[tuple[str, float]]) -> None:
    entries: list[ChangeMessageVisibilityBatchRequestEntryTypeDef] = [
        {"Id": str(number), "ReceiptHandle": handle, "VisibilityTimeout": min(ceil(seconds), LONGEST_VISIBILITY)}
        for number, (handle, seconds) in enumerate(delays)
    ]
    try:
        sqs.change_message_visibility_batch(QueueUrl=queue_url, Entries=entries)
    except AWS_ERRORS:
        # The messages come again after the queue's visibility.
        return
