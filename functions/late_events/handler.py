"""The Lambda behind the queue of late events: puts into Firehose what it did not take before.

A message holds the lines of one record, and many messages share a record here. A record that Firehose refuses again has
its messages received again. If it can't be reached the invocation fails, and Lambda polls the queue less:
https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from clarion import aws
from clarion.event_log import EventStream, calls
from clarion.settings import Settings
from clarion.sqs import Received


class LateEventsSettings(Settings):
    events_stream: str


def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, list[dict[str, str]]]:
    refused = put(_stream(), [Received.of(record) for record in event["Records"]])
    return {"batchItemFailures": [{"itemIdentifier": one.message_id} for one in refused]}


def put(stream: EventStream, received: Sequence[Received]) -> list[Received]:
    """Return the messages whose lines Firehose did not take. Raise what the SDK raises."""
    bodies = [one.body.encode() for one in received]
    refused = {body for packs in calls(bodies) for pack in stream.put(packs) for body in pack}
    return [one for one, body in zip(received, bodies, strict=True) if body in refused]


@cache
def _stream() -> EventStream:
    return EventStream(aws.firehose(aws.new_session()), LateEventsSettings.from_environment().events_stream)
