"""The Lambda of each of the three push queues. What it makes at its start serves all its invocations."""

from functools import cache
from typing import Any

import boto3
from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from pynamodb.connection import Connection

from clarion import tables
from clarion.decisions import NotifyType
from clarion.events import EventLog
from clarion.metrics import NAMESPACE, Metric, decided
from clarion.providers.apns import ApnsApp
from clarion.providers.credentials import ApnsCredential, ApnsKey, GoogleAccount, GoogleCredential
from clarion.providers.fcm import FcmApp
from clarion.providers.transport import Transport
from clarion.secrets import Secret
from dispatch.batch import Dispatcher, Report
from dispatch.pushes import App
from dispatch.queue import Delivery, PushQueue
from dispatch.settings import DispatchSettings

logger = Logger(service="dispatch")
metrics = Metrics(service="dispatch", namespace=NAMESPACE)


@metrics.log_metrics
def handler(event: dict[str, Any], _context: object) -> dict[str, list[dict[str, str]]]:
    dispatcher = _dispatcher()
    report = dispatcher.run([Delivery.of(record) for record in event["Records"]])
    _measure(report, lost=dispatcher.events.flush())
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in report.unfinished]}


@cache
def _dispatcher() -> Dispatcher:
    settings = DispatchSettings.from_environment()
    tables.bind(settings.table_prefix)
    transport = Transport(settings.ca_file)
    return Dispatcher(
        app=_app(settings, transport),
        transport=transport,
        connection=Connection(),
        queue=PushQueue(boto3.client("sqs"), settings.queue_url, settings.dead_letter_url),
        events=EventLog(boto3.client("firehose"), settings.events_stream),
        title=settings.alert_title,
    )


def _app(settings: DispatchSettings, transport: Transport) -> App:
    secrets = boto3.client("secretsmanager")
    if settings.notify_type is NotifyType.FCM:
        account = Secret(secrets, settings.provider_secret_id, GoogleAccount)
        return FcmApp(GoogleCredential(account, transport), url=settings.fcm_url)
    key = Secret(secrets, settings.provider_secret_id, ApnsKey)
    return ApnsApp(ApnsCredential(key), bundle_id=settings.bundle_id, url=settings.apns_url)


def _measure(report: Report, lost: int) -> None:
    for decision, count in report.decisions.items():
        metrics.add_metric(decided(decision), MetricUnit.Count, count)
    for latency in report.latencies:
        metrics.add_metric(Metric.LATENCY, MetricUnit.Milliseconds, latency)
    if lost:
        metrics.add_metric(Metric.EVENTS_LOST, MetricUnit.Count, lost)
    for reason in report.misconfigurations:
        logger.error("misconfigured", reason=reason)
