"""Events reach the lake by Firehose or by the queue of late events, and are lost only where both refuse."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from clarion.event_log import PAUSE_SECONDS, RECORD_BYTES, EventLog, EventWriter
from clarion.events import LimitsLoaded
from clarion.networks import STATEMENTS
from clarion.sqs import REQUEST_BYTES
from tests.events import SETTINGS
from tests.standins import Clock

if TYPE_CHECKING:
    from mypy_boto3_firehose import FirehoseClient
    from mypy_boto3_sqs import SQSClient

EVENT = LimitsLoaded(network=STATEMENTS, at=1, cap=300, cap_window=60_000)


class Firehose:
    """Fails while it is `down`, and refuses the records whose numbers in a call are in `refused`."""

    def __init__(self) -> None:
        self.down = False
        self.refused: set[int] = set()
        self.calls = 0
        self.lines: list[bytes] = []

    def put_record_batch(self, *, DeliveryStreamName: str, Records: list[dict[str, bytes]]) -> dict[str, Any]:  # noqa: N803 - boto
        self.calls += 1
        if self.down:
            raise ClientError({"Error": {"Code": "ServiceUnavailableException"}}, "PutRecordBatch")
        for number, record in enumerate(Records):
            self.lines += [] if number in self.refused else record["Data"].splitlines(keepends=True)
        answers = [{"ErrorCode": "Slow"} if number in self.refused else {} for number in range(len(Records))]
        return {"FailedPutCount": len(self.refused), "RequestResponses": answers}


@pytest.fixture(autouse=True)
def sqs(monkeypatch: pytest.MonkeyPatch) -> Iterator["SQSClient"]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws():
        yield boto3.client("sqs")


@pytest.fixture
def queue_url(sqs: "SQSClient") -> str:
    return sqs.create_queue(QueueName=SETTINGS.late_events_queue_url)["QueueUrl"]


@pytest.fixture
def firehose() -> Firehose:
    return Firehose()


@pytest.fixture
def clock() -> Clock:
    return Clock(0)


@pytest.fixture
def writer(firehose: Firehose, sqs: "SQSClient", clock: Clock) -> EventWriter:
    return EventWriter(cast("FirehoseClient", firehose), sqs, SETTINGS, clock)


def late(sqs: "SQSClient", queue_url: str) -> list[bytes]:
    """The bodies of all messages of the queue."""
    bodies: list[bytes] = []
    while found := sqs.receive_message(QueueUrl=queue_url, MaxNumberOfMessages=10).get("Messages"):
        bodies += [message["Body"].encode() for message in found]
        for message in found:
            sqs.delete_message(QueueUrl=queue_url, ReceiptHandle=message["ReceiptHandle"])
    return bodies


def test_what_firehose_takes_costs_no_message(
    writer: EventWriter, firehose: Firehose, sqs: "SQSClient", queue_url: str
) -> None:
    assert writer.write([b"a\n", b"b\n"]) == []

    assert (firehose.lines, late(sqs, queue_url)) == ([b"a\n", b"b\n"], [])


def test_what_an_invocation_emitted_while_firehose_fails_is_one_message(
    writer: EventWriter, firehose: Firehose, sqs: "SQSClient", queue_url: str
) -> None:
    firehose.down = True
    log = EventLog(writer)
    log.add(EVENT)
    log.add(EVENT)

    assert log.flush() == 0

    assert late(sqs, queue_url) == [2 * EVENT.to_line()]


def test_of_a_call_that_is_taken_in_part_the_rest_is_late_and_the_log_says_why(
    writer: EventWriter, firehose: Firehose, sqs: "SQSClient", queue_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    lines = [letter * (RECORD_BYTES - 1) + b"\n" for letter in (b"a", b"b", b"c")]
    firehose.refused = {1}

    assert writer.write(lines) == []

    assert (firehose.lines, late(sqs, queue_url)) == ([lines[0], lines[2]], [lines[1]])
    assert caplog.messages == ["events are late: Slow from PutRecordBatch"]


def test_every_record_fits_a_message() -> None:
    assert RECORD_BYTES <= REQUEST_BYTES


def test_a_failed_firehose_is_left_alone_for_a_while(
    writer: EventWriter, firehose: Firehose, clock: Clock, queue_url: str
) -> None:
    firehose.down = True
    for _ in range(10):
        assert writer.write([b"line\n"]) == []
    assert firehose.calls == 1

    clock.advance(1.5 * PAUSE_SECONDS)
    firehose.down = False
    for _ in range(10):
        assert writer.write([b"line\n"]) == []

    assert (firehose.calls, len(firehose.lines)) == (11, 10)


@pytest.mark.usefixtures("sqs")
def test_what_neither_takes_is_lost_and_counted(writer: EventWriter, firehose: Firehose) -> None:
    firehose.down = True
    log = EventLog(writer)
    log.add(EVENT)

    assert (log.flush(), log.flush()) == (1, 0)
