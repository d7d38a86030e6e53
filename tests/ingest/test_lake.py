"""What ingest records in the lake, while the lake takes it and while it doesn't."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError

from clarion.events import RECORD_BYTES, EnvelopeObserved, EventStream
from clarion.networks.statements.codec import MAX_SIZE
from ingest.delivery.deliveries import LAKE_SHARE
from ingest.delivery.destinations import LakeStream
from ingest.delivery.outgoing import MOST_BYTES
from ingest.wiring import AwsClients, wire
from tests.ingest.conftest import MakeSettings, MakeStatement, make_outgoing

if TYPE_CHECKING:
    from mypy_boto3_firehose import FirehoseClient

    from tests.ingest.conftest import FakeNode, ReadLake, ReceivedQueue, Run


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


@pytest.fixture
def firehose(lake: "ReadLake", sdk: AwsClients) -> FailingFirehose:
    return FailingFirehose(sdk.firehose)


def _throttled(_: Sequence[Any]) -> list[Any]:
    raise ClientError({"Error": {"Code": "ServiceUnavailableException"}}, "PutRecordBatch")


def _none(_: Sequence[Any]) -> list[Any]:
    return []


def test_a_line_carries_receipt_time_and_statement(lake: "ReadLake", sdk: AwsClients) -> None:
    sent = make_outgoing(b"\xff\x00statement")
    assert LakeStream(EventStream(sdk.firehose, "events")).put([sent]) == []
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
    assert LakeStream(EventStream(sdk.firehose, "events")).put([large]) == []
    (line,) = lake.lines()
    assert (line.raw, line.location) == (None, large.location)


@pytest.mark.parametrize("size", [0, 1, 2, 3, 1000, MOST_BYTES // 2, MOST_BYTES])
def test_a_line_is_never_larger_than_was_counted(size: int) -> None:
    sent = make_outgoing(bytes(size), observed_at=2**53)
    line = EnvelopeObserved.of(sent.message, sent.observed_at).to_line()
    assert len(line) <= sent.wire_size <= MOST_BYTES


def test_of_a_call_that_is_taken_in_part_the_rest_is_returned(lake: "ReadLake", firehose: FailingFirehose) -> None:
    letters = [make_outgoing(bytes([number]) * (RECORD_BYTES // 4)) for number in range(5)]
    firehose.refuses = lambda records: list(records[1:])
    failed = LakeStream(EventStream(firehose, "events")).put(letters)  # type: ignore[arg-type] # speaks as much as is needed
    assert 0 < len(failed) < len(letters)
    assert lake.receipts() | {one.receipt for one in failed} == {one.receipt for one in letters}
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


async def test_pushes_go_on_while_the_lake_takes_nothing_and_it_is_told_afterwards(
    node: "FakeNode",
    running: "Run",
    received: "ReceivedQueue",
    firehose: FailingFirehose,
    lake: "ReadLake",
    make_settings: MakeSettings,
    make_statement: MakeStatement,
) -> None:
    firehose.refuses = _throttled
    async with running(make_settings(node), firehose=firehose) as task:
        await node.subscribed()
        for number in range(3):
            node.show(make_statement(number))
            await received.holds(number + 1)
        assert (task.status()["held"], task.status()["unrecorded"], lake.lines()) == (0, 3, [])
        firehose.refuses = _none
        while task.status()["unrecorded"]:
            await asyncio.sleep(0.01)
    assert lake.receipts() == {message.receipt for message in received.read()}


async def test_more_may_wait_for_the_lake_than_for_the_queue_before_intake_holds(
    node: "FakeNode",
    running: "Run",
    received: "ReceivedQueue",
    firehose: FailingFirehose,
    make_settings: MakeSettings,
    make_statement: MakeStatement,
) -> None:
    firehose.refuses = _throttled
    bound = 2 * make_outgoing(make_statement(0)).held_size
    full = 2 * LAKE_SHARE
    async with asyncio.timeout(20), running(make_settings(node, outbox_bytes=bound), firehose=firehose) as task:
        await node.subscribed()
        for number in range(full):
            node.show(make_statement(number))
            await received.holds(number + 1)
        while task.status()["unrecorded"] != full:
            await asyncio.sleep(0.01)
        for number in range(full, full + 10):
            node.show(make_statement(number))
        await asyncio.sleep(0.5)
        assert len(received.read()) == full + 1  # what is shown is taken in before it is held up
        firehose.refuses = _none
        await received.holds(full + 10)


async def test_intake_holds_once_the_room_for_what_the_lake_was_not_told_is_full(
    node: "FakeNode",
    running: "Run",
    received: "ReceivedQueue",
    firehose: FailingFirehose,
    make_settings: MakeSettings,
    make_statement: MakeStatement,
) -> None:
    firehose.refuses = _throttled
    async with running(make_settings(node, outbox_bytes=1), firehose=firehose):
        await node.subscribed()
        node.show(make_statement(1))
        await received.holds(1)
        node.show(make_statement(2))
        await asyncio.sleep(0.2)
        assert len(received.read()) == 1
        firehose.refuses = _none
        await received.holds(2)


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
        await asyncio.sleep(0.5)  # some savings of what was seen
        crashing.cancel()
        await asyncio.gather(crashing, return_exceptions=True)
        assert lake.lines() == []
        async with running(make_settings(node)):
            await received.holds(2)
    assert [line.raw for line in lake.lines()] == [make_statement(1)]
