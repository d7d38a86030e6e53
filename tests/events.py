"""What workers in tests emit events with: the stream `lake` and the queue `late_events` of moto's."""

import boto3

from clarion.event_log import EventLog, EventWriter
from clarion.settings import EventSettings

SETTINGS = EventSettings(events_stream="lake", late_events_queue_url="late_events")


def event_log() -> EventLog:
    return EventLog(EventWriter(boto3.client("firehose"), boto3.client("sqs"), SETTINGS))
