from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from botocore.exceptions import ClientError

from clarion.networks.statements.codec import MAX_SIZE
from ingest.letter import ENVELOPE_BYTES, MOST_BYTES, Letter
from ingest.statements_queue import StatementsQueue
from ingest.task import Clients

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from tests.ingest.conftest import ReceivedQueue


def letter(statement: bytes) -> Letter:
    return Letter(uuid4(), 1_700_000_000_000, 1, statement)


def test_a_message_carries_receipt_time_and_statement(queue: StatementsQueue, received: "ReceivedQueue") -> None:
    sent = letter(b"\xff\x00statement")
    assert queue.send([sent]) == []
    (message,) = received.read()
    assert (message.receipt, message.observed_at, message.statement, message.location) == (
        sent.receipt,
        sent.observed_at,
        sent.statement,
        None,
    )


def test_a_statement_too_large_for_a_message_lies_in_s3(
    queue: StatementsQueue, received: "ReceivedQueue", s3: "S3Client"
) -> None:
    large = letter(b"\xaa" * MAX_SIZE)
    batch = [letter(b"small"), large]
    queue.store_oversize(batch)
    assert queue.send(batch) == []
    by_receipt = {message.receipt: message for message in received.read()}
    message = by_receipt[large.receipt]
    assert message.statement is None
    assert message.location == f"statements/{large.receipt}"
    assert s3.get_object(Bucket="oversize", Key=message.location)["Body"].read() == large.statement


def test_a_statement_that_lies_in_s3_is_not_put_there_again(queue: StatementsQueue, s3: "S3Client") -> None:
    batch = [letter(b"\xaa" * MAX_SIZE)]
    queue.store_oversize(batch)
    s3.delete_object(Bucket="oversize", Key=f"statements/{batch[0].receipt}")
    queue.store_oversize(batch)
    assert "Contents" not in s3.list_objects_v2(Bucket="oversize")


def test_the_largest_statement_that_fits_a_message_goes_by_it(queue: StatementsQueue, s3: "S3Client") -> None:
    size = (MOST_BYTES - ENVELOPE_BYTES) // 4 * 3
    assert letter(bytes(size + 1)).oversize
    largest = [letter(bytes(size))]
    queue.store_oversize(largest)
    assert queue.send(largest) == []
    assert "Contents" not in s3.list_objects_v2(Bucket="oversize")


@pytest.mark.parametrize("size", [0, 1, 2, 3, 1000, MOST_BYTES])
def test_a_message_is_never_larger_than_was_counted(
    size: int, queue: StatementsQueue, received: "ReceivedQueue"
) -> None:
    sent = Letter(uuid4(), 2**53, 1, bytes(size))
    queue.send([sent])
    (message,) = received.read()
    assert len(message.to_json()) <= sent.wire_size


def test_a_queue_that_is_gone_raises_what_the_sdk_raises(
    queue: StatementsQueue, received: "ReceivedQueue", sdk: Clients
) -> None:
    sdk.sqs.delete_queue(QueueUrl=received.url)
    with pytest.raises(ClientError):
        queue.send([letter(b"x")])


def test_a_statement_that_cannot_be_stored_is_returned_and_the_rest_may_go(
    queue: StatementsQueue, s3: "S3Client"
) -> None:
    s3.delete_bucket(Bucket="oversize")
    small, large = letter(b"small"), letter(b"\xaa" * MAX_SIZE)
    assert queue.store_oversize([small, large]) == [large]
