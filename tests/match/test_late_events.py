"""Match while Firehose is down: its pushes are sent first, and its events reach the lake by the queue."""

from collections import Counter
from typing import Any, cast

import boto3
from botocore.exceptions import EndpointConnectionError

from clarion.channels import Channel
from clarion.event_log import EventStream
from clarion.sqs import Received
from late_events.handler import put
from match.settings import MatchSettings
from match.worker import MatchClients
from tests.match.scene import Scene, lake_events


class FirehoseDown:
    """Counts the messages of a queue at each call."""

    def __init__(self, queue_url: str) -> None:
        self._queue_url = queue_url
        self.sent_by_then: list[int] = []

    def put_record_batch(self, **_: object) -> dict[str, Any]:
        answer = boto3.client("sqs").get_queue_attributes(QueueUrl=self._queue_url, AttributeNames=["All"])
        self.sent_by_then.append(int(answer["Attributes"]["ApproximateNumberOfMessages"]))
        raise EndpointConnectionError(endpoint_url="Firehose")


def test_pushes_are_sent_before_firehose_is_asked_and_the_lake_has_their_events_afterwards(
    settings: MatchSettings, clients: MatchClients
) -> None:
    firehose = FirehoseDown(settings.push_queues[Channel.APNS])
    scene = Scene(settings, clients._replace(firehose=cast("Any", firehose)))
    scene.subscribe()

    for _ in range(2):
        assert scene.take(*scene.observe_new(3)) == set()

    assert (firehose.sent_by_then, len(scene.pushes())) == ([3], 6)
    assert redrive(settings, clients) == 2
    assert Counter(event["event"] for event in lake_events()) == {"limits": 1, "envelope": 6, "notification": 6}


def redrive(settings: MatchSettings, clients: MatchClients) -> int:
    """How many messages the queue of late events had."""
    answer = clients.sqs.receive_message(QueueUrl=settings.late_events_queue_url, MaxNumberOfMessages=10)
    received = [Received(one["MessageId"], "", one["Body"], 1) for one in answer["Messages"]]
    assert put(EventStream(clients.firehose, settings.events_stream), received) == []
    return len(received)
