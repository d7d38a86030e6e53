"""What SQS brings and what goes back to it.

    hot queue ──▶ a try ─┬─▶ done
      ▲ └ hidden, retry ─┤
      │                  ├─▶ held queue, delayed ──▶ a try …
      │                  └─▶ dead letters
      └── redrive ────────────────┘

A message that is hidden counts as in flight, of which SQS allows a queue 120,000; one that is delayed does not. So what
waits for somebody to fix an app waits in the held queue, and holds up nobody else's pushes. Each move is a sending
and then a deletion: a crash between the two repeats a push, recognisably, and loses none.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import batched
from math import ceil
from typing import TYPE_CHECKING, Any, Self

from botocore.exceptions import BotoCoreError, ClientError
from pydantic import ValidationError

from clarion.messages import PushMessage

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import SendMessageBatchRequestEntryTypeDef

ENTRIES = 10
"""of one batch call"""
LONGEST_REST = 11 * 3600
"""Seconds; SQS hides a message for 12 hours at most, counted from its receipt."""
LONGEST_DELAY = 900
"""Seconds that SQS delays a message at most."""
ATTEMPTS_ATTRIBUTE = "attempts"
FAULTS_ATTRIBUTE = "token_faults"
"""The attributes of a held message that count its attempts so far, and those among them that may be its token's fault."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message as SQS hands it over; `attempt` counts from 1. `message` is None if it can't be read.

    `held`: it was held before, so it comes from the held queue. `token_faults` is how many attempts before this one met
    a fault that may be the token's alone.
    """

    message_id: str
    handle: str
    body: str
    attempt: int
    message: PushMessage | None
    held: bool = False
    token_faults: int = 0

    @classmethod
    def of(cls, record: dict[str, Any]) -> Self:
        try:
            message = PushMessage.model_validate_json(record["body"])
        except ValidationError:
            message = None
        before = _count(record, ATTEMPTS_ATTRIBUTE)
        return cls(
            message_id=record["messageId"],
            handle=record["receiptHandle"],
            body=record["body"],
            attempt=before + int(record["attributes"]["ApproximateReceiveCount"]),
            message=message,
            held=before > 0,
            token_faults=_count(record, FAULTS_ATTRIBUTE),
        )


class PushQueue:
    def __init__(self, sqs: "SQSClient", url: str, dead_letter_url: str | None, held_url: str | None) -> None:
        self._sqs = sqs
        self._url = url
        self._dead_letter_url = dead_letter_url
        self._held_url = held_url

    def postpone(self, delays: Iterable[tuple[Delivery, float]]) -> None:
        """Hide each message for so many seconds. One that SQS fails to hide comes back after the usual time."""
        for entries in batched(delays, ENTRIES, strict=False):
            with suppress(BotoCoreError, ClientError):
                self._sqs.change_message_visibility_batch(
                    QueueUrl=self._url,
                    Entries=[
                        {
                            "Id": str(at),
                            "ReceiptHandle": delivery.handle,
                            "VisibilityTimeout": min(ceil(seconds), LONGEST_REST),
                        }
                        for at, (delivery, seconds) in enumerate(entries)
                    ],
                )

    def hold(self, delays: Iterable[tuple[Delivery, float]]) -> list[str]:
        """Move each message to the held queue, delayed by so many seconds; returns the ids of those left behind."""
        return self._send(self._held_url, [_held(delivery, seconds) for delivery, seconds in delays])

    def dead_letter(self, deliveries: Sequence[Delivery]) -> list[str]:
        """Move messages to the dead-letter queue; returns the ids of those that must go the queue's own way to it."""
        return self._send(
            self._dead_letter_url,
            [{"Id": delivery.message_id, "MessageBody": delivery.body} for delivery in deliveries],
        )

    def _send(self, url: str | None, entries: "Sequence[SendMessageBatchRequestEntryTypeDef]") -> list[str]:
        """Returns the ids of those that were not sent."""
        sent: set[str] = set()
        if url is not None:
            for some in batched(entries, ENTRIES, strict=False):
                with suppress(BotoCoreError, ClientError):
                    answer = self._sqs.send_message_batch(QueueUrl=url, Entries=some)
                    sent.update(one["Id"] for one in answer.get("Successful", []))
        return [entry["Id"] for entry in entries if entry["Id"] not in sent]


def _held(delivery: Delivery, seconds: float) -> "SendMessageBatchRequestEntryTypeDef":
    return {
        "Id": delivery.message_id,
        "MessageBody": delivery.body,
        "DelaySeconds": min(ceil(seconds), LONGEST_DELAY),
        "MessageAttributes": {
            ATTEMPTS_ATTRIBUTE: {"DataType": "Number", "StringValue": str(delivery.attempt)},
            FAULTS_ATTRIBUTE: {"DataType": "Number", "StringValue": str(delivery.token_faults)},
        },
    }


def _count(record: dict[str, Any], attribute: str) -> int:
    return int(record.get("messageAttributes", {}).get(attribute, {}).get("stringValue", 0))
