"""The Lambda behind the queue of late events: puts into Firehose what it did not take before.

A message holds the lines of one record, and many messages share a record here. A record that Firehose refuses again, or
a call that fails, has its messages received again. If all calls fail the invocation does, and Lambda polls the queue
less: https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html
"""

import logging
import math
import time
from collections.abc import Sequence
from functools import cache
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext
from botocore.config import Config

from clarion import aws
from clarion.event_log import EventStream, calls
from clarion.faults import AWS_ERRORS, describe
from clarion.settings import Settings
from clarion.sqs import Received

PATIENT = Config(connect_timeout=2, read_timeout=18, retries={"total_max_attempts": 1})
"""Nobody waits for this function, and what is answered too late is in the lake twice."""
CALL_SECONDS = 22.0
"""A call has ended by then, also one that meets a closed connection first."""

log = logging.getLogger(__name__)


class LateEventsSettings(Settings):
    events_stream: str


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, list[dict[str, str]]]:
    until = time.monotonic() + context.get_remaining_time_in_millis() / 1000 - CALL_SECONDS
    late = put(_stream(), [Received.of(record) for record in event["Records"]], until)
    return {"batchItemFailures": [{"itemIdentifier": one.message_id} for one in late]}


def put(stream: EventStream, received: Sequence[Received], until: float = math.inf) -> list[Received]:
    """Return the messages whose lines Firehose did not take. Raise what the SDK raises if no call is answered.

    No call begins after `until`, by the monotonic clock.
    """
    bodies = [one.body.encode() for one in received]
    late: set[bytes] = set()
    failure, answered = None, False
    for packs in calls(bodies):
        left = packs
        if time.monotonic() < until:
            try:
                left = tuple(stream.put(packs))
                answered = True
            except AWS_ERRORS as error:
                failure = error
                log.warning("events are late: %s", describe(error))
        late.update(body for pack in left for body in pack)
    if failure and not answered:
        raise failure
    return [one for one, body in zip(received, bodies, strict=True) if body in late]


@cache
def _stream() -> EventStream:
    firehose = aws.firehose(aws.new_session(), in_time=PATIENT)
    return EventStream(firehose, LateEventsSettings.from_environment().events_stream)
