"""The Lambda behind the queue of the lake's new files: writes the deliveries of each beside it.

S3 sends a message for each file that Firehose has written, now and then twice: the same file makes the same object.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from functools import cache
from gzip import GzipFile
from io import BufferedReader
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import unquote_plus

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext
from pydantic import ValidationError

from clarion import aws
from clarion.deliveries import DeliveryRecord, pack
from clarion.events import NotificationDecided, PushTried
from clarion.faults import AWS_ERRORS, describe
from clarion.storage import deliveries_key

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

MODELS: Mapping[bytes, type[PushTried] | type[NotificationDecided]] = {
    b'"event":"push"': PushTried,
    b'"event":"notification"': NotificationDecided,
}

logger = Logger(service="deliveries")


class LakeFile(NamedTuple):
    bucket: str
    key: str


def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, list[dict[str, str]]]:
    """Partial failures: https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html"""
    unfinished = [record["messageId"] for record in event["Records"] if not _index_all(_files(record["body"]))]
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in unfinished]}


def index(s3: "S3Client", file: LakeFile) -> None:
    """Write what became of whose pushes according to `file`, unless it says nothing of any."""
    with closing(s3.get_object(Bucket=file.bucket, Key=file.key)["Body"]) as body:
        # A StreamingBody is an IOBase that can be read; its type says less.
        raw = BufferedReader(cast("BufferedReader", body))
        deliveries = list(read(GzipFile(fileobj=raw) if file.key.endswith(".gz") else raw))
    if deliveries:
        s3.put_object(Bucket=file.bucket, Key=deliveries_key(file.key), Body=pack(deliveries))


def read(lines: Iterable[bytes]) -> Iterator[DeliveryRecord]:
    """The deliveries that a file's lines say. A line that can't be read is passed over: the pipeline reports those."""
    for line in lines:
        for mark, model in MODELS.items():
            if mark in line:
                yield from _delivery(model, line)


def _delivery(model: type[PushTried | NotificationDecided], line: bytes) -> Iterator[DeliveryRecord]:
    try:
        delivery = DeliveryRecord.of(model.model_validate_json(line))
    except ValidationError:
        logger.warning("unreadable line")
        return
    if delivery:
        yield delivery


def _files(body: str) -> list[LakeFile]:
    """Those that a message of S3 names; none in the one that it sends when the queue is configured.

    https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html
    """
    named = [record["s3"] for record in json.loads(body).get("Records", [])]
    return [LakeFile(one["bucket"]["name"], unquote_plus(one["object"]["key"])) for one in named]


def _index_all(files: Iterable[LakeFile]) -> bool:
    """Whether all could be."""
    for file in files:
        try:
            index(_s3(), file)
        except (*AWS_ERRORS, OSError, EOFError) as error:
            logger.error("not indexed", key=file.key, error=describe(error))  # noqa: TRY400 - its text may quote a row
            return False
    return True


@cache
def _s3() -> "S3Client":
    return aws.s3(aws.new_session())
