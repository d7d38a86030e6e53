"""Requests to erase rules that are out of force: whoever ends or replaces rules sends one before it does.

The queue delivers a message after a delay that is longer than any request runs. By then the tables say which rules
are dead, so a crash of the sender leaves nothing behind, and a message sent in vain erases nothing.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING
from uuid import UUID

from clarion.messages import CleanupMessage

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient


class CleanupQueue:
    def __init__(self, sqs: "SQSClient", url: str) -> None:
        self._sqs = sqs
        self._url = url

    def send(self, subscription_ids: Iterable[str], through: int = 0) -> None:
        """Raise what the SDK raises. The arguments are as in `CleanupMessage`."""
        message = CleanupMessage(subscription_ids=tuple(map(UUID, subscription_ids)), through=through)
        self._sqs.send_message(QueueUrl=self._url, MessageBody=message.to_json())

    def send_claim(self, subscription_id: str, claim: int) -> None:
        """For `RuleSets`: what may be left of a set that is about to be written."""
        self.send([subscription_id], claim)
