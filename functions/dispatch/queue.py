"""What SQS brings and what goes back to it."""

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

ENTRIES = 10
"""of one batch call"""
LONGEST_REST = 11 * 3600
"""Seconds; SQS hides a message for 12 hours at most, counted from its receipt."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message as SQS hands it over; `attempt` counts from 1. `message` is None if it can't be read."""

    message_id: str
    handle: str
    body: str
    attempt: int
    message: PushMessage | None

    @classmethod
    def of(cls, record: dict[str, Any]) -> Self:
        try:
            message = PushMessage.model_validate_json(record["body"])
        except ValidationError:
            message = None
        attempt = int(record["attributes"]["ApproximateReceiveCount"])
        return cls(record["messageId"], record["receiptHandle"], record["body"], attempt, message)


class PushQueue:
    def __init__(self, sqs: "SQSClient", url: str, dead_letter_url: str | None) -> None:
        self._sqs = sqs
        self._url = url
        self._dead_letter_url = dead_letter_url

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

    def bury(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """Move messages to the dead-letter queue; returns those that must go the queue's own way to it."""
        if self._dead_letter_url is None:
            return list(deliveries)
        left = list(deliveries)
        for entries in batched(deliveries, ENTRIES, strict=False):
            with suppress(BotoCoreError, ClientError):
                answer = self._sqs.send_message_batch(
                    QueueUrl=self._dead_letter_url,
                    Entries=[{"Id": str(at), "MessageBody": delivery.body} for at, delivery in enumerate(entries)],
                )
                for buried in answer.get("Successful", []):
                    left.remove(entries[int(buried["Id"])])
        return left
