"""The Lambda behind XMTP's queue of commands, of which there is one: to do what is due this hour.

What the time of one invocation is not enough for comes again, and goes on where this one stopped.
"""

import time
from collections.abc import Mapping
from functools import cache
from typing import Any

from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext
from pydantic import ValidationError

from clarion import aws, sqs, tables
from clarion.cleanup import CleanupQueue
from clarion.event_log import EventLog, EventWriter
from clarion.messages import CommandMessage
from clarion.metrics import Metric, metrics_of
from clarion.networks import XMTP
from clarion.networks.needs import HOURLY
from clarion.networks.settings import WorkerSettings
from clarion.networks.xmtp.installations import Installation
from clarion.networks.xmtp.needs import INSTALLATIONS_ENDED, INSTALLATIONS_FAILED, REFRESHES_SENT
from clarion.settings import EventSettings
from clarion.sqs import Received
from xmtp.hourly import Hourly, HourlyReport

SPARE_SECONDS = 8
"""What is under way when the time is up may take so long."""


class XmtpWorkerSettings(EventSettings, WorkerSettings):
    """What the network asks for is there."""

    cleanup_queue_url: str


def handler(event: Mapping[str, Any], context: LambdaContext) -> dict[str, list[dict[str, str]]]:
    """Partial failures: https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html"""
    until = time.monotonic() + context.get_remaining_time_in_millis() / 1000 - SPARE_SECONDS
    received = [Received.of(record) for record in event["Records"]]
    unfinished = [one.message_id for one in received if not _handle(one, until)]
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in unfinished]}


def _handle(received: Received, until: float) -> bool:
    """Whether the message is done with."""
    if not _is_hourly(received.body):
        return _dead_letter(received)
    hourly, metrics = _hourly()
    report = hourly.run(until)
    _record(report, hourly.events.flush(), metrics)
    return report.finished


def _is_hourly(body: str) -> bool:
    try:
        command = CommandMessage.model_validate_json(body)
    except ValidationError:
        return False
    return (command.network, command.content) == (XMTP, HOURLY)


def _dead_letter(received: Received) -> bool:
    message = sqs.dead_letter(received.body, "no command of XMTP")
    return sqs.send(aws.sqs(aws.new_session()), _settings().dead_letter_url, [message]) == [None]


def _record(report: HourlyReport, lost: int, metrics: EphemeralMetrics) -> None:
    counts = {REFRESHES_SENT: report.refreshed, INSTALLATIONS_ENDED: report.ended, INSTALLATIONS_FAILED: report.failed}
    for name, count in counts.items():
        metrics.add_metric(name, MetricUnit.Count, count)
    if lost:
        metrics.add_metric(Metric.EVENTS_LOST, MetricUnit.Count, lost)
    metrics.flush_metrics()


@cache
def _settings() -> XmtpWorkerSettings:
    return XmtpWorkerSettings.from_environment()


@cache
def _hourly() -> tuple[Hourly, EphemeralMetrics]:
    settings = _settings()
    connection = tables.bind(settings.table_prefix, own=[Installation])
    client, firehose = aws.sqs(connection.session), aws.firehose(connection.session)
    hourly = Hourly(
        connection=connection,
        sqs=client,
        push_queues=settings.push_queues,
        cleanup=CleanupQueue(client, settings.cleanup_queue_url),
        events=EventLog(EventWriter(firehose, client, settings)),
    )
    return hourly, metrics_of(XMTP, settings.stage)
