"""Sends push messages to the queues of their channels, ten at a time."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import batched
from typing import TYPE_CHECKING, NamedTuple

from clarion.decisions import NotifyType
from clarion.messages import PushMessage

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import SendMessageBatchRequestEntryTypeDef

ENTRIES = 10


class Parcel(NamedTuple):
    """What one request sends."""

    queue_url: str
    pushes: tuple[PushMessage, ...]


class Outbox:
    def __init__(self, sqs: "SQSClient", push_queues: Mapping[NotifyType, str]) -> None:
        self._sqs = sqs
        self._push_queues = push_queues

    def parcels(self, pushes: Iterable[PushMessage]) -> Iterator[Parcel]:
        waiting: dict[str, list[PushMessage]] = {}
        for push in pushes:
            waiting.setdefault(self._push_queues[push.notify_type], []).append(push)
        for queue_url, of_queue in waiting.items():
            for some in batched(of_queue, ENTRIES, strict=False):
                yield Parcel(queue_url, some)

    def send(self, parcel: Parcel) -> dict[PushMessage, str]:
        """Returns those that SQS did not take, and why."""
        entries: list[SendMessageBatchRequestEntryTypeDef] = [
            {"Id": str(number), "MessageBody": push.to_json()} for number, push in enumerate(parcel.pushes)
        ]
        answer = self._sqs.send_message_batch(QueueUrl=parcel.queue_url, Entries=entries)
        return {parcel.pushes[int(failure["Id"])]: failure["Code"] for failure in answer.get("Failed", ())}
