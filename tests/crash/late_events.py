"""Scenario: events while Firehose takes none, written until they are taken, as ingest does; then it is back."""

from collections.abc import Sequence
from uuid import uuid4

import boto3

from clarion.event_log import EventStream, EventWriter
from clarion.settings import EventSettings
from clarion.sqs import Received
from late_events.handler import put
from tests.crash.dispatching import FAILED
from tests.crash.harness import RETURN, Scenario
from tests.crash.wire import wire

STREAM, NO_STREAM = "lake", "no-such-stream"
LINES = 3


class Redriving:
    def __init__(self) -> None:
        self._lines = self._unwritten = [f"{uuid4()}\n".encode() for _ in range(LINES)]
        with wire.aside():
            self._queue_url = boto3.client("sqs").create_queue(QueueName=f"crash-{uuid4()}")["QueueUrl"]
        self.stop()

    def deliver(self) -> bool:
        try:
            self._unwritten = self._writer.write(self._unwritten)
            received = self._receive()
            refused = put(self._stream, received)
        except FAILED:
            return False
        wire.step(RETURN)
        self._delete([one for one in received if one not in refused])
        return not self._unwritten and not refused

    def stop(self) -> None:
        with wire.aside():
            firehose, sqs = boto3.client("firehose"), boto3.client("sqs")
            settings = EventSettings(events_stream=NO_STREAM, late_events_queue_url=self._queue_url)
            self._writer, self._stream = EventWriter(firehose, sqs, settings), EventStream(firehose, STREAM)

    def check(self) -> None:
        s3 = boto3.client("s3")
        listed = s3.list_objects_v2(Bucket="lake").get("Contents", ())
        found = {
            line for one in listed for line in s3.get_object(Bucket="lake", Key=one["Key"])["Body"].read().splitlines()
        }
        assert {line.strip() for line in self._lines} <= found, "an event is not in the lake"
        assert not self._receive(), "a message is left over"

    def _receive(self) -> list[Received]:
        """All that the queue holds; what is not deleted comes again at once."""
        with wire.aside():
            answer = boto3.client("sqs").receive_message(
                QueueUrl=self._queue_url, MaxNumberOfMessages=10, VisibilityTimeout=0
            )
        return [Received(one["MessageId"], one["ReceiptHandle"], one["Body"], 1) for one in answer.get("Messages", ())]

    def _delete(self, received: Sequence[Received]) -> None:
        with wire.aside():
            for one in received:
                boto3.client("sqs").delete_message(QueueUrl=self._queue_url, ReceiptHandle=one.receipt_handle)


def scenario() -> Scenario:
    return Scenario("late events", Redriving)
