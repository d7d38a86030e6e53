"""Where things go: the queue of envelopes, with S3 for what is too large for it; the queues of commands; the lake.

All block while they talk to AWS, and return what was not taken.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from clarion import sqs
from clarion.event_log import EventWriter
from clarion.events import EnvelopeObserved
from clarion.faults import AWS_ERRORS, describe
from clarion.sqs import SqsMessage
from ingest.delivery.outgoing import Outgoing, OutgoingCommand

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sqs import SQSClient

log = logging.getLogger(__name__)


class EnvelopeQueue:
    def __init__(self, client: "SQSClient", queue_url: str, s3: "S3Client", oversize_bucket: str) -> None:
        self._client = client
        self._url = queue_url
        self._s3 = s3
        self._bucket = oversize_bucket

    def store(self, batch: Sequence[Outgoing]) -> list[Outgoing]:
        """Put into S3 what is oversize, before it is sent."""
        return [one for one in batch if not self._store(one)]

    def send(self, batch: Sequence[Outgoing]) -> list[Outgoing]:
        return _send(self._client, self._url, batch)

    def _store(self, outgoing: Outgoing) -> bool:
        try:
            self._s3.put_object(Bucket=self._bucket, Key=outgoing.location, Body=outgoing.raw)
        except AWS_ERRORS as error:
            log.warning("envelope not stored", extra={"receipt": str(outgoing.receipt), "error": describe(error)})
            return False
        return True


class CommandQueues:
    """`urls` are by network."""

    def __init__(self, client: "SQSClient", urls: Mapping[str, str]) -> None:
        self._client = client
        self._urls = urls

    def send(self, batch: Sequence[OutgoingCommand]) -> list[OutgoingCommand]:
        """As `EnvelopeQueue.send`; the commands of one batch are of one network."""
        if not batch:
            return []
        return _send(self._client, self._urls[batch[0].command.network], batch)


class LakeStream:
    """What was forwarded, as lines that share a record and a call."""

    def __init__(self, events: EventWriter) -> None:
        self._events = events

    def put(self, batch: Sequence[Outgoing]) -> list[Outgoing]:
        by_line = {_line(outgoing): outgoing for outgoing in batch}
        return [by_line[line] for line in self._events.write(by_line)]


def _line(outgoing: Outgoing) -> bytes:
    return EnvelopeObserved.of(outgoing.message, outgoing.observed_at).to_line()


def _send[Entry: (Outgoing, OutgoingCommand)](client: "SQSClient", url: str, batch: Sequence[Entry]) -> list[Entry]:
    refusals = sqs.send(client, url, [SqsMessage(one.message.to_json()) for one in batch])
    if reasons := {refusal for refusal in refusals if refusal}:
        log.warning("messages not taken", extra={"by": url.rpartition("/")[2], "reasons": sorted(reasons)})
    return [one for one, refusal in zip(batch, refusals, strict=True) if refusal]
