"""The statements queue: one SendMessageBatch at a time, with S3 for what is too large for a message."""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING
from weakref import WeakSet

from botocore.exceptions import BotoCoreError, ClientError

from ingest.letter import Letter

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sqs import SQSClient


log = logging.getLogger(__name__)


class StatementsQueue:
    def __init__(self, sqs: "SQSClient", queue_url: str, s3: "S3Client", oversize_bucket: str) -> None:
        self._sqs = sqs
        self._url = queue_url
        self._s3 = s3
        self._bucket = oversize_bucket
        self._stored: WeakSet[Letter] = WeakSet()

    def store_oversize(self, batch: Sequence[Letter]) -> list[Letter]:
        """Put into S3, once, what is too large for a message; return what isn't there, which is not to be sent."""
        return [
            letter for letter in batch if letter.oversize and letter not in self._stored and not self._store(letter)
        ]

    def _store(self, letter: Letter) -> bool:
        try:
            self._s3.put_object(Bucket=self._bucket, Key=letter.location, Body=letter.statement)
        except (BotoCoreError, ClientError) as error:
            log.warning("statement not stored", extra={"receipt": str(letter.receipt), "error": repr(error)})
            return False
        self._stored.add(letter)
        return True

    def send(self, batch: Sequence[Letter]) -> list[Letter]:
        """Return the letters that SQS did not take. Raise what the SDK raises; then none may count as taken."""
        entries = [{"Id": str(index), "MessageBody": letter.message.to_json()} for index, letter in enumerate(batch)]
        answer = self._sqs.send_message_batch(QueueUrl=self._url, Entries=entries)  # type: ignore[arg-type] # the stub's TypedDict
        return [batch[int(failure["Id"])] for failure in answer.get("Failed", [])]
