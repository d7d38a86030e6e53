"""What ingest records in the lake, while the lake takes it and while it doesn't."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from botocore.exceptions import ClientError

from clarion.event_log import RECORD_BYTES, EventWriter
from clarion.events import EnvelopeObserved
from clarion.networks.statements.codec import MAX_SIZE
from clarion.settings import EventSettings
from ingest.delivery.destinations import LakeStream
from ingest.delivery.outgoing import MOST_BYTES
from ingest.wiring import AwsClients, wire
from tests.ingest.conftest import MakeSettings, MakeStatement, make_outgoing, saved

if TYPE_CHECKING:
    from mypy_boto3_firehose import FirehoseClient
    from mypy_boto3_sqs import SQSClient

    from tests.ingest.conftest import FakeNode, ReadLake, ReceivedQueue, Run


SETTINGS = EventSettings(events_stream="events", late_events_queue_url="late-events")
pytestmark = pytest.mark.usefixtures("rule")


class FailingFirehose:
    """Refuses whatever `refuses` says, of a call or of its records, and takes the rest."""

    def __init__(self, client: "FirehoseClient") -> None:
        self._client = client
        self.refuses: Callable[[Sequence[Any]], list[Any]] = list

    def put_record_batch(self, **request: Any) -> Any:
        records = request["Records"]
        refused = self.refuses(records)
        taken = [record for record in records if record not in refused]
        if taken:
            self._client.put_record_batch(**request | {"Records": taken})
        responses = [{"ErrorCode": "ServiceUnavailableException"} if one in refused else {} for one in records]
        return {"FailedPutCount": len(refused), "RequestResponses": responses}


class LateQueue:
    """The queue of late events."""

    def __init__(self, sqs: "SQSClient") -> None:
        self._sqs = sqs
        self._url = sqs.create_queue(QueueName=SETTINGS.late_events_queue_url)["QueueUrl"]

    def receipts(self) -> set[UUID]:
        """Of all lines that were sent since the last look."""
        receipts: set[UUID] = set()
        while found := self._sqs.receive_message(QueueUrl=self._url, MaxNumberOfMessages=10).get("Messages"):
            lines = [line for message in found for line in message["Body"].splitlines()]
            receipts |= {EnvelopeObserved.model_validate_json(line).receipt for line in lines}
        return receipts


@pytest.fixture
def late(clients: AwsClients) -> LateQueue:
    return LateQueue(clients.sqs)


def lake_of(sdk: AwsClients, firehose: Any = None) -> LakeStream:
    return LakeStream(EventWriter(firehose or sdk.firehose, sdk.sqs, SETTINGS))


@pytest.fixture
def firehose(lake: "ReadLake", sdk: AwsClients) -> FailingFirehose:
    return FailingFirehose(sdk.firehose)


def _throttled(_: Sequence[Any]) -> list[Any]:
    raise ClientError({"Error": {"Code": "ServiceUnavailableException"}}, "PutRecordBatch")


def _none(_: Sequence[Any]) -> list[Any]:
    return []


def test_a_line_carries_receipt_time_and_statement(lake: "ReadLake", sdk: AwsClients) -> None:
    sent = make_outgoing(b"\xff\x00statement")
    assert lake_of(sdk).put([sent]) == []
    (line,) = lake.lines()
    assert (line.receipt, line.observed_at, line.at, line.raw, line.location) == (
        sent.receipt,
        sent.observed_at,
        sent.observed_at,
        sent.raw,
        None,
    )


def test_a_statement_that_lies_in_s3_is_told_by_its_location(lake: "ReadLake", sdk: AwsClients) -> None:
    large = make_outgoing(b"\xaa" * MAX_SIZE)
    assert lake_of(sdk).put([large]) == []
    (line,) = lake.lines()
    assert (line.raw, line.location) == (None, large.location)


@pytest.mark.parametrize("size", [0, 1, 2, 3, 1000, MOST_BYTES // 2, MOST_BYTES])
def test_a_line_is_never_larger_than_was_counted(size: int) -> None:
    sent = make_outgoing(bytes(size), observed_at=2**53)
    line = EnvelopeObserved.of(sent.message, sent.observed_at).to_line()
    assert len(line) <= sent.wire_size <= MOST_BYTES


def test_of_a_call_that_is_taken_in_part_the_rest_is_returned_if_its_queue_takes_none(
    lake: "ReadLake", sdk: AwsClients, firehose: FailingFirehose
) -> None:
    batch = [make_outgoing(bytes([number]) * (RECORD_BYTES // 4)) for number in range(5)]
    firehose.refuses = lambda records: list(records[1:])
    failed = lake_of(sdk, firehose).put(batch)
    assert 0 < len(failed) < len(batch)
    assert lake.receipts() | {one.receipt for one in failed} == {one.receipt for one in batch}
    assert not lake.receipts() & {one.receipt for one in failed}


async def test_the_lake_is_told_of_each_statement_that_is_forwarded_and_of_no_other(
    node: "FakeNode",
    running: "Run",
    received: "ReceivedQueue",
    lake: "ReadLake",
    make_settings: MakeSettings,
    make_statement: MakeStatement,
) -> None:
    async with running(make_settings(node)):
        await node.subscribed()
        node.show(*(make_statement(number) for number in range(25)))
        node.show(make_statement(100, topics=(b"\x71" * 32,)))
        await received.holds(25)
    assert {line.receipt: line.raw for line in lake.lines()} == {
        message.receipt: message.raw for message in received.read()
    }


async def test_sigterm_waits_for_the_lake_to_have_been_told(
    node: "FakeNode",
    running: "Run",
    received: "ReceivedQueue",
    lake: "ReadLake",
    make_settings: MakeSettings,
    make_statement: MakeStatement,
) -> None:
    async with running(make_settings(node, lake_linger_seconds=600)):
        await node.subscribed()
        node.show(make_statement(1))
        (message,) = await received.holds(1)
        assert lake.lines() == []
    assert lake.receipts() == {message.receipt}


async def test_pushes_go_on_while_the_lake_takes_nothing_for_as_long_as_it_may_be(
    node: "FakeNode",
    running: "Run",
    received: "ReceivedQueue",
    firehose: FailingFirehose,
    late: LateQueue,
    make_settings: MakeSettings,
    make_statement: MakeStatement,
) -> None:
    firehose.refuses = _throttled
    bound = 2 * make_outgoing(make_statement(0)).held_size
    async with running(make_settings(node, outbox_bytes=bound), firehose=firehose) as task:
        await node.subscribed()
        for number in range(50):
            node.show(make_statement(number))
        await received.holds(50)
        while task.status()["unrecorded"]:
            await asyncio.sleep(0.01)
    assert late.receipts() == {message.receipt for message in received.read()}


async def test_intake_holds_once_neither_the_lake_nor_its_queue_takes_what_was_sent(
    node: "FakeNode",
    running: "Run",
    received: "ReceivedQueue",
    firehose: FailingFirehose,
    sdk: AwsClients,
    make_settings: MakeSettings,
    make_statement: MakeStatement,
) -> None:
    """The next statements wait in the node; what was sent is recorded once either is back."""
    firehose.refuses = _throttled
    async with running(make_settings(node, outbox_bytes=1), firehose=firehose) as task:
        await node.subscribed()
        while not task.status()["shards"]:
            await asyncio.sleep(0.01)
        node.show(make_statement(1))
        await received.holds(1)
        node.show(make_statement(2))
        await asyncio.sleep(0.2)
        assert len(received.read()) == 1
        late = LateQueue(sdk.sqs)
        await received.holds(2)
    assert late.receipts() == {message.receipt for message in received.read()}


async def test_what_a_crashed_task_had_sent_and_not_told_is_told_by_the_next(
    node: "FakeNode",
    running: "Run",
    clients: AwsClients,
    received: "ReceivedQueue",
    firehose: FailingFirehose,
    lake: "ReadLake",
    make_settings: MakeSettings,
    make_statement: MakeStatement,
) -> None:
    """By a second receipt, which match calls a duplicate."""
    firehose.refuses = _throttled
    told_by: Any = firehose
    crashing = asyncio.create_task(wire(make_settings(node), replace(clients, firehose=told_by)).run(asyncio.Event()))
    async with asyncio.timeout(60):
        await node.subscribed()
        node.show(make_statement(1))
        await received.holds(1)
        await saved(clients.s3)
        await asyncio.sleep(0.3)  # some more savings of what was seen
        crashing.cancel()
        await asyncio.gather(crashing, return_exceptions=True)
        assert lake.lines() == []
        async with running(make_settings(node)):
            await received.holds(2)
    assert [line.raw for line in lake.lines()] == [make_statement(1)]
