"""Where a statement's bytes come from: its message, or S3 if they were too large for one."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from clarion.messages import EnvelopeMessage

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


class Source:
    """`s3` makes the client: few invocations meet a large statement, and none should wait for it in vain."""

    def __init__(self, s3: Callable[[], "S3Client"], bucket: str) -> None:
        self._s3 = s3
        self._bucket = bucket

    def read(self, message: EnvelopeMessage) -> bytes:
        if message.location is None:
            return message.statement or b""
        return self._s3().get_object(Bucket=self._bucket, Key=message.location)["Body"].read()
