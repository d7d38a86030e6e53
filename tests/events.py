"""What workers in tests emit events with: the stream `lake` and the queue `late_events`, if moto has them."""

import boto3

from clarion.event_log import EventLog, EventWriter
from clarion.events import Event
from clarion.settings import EventSettings

SETTINGS = EventSettings(events_stream="lake", late_events_queue_url="late_events")


def event_log(settings: EventSettings = SETTINGS) -> EventLog:
    return EventLog(EventWriter(boto3.client("firehose"), boto3.client("sqs"), settings))


class KeptEvents(EventLog):
    """Keeps what would go to the lake."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def add(self, event: Event) -> None:
        self.events.append(event)

    def flush(self) -> int:
        return 0
