"""The Lambda behind the cleanup queue: erases rules that can't come into force any more, and ends a dead token's holders.

It is left those that are too many to end at once. Every message may come twice and finds less to do each time. What the
time of one invocation is not enough for comes again, and goes on where this one stopped.
"""

import time
from dataclasses import dataclass
from functools import cache
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext
from botocore.exceptions import BotoCoreError, ClientError
from pydantic import ValidationError
from pynamodb.connection import Connection
from pynamodb.exceptions import PynamoDBException

from clarion import aws, tables
from clarion.cleanup import CleanupQueue, erase_dead
from clarion.clock import now_ms
from clarion.endings import end_holders
from clarion.event_log import EventLog, EventWriter
from clarion.messages import CleanupMessage, DeadTokenMessage, read_cleanup_request
from clarion.metrics import Metric, flush, metrics_of
from clarion.settings import EventSettings
from clarion.subscription_events import SubscriptionChanged

SPARE_SECONDS = 10
"""What is under way when the time is up may take so long."""
SERVICE = "cleanup"

logger = Logger(service=SERVICE)


class CleanupSettings(EventSettings):
    """The queue is the function's own."""

    table_prefix: str
    cleanup_queue_url: str


@dataclass(frozen=True, slots=True)
class CleanupWorker:
    """What one instance keeps."""

    connection: Connection
    queue: CleanupQueue
    events: EventLog
    metrics: EphemeralMetrics


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, list[dict[str, str]]]:
    """Partial failures: https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html"""
    until = time.monotonic() + context.get_remaining_time_in_millis() / 1000 - SPARE_SECONDS
    worker = _worker()
    unfinished = [record["messageId"] for record in event["Records"] if not _done(worker, record["body"], until)]
    if lost := worker.events.flush():
        worker.metrics.add_metric(Metric.EVENTS_LOST, MetricUnit.Count, lost)
    flush(worker.metrics)
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in unfinished]}


def _done(worker: CleanupWorker, body: str, until: float) -> bool:
    """Whether the message is done with."""
    try:
        match read_cleanup_request(body):
            case CleanupMessage() as message:
                names = map(str, message.subscription_ids)
                return all(erase_dead(worker.connection, name, message.through, until=until) for name in names)
            case DeadTokenMessage() as message:
                return _end_holders(worker, message, until)
    except (ValidationError, PynamoDBException, BotoCoreError, ClientError):
        logger.exception("not cleaned up")
        return False


def _end_holders(worker: CleanupWorker, message: DeadTokenMessage, until: float) -> bool:
    """False if time ran out, after one at least."""
    for row in end_holders(worker.connection, message, request_cleanup=worker.queue.send):
        worker.events.add(SubscriptionChanged.of(row, now_ms()))
        if time.monotonic() > until:
            return False
    return True


@cache
def _worker() -> CleanupWorker:
    settings = CleanupSettings.from_environment()
    connection = tables.bind(settings.table_prefix)
    sqs = aws.sqs(connection.session)
    writer = EventWriter(aws.firehose(connection.session), sqs, settings)
    queue = CleanupQueue(sqs, settings.cleanup_queue_url)
    return CleanupWorker(connection, queue, EventLog(writer), metrics_of(SERVICE, settings.stage))
