import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import boto3
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from hypothesis import given
from hypothesis import strategies as st

from clarion.statement import MAX_SIZE
from ingest.outbox import BATCH_BYTES, BATCH_MESSAGES, ENVELOPE_BYTES, Letter, Outbox, send_forever
from ingest.statements_queue import StatementsQueue

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from tests.ingest.conftest import ReceivedQueue

NIL = UUID(int=0)


def letter(statement: bytes) -> Letter:
    return Letter(uuid4(), 1_700_000_000_000, statement)


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
    assert queue.send([letter(b"small"), large]) == []
    by_receipt = {message.receipt: message for message in received.read()}
    message = by_receipt[large.receipt]
    assert message.statement is None
    assert message.location == f"statements/{large.receipt}"
    assert s3.get_object(Bucket="oversize", Key=message.location)["Body"].read() == large.statement


def test_the_largest_statement_that_fits_a_message_goes_by_it(queue: StatementsQueue, s3: "S3Client") -> None:
    size = (BATCH_BYTES - ENVELOPE_BYTES) // 4 * 3
    assert letter(bytes(size + 1)).oversize
    assert queue.send([letter(bytes(size))]) == []
    assert "Contents" not in s3.list_objects_v2(Bucket="oversize")


@given(st.lists(st.integers(0, MAX_SIZE), min_size=1, max_size=30))
def test_a_batch_keeps_to_the_limits_of_sqs_and_the_order(sizes: list[int]) -> None:
    async def drain() -> list[list[Letter]]:
        outbox = Outbox(1)
        for size in sizes:
            outbox.add(Letter(NIL, 0, blank[:size]))
        batches = []
        while outbox.held:
            batches.append(await outbox.take())
            await outbox.sent(batches[-1])
        return batches

    blank = bytes(MAX_SIZE)
    batches = asyncio.run(drain())
    assert [len(one.statement) for batch in batches for one in batch] == sizes
    for batch in batches:
        assert 0 < len(batch) <= BATCH_MESSAGES
        assert sum(one.wire_size for one in batch) <= BATCH_BYTES


@pytest.mark.parametrize("size", [0, 1, 2, 3, 1000, BATCH_BYTES])
def test_a_message_is_never_larger_than_was_counted(
    size: int, queue: StatementsQueue, received: "ReceivedQueue"
) -> None:
    sent = Letter(uuid4(), 2**53, bytes(size))
    queue.send([sent])
    (message,) = received.read()
    assert len(message.to_json()) <= sent.wire_size


class FailingQueue:
    """Takes letters only after it was asked a few times, as SQS does when it throttles."""

    def __init__(self, answers: list[Callable[[Sequence[Letter]], list[Letter]]]) -> None:
        self._answers = answers
        self.taken: list[Letter] = []

    def send(self, batch: Sequence[Letter]) -> list[Letter]:
        failed = self._answers.pop(0)(batch) if self._answers else []
        self.taken.extend(one for one in batch if one not in failed)
        return failed


def _throttled(batch: Sequence[Letter]) -> list[Letter]:
    raise ClientError({"Error": {"Code": "ThrottlingException"}}, "SendMessageBatch")


def _unreachable(batch: Sequence[Letter]) -> list[Letter]:
    raise EndpointConnectionError(endpoint_url="https://queue.example")


def _all_but_the_first(batch: Sequence[Letter]) -> list[Letter]:
    return list(batch[:1])


@pytest.mark.parametrize("trouble", [_throttled, _unreachable, _all_but_the_first])
async def test_what_sqs_does_not_take_is_held_and_sent_again(
    trouble: Callable[[Sequence[Letter]], list[Letter]],
) -> None:
    failing = FailingQueue([trouble, trouble])
    outbox = Outbox(10_000)
    letters = [letter(bytes([number])) for number in range(25)]
    sending = asyncio.create_task(send_forever(outbox, failing.send))
    for one in letters:
        outbox.add(one)
    await outbox.settle()
    await asyncio.wait_for(outbox.empty(), 5)
    sending.cancel()
    assert sorted(failing.taken, key=lambda one: one.statement) == letters


async def test_intake_waits_while_the_outbox_is_full() -> None:
    outbox = Outbox(capacity=letter(b"x").held_size)
    outbox.add(letter(b"x"))
    waiting = asyncio.create_task(outbox.settle())
    await asyncio.sleep(0.01)
    assert not waiting.done()
    await outbox.sent(await outbox.take())
    await asyncio.wait_for(waiting, 1)


def test_a_queue_that_is_gone_raises_what_the_sdk_raises(queue: StatementsQueue, received: "ReceivedQueue") -> None:
    boto3.client("sqs").delete_queue(QueueUrl=received.url)
    with pytest.raises(ClientError):
        queue.send([letter(b"x")])
