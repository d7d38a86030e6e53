"""The Lambda behind SimpleX's queue of commands.

A token may have a thousand queues, so what the time of one invocation is not enough for comes again, and goes on.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools.metrics import MetricUnit

from clarion import aws, metrics, tables
from clarion.clock import now_ms
from clarion.command_queue import CommandQueue, ReceivedCommand
from clarion.event_log import EventLog, EventWriter
from clarion.generations import NEVER
from clarion.metrics import Metric, metrics_of
from clarion.networks import SIMPLEX
from clarion.networks.settings import WorkerSettings
from clarion.networks.simplex.commands import read_command
from clarion.networks.simplex.needs import ITEMS
from clarion.networks.simplex.settings import SimplexSettings
from clarion.networks.simplex.tables import MODELS
from clarion.settings import EventSettings
from simplex.token_commands import TokenCommandHandler
from simplex.token_rules import TokenRules

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

SPARE_SECONDS = 20
"""What is under way when the time is up may take so long: a transaction or two, and what is left of the batch."""


class SimplexWorkerSettings(EventSettings, WorkerSettings, SimplexSettings):
    """The stream of events is required."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimplexWorker:
    token_commands: TokenCommandHandler
    events: EventLog
    queue: CommandQueue
    stage: str

    def handle(self, records: Sequence[Mapping[str, Any]], now: int, until: float = NEVER) -> list[str]:
        """The ids of the messages that are to come again.

        `now` is in UNIX milliseconds. Nothing is begun after `until`, in seconds of the monotonic clock.
        """
        received = map(partial(ReceivedCommand.of, network=SIMPLEX, read=read_command), records)
        return self.queue.handle(received, lambda command, _: self.token_commands.handle(command, now, until), until)


def handler(event: Mapping[str, Any], context: "LambdaContext") -> dict[str, list[dict[str, str]]]:
    """Partial failures: https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html"""
    until = time.monotonic() + context.get_remaining_time_in_millis() / 1000 - SPARE_SECONDS
    worker = _worker()
    unfinished = worker.handle(event["Records"], now_ms(), until)
    recorded = metrics_of(SIMPLEX, worker.stage)
    if lost := worker.events.flush():
        recorded.add_metric(Metric.EVENTS_LOST, MetricUnit.Count, lost)
    metrics.flush(recorded)
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in unfinished]}


@cache
def _worker() -> SimplexWorker:
    settings = SimplexWorkerSettings.from_environment()
    connection = tables.bind(settings.table_prefix, own=MODELS)
    sqs = aws.sqs(connection.session)
    events = EventLog(EventWriter(aws.firehose(connection.session), sqs, settings))
    items_table = f"{settings.table_prefix}{ITEMS}"
    token_commands = TokenCommandHandler(connection, items_table, TokenRules(connection, events))
    return SimplexWorker(
        token_commands=token_commands, events=events, queue=settings.command_queue(sqs), stage=settings.stage
    )
