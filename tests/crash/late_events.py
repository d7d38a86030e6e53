"""Scenario: events while Firehose takes none, written until they are taken, as ingest does; then it is back."""

import json
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
from tests.match.scene import lake_events

STREAM, NO_STREAM = "lake", "no-such-stream"
EVENTS = 3


class Redriving:
    def __init__(self) -> None:
        self._events = [{"event": str(uuid4())} for _ in range(EVENTS)]
        self._unwritten = [f"{json.dumps(event)}\n".encode() for event in self._events]
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
        found = lake_events()
        assert all(event in found for event in self._events), "an event is not in the lake"
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
