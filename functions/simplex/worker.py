"""The Lambda behind SimpleX's queue of commands.

A token may have a thousand queues, so what the time of one invocation is not enough for comes again, and goes on.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.metrics import MetricUnit
from pydantic import ValidationError

from clarion import aws, metrics, sqs, tables
from clarion.clock import now_ms
from clarion.event_log import FIREHOSE_IN_TIME, EventLog, EventWriter
from clarion.faults import AWS_ERRORS, describe
from clarion.generations import NEVER
from clarion.messages import CommandMessage
from clarion.metrics import Metric, metrics_of
from clarion.networks import SIMPLEX
from clarion.networks.settings import WorkerSettings
from clarion.networks.simplex.commands import SimplexCommand, read_command
from clarion.networks.simplex.needs import ITEMS
from clarion.networks.simplex.settings import SimplexSettings
from clarion.networks.simplex.tables import MODELS
from clarion.settings import EventSettings
from clarion.sqs import Received
from simplex.errors import OutOfTimeError, RetryError
from simplex.outcomes import TokenOutcomes
from simplex.reviving import Revival
from simplex.token_queues import TokenQueues

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext
    from mypy_boto3_sqs import SQSClient

NO_COMMAND = "no command of SimpleX"
FIRST_DELAY, LONGEST_DELAY = 5, 900
"""Seconds."""
SPARE_SECONDS = 20
"""What is under way when the time is up may take so long: a transaction or two, and what is left of the batch."""
TABLE_SECONDS = 3.0

logger = Logger(service=SIMPLEX)


class SimplexWorkerSettings(EventSettings, WorkerSettings, SimplexSettings):
    """The stream of events is required."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimplexWorker:
    outcomes: TokenOutcomes
    sqs: "SQSClient"
    settings: SimplexWorkerSettings

    def handle(self, records: Sequence[Mapping[str, Any]], now: int, until: float = NEVER) -> list[str]:
        """The ids of the messages that are to come again.

        `now` is in UNIX milliseconds. Nothing is begun after `until`, in seconds of the monotonic clock.
        """
        delays = dict[str, tuple[str, float]]()
        for received in map(Received.of, records):
            delay = self._handle(received, now, until) if time.monotonic() <= until else 0
            if delay is not None:
                delays[received.message_id] = received.receipt_handle, delay
        if delays:
            sqs.change_visibility(self.sqs, self.settings.queue_url, delays.values())
        return list(delays)

    def _handle(self, received: Received, now: int, until: float) -> float | None:
        """None if the message is done with, else seconds until it is to come again."""
        try:
            reason = self._failure(received, now, until)
        except OutOfTimeError:
            return 0
        if reason is None or self._dead_letter(received, reason):
            return None
        return min(FIRST_DELAY << received.receives - 1, LONGEST_DELAY)

    def _failure(self, received: Received, now: int, until: float) -> str | None:
        command = _command_of(received.body)
        if command is None:
            return NO_COMMAND
        try:
            self.outcomes.handle(command, now, until)
        except OutOfTimeError:
            raise
        except AWS_ERRORS as error:
            return describe(error)
        except RetryError as error:
            return str(error)
        except Exception as error:  # noqa: BLE001 - what one row has made up must not fail the others
            return type(error).__name__
        return None

    def _dead_letter(self, received: Received, reason: str) -> bool:
        """Return whether it lies among the dead letters now: what can be tried again doesn't."""
        logger.warning("failed", reason=reason, receives=received.receives)
        if reason != NO_COMMAND and received.receives < self.settings.max_receives:
            return False
        letters = [sqs.dead_letter(received.body, reason)]
        return sqs.send(self.sqs, self.settings.dead_letter_url, letters) == [None]


def handler(event: Mapping[str, Any], context: "LambdaContext") -> dict[str, list[dict[str, str]]]:
    """Partial failures: https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html"""
    until = time.monotonic() + context.get_remaining_time_in_millis() / 1000 - SPARE_SECONDS
    worker = _worker()
    unfinished = worker.handle(event["Records"], now_ms(), until)
    recorded = metrics_of(SIMPLEX, worker.settings.stage)
    if lost := worker.outcomes.revival.events.flush():
        recorded.add_metric(Metric.EVENTS_LOST, MetricUnit.Count, lost)
    metrics.flush(recorded)
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in unfinished]}


@cache
def _worker() -> SimplexWorker:
    settings = SimplexWorkerSettings.from_environment()
    connection = tables.bind(settings.table_prefix, seconds=TABLE_SECONDS, own=MODELS)
    queues = aws.sqs(connection.session)
    events = EventLog(EventWriter(aws.firehose(connection.session, FIREHOSE_IN_TIME), queues, settings))
    items_table = f"{settings.table_prefix}{ITEMS}"
    outcomes = TokenOutcomes(connection, items_table, TokenQueues(connection), Revival(connection, events))
    return SimplexWorker(outcomes=outcomes, sqs=queues, settings=settings)


def _command_of(body: str) -> SimplexCommand | None:
    try:
        message = CommandMessage.model_validate_json(body)
        return read_command(message.content) if message.network == SIMPLEX else None
    except ValidationError:
        return None
