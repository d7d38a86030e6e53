"""Sends messages to queues, as many in a request as fit."""

from collections.abc import Iterable, Iterator
from concurrent.futures import Executor
from typing import TYPE_CHECKING, NamedTuple

from match.faults import Fault, settle

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import SendMessageBatchRequestEntryTypeDef

ENTRIES = 10
REQUEST_BYTES = 1 << 20
"""https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html"""
ATTRIBUTE_BYTES = 512
"""Allowed for the attribute of a letter that has a reason."""


class Letter(NamedTuple):
    """`reason` says why a letter is on its way to a dead-letter queue."""

    queue_url: str
    body: str
    reason: str | None = None


type Parcel = list[Letter]
"""What one request sends, all of it to one queue."""


class Outbox:
    def __init__(self, sqs: "SQSClient", pool: Executor) -> None:
        self._sqs = sqs
        self._pool = pool

    def post(self, letters: Iterable[Letter]) -> dict[Letter, str]:
        """Send all and return what SQS did not take, and why."""
        refused: dict[Letter, str] = {}
        for parcel, answer in settle(self._pool, self._send, parcels(letters)):
            refused |= dict.fromkeys(parcel, answer.reason) if isinstance(answer, Fault) else answer
        return refused

    def _send(self, parcel: Parcel) -> dict[Letter, str]:
        entries = [_entry(str(number), letter) for number, letter in enumerate(parcel)]
        answer = self._sqs.send_message_batch(QueueUrl=parcel[0].queue_url, Entries=entries)
        return {
            parcel[int(failure["Id"])]: f"{failure['Code']} from SendMessageBatch"
            for failure in answer.get("Failed", ())
        }


def parcels(letters: Iterable[Letter]) -> Iterator[Parcel]:
    """Group letters by queue and size, each queue's in their order."""
    filling: dict[str, tuple[Parcel, int]] = {}
    for letter in letters:
        parcel, size = filling.get(letter.queue_url, ([], 0))
        weight = len(letter.body.encode()) + ATTRIBUTE_BYTES
        if len(parcel) == ENTRIES or (parcel and size + weight > REQUEST_BYTES):
            yield parcel
            parcel, size = [], 0
        parcel.append(letter)
        filling[letter.queue_url] = parcel, size + weight
    for parcel, _ in filling.values():
        yield parcel


def _entry(number: str, letter: Letter) -> "SendMessageBatchRequestEntryTypeDef":
    entry: SendMessageBatchRequestEntryTypeDef = {"Id": number, "MessageBody": letter.body}
    if letter.reason:
        entry["MessageAttributes"] = {"reason": {"DataType": "String", "StringValue": letter.reason[:ATTRIBUTE_BYTES]}}
    return entry
