from typing import TYPE_CHECKING

import pytest

from clarion.networks.statements.codec import MAX_SIZE
from clarion.storage import OVERSIZE_PREFIX
from ingest.delivery.destinations import EnvelopeQueue
from ingest.delivery.outgoing import MOST_BYTES, OVERHEAD_BYTES
from ingest.wiring import AwsClients
from tests.ingest.conftest import make_outgoing

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from tests.ingest.conftest import ReceivedQueue


def test_a_message_carries_receipt_time_and_statement(queue: EnvelopeQueue, received: "ReceivedQueue") -> None:
    sent = make_outgoing(b"\xff\x00statement")
    assert queue.send([sent]) == []
    (message,) = received.read()
    assert (message.receipt, message.observed_at, message.raw, message.location) == (
        sent.receipt,
        sent.observed_at,
        sent.raw,
        None,
    )


def test_a_statement_too_large_for_a_message_lies_in_s3(
    queue: EnvelopeQueue, received: "ReceivedQueue", s3: "S3Client"
) -> None:
    large = make_outgoing(b"\xaa" * MAX_SIZE)
    assert queue.store([large]) == []
    assert queue.send([make_outgoing(b"small"), large]) == []
    by_receipt = {message.receipt: message for message in received.read()}
    message = by_receipt[large.receipt]
    assert message.raw is None
    assert message.location == f"{OVERSIZE_PREFIX}{large.receipt}"
    assert s3.get_object(Bucket="oversize", Key=message.location)["Body"].read() == large.raw


def test_the_largest_statement_that_fits_a_message_goes_by_it(queue: EnvelopeQueue) -> None:
    size = (MOST_BYTES - OVERHEAD_BYTES) // 4 * 3
    assert make_outgoing(bytes(size + 1)).oversize
    largest = [make_outgoing(bytes(size))]
    assert not largest[0].oversize
    assert queue.send(largest) == []


@pytest.mark.parametrize("size", [0, 1, 2, 3, 1000, MOST_BYTES])
def test_a_message_is_never_larger_than_was_counted(size: int, queue: EnvelopeQueue, received: "ReceivedQueue") -> None:
    sent = make_outgoing(bytes(size), observed_at=2**53)
    queue.send([sent])
    (message,) = received.read()
    assert len(message.to_json()) <= sent.wire_size


def test_what_a_queue_that_is_gone_does_not_take_is_returned(
    queue: EnvelopeQueue, received: "ReceivedQueue", sdk: AwsClients, caplog: pytest.LogCaptureFixture
) -> None:
    sdk.sqs.delete_queue(QueueUrl=received.url)
    batch = [make_outgoing(b"x"), make_outgoing(b"y")]
    assert queue.send(batch) == batch
    (line,) = (record for record in caplog.records if record.message == "messages not taken")
    assert "NonExistentQueue" in str(vars(line)["reasons"])


def test_a_statement_that_cannot_be_stored_is_returned(queue: EnvelopeQueue, s3: "S3Client") -> None:
    s3.delete_bucket(Bucket="oversize")
    large = make_outgoing(b"\xaa" * MAX_SIZE)
    assert queue.store([large]) == [large]
