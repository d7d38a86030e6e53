"""The Lambda of each push queue. What it makes at its start serves all its invocations."""

from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from clarion.cold_start import without_collection

with without_collection():
    from aws_lambda_powertools import Logger
    from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit
    from botocore.session import Session

    from clarion import aws, tables
    from clarion.channels import CHANNELS, Provider
    from clarion.cleanup import CleanupQueue
    from clarion.decisions import Environment, PushDecision
    from clarion.event_log import EventLog, EventWriter
    from clarion.metrics import Metric, decided, flush, metrics_of
    from clarion.providers.apps import Apps, apns_apps, fcm_apps
    from clarion.providers.transport import Transport
    from clarion.providers.webhook import webhook_apps
    from clarion.providers.webpush import WebPushApps
    from clarion.providers.webpush_address import PUSH_SERVICES
    from clarion.secrets import Secret, SharedSecret
    from dispatch.batch import WRITERS, BatchReport, Dispatcher
    from dispatch.queue import Delivery, PushQueue
    from dispatch.settings import DispatchSettings

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

logger = Logger(service="dispatch")


def handler(event: dict[str, Any], context: "LambdaContext") -> dict[str, list[dict[str, str]]]:
    """Partial failures: https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html"""
    worker, metrics = _worker()
    dispatcher = replace(worker, seconds_left=lambda: context.get_remaining_time_in_millis() / 1000)
    report = dispatcher.run([Delivery.of(record) for record in event["Records"]])
    _record(report, dispatcher.events.flush(), metrics)
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in report.unfinished]}


@cache
@without_collection()
def _worker() -> tuple[Dispatcher, EphemeralMetrics]:
    settings = DispatchSettings.from_environment()
    connection = tables.bind(settings.table_prefix)
    session = connection.session
    transport = Transport(settings.ca_file)
    sqs, writers = aws.sqs(session), ThreadPoolExecutor(WRITERS)
    dispatcher = Dispatcher(
        apps=_apps(settings, transport, session),
        transport=transport,
        connection=connection,
        queue=PushQueue(sqs, settings.queue_url, settings.dead_letter_url, settings.held_url, writers),
        cleanup=CleanupQueue(sqs, settings.cleanup_queue_url),
        events=EventLog(EventWriter(aws.firehose(session), sqs, settings)),
        command_queues=settings.command_queues,
        payload_secrets=_payload_secrets(settings, session),
        table_prefix=settings.table_prefix,
        writers=writers,
        max_receives=settings.max_receives,
    )
    return dispatcher, metrics_of("dispatch", settings.stage)


def _apps(settings: DispatchSettings, transport: Transport, session: Session) -> Apps[Any]:
    secrets = aws.secrets(session)
    match CHANNELS[settings.channel].provider:
        case Provider.APNS:
            urls = {Environment.PRODUCTION: settings.apns_url, Environment.SANDBOX: settings.apns_sandbox_url}
            return apns_apps(settings.all_apps, secrets, urls)
        case Provider.FCM:
            return fcm_apps(settings.all_apps, secrets, transport, settings.fcm_url)
        case Provider.WEBPUSH:
            return WebPushApps(settings.all_apps, secrets, (*PUSH_SERVICES, *settings.push_services))
        case Provider.WEBHOOK:
            stand_in = settings.webhook_stand_in_url
            url = stand_in or settings.webhook_url or ""
            return webhook_apps(settings.all_apps, secrets, url, public=stand_in is None)


def _payload_secrets(settings: DispatchSettings, session: Session) -> Mapping[str, Secret[SharedSecret]]:
    if not settings.payload_secrets:
        return {}
    secrets = aws.secrets(session)
    return {name: Secret(secrets, secret_id, SharedSecret) for name, secret_id in settings.payload_secrets.items()}


def _record(report: BatchReport, lost: int, metrics: EphemeralMetrics) -> None:
    if report.own_delivered:
        metrics.add_metric(Metric.OWN_PUSHES_DELIVERED, MetricUnit.Count, report.own_delivered)
    if faults := report.token_faults + report.strangers_gone:
        metrics.add_metric(Metric.TOKEN_FAULTS, MetricUnit.Count, faults)
    delivered = report.decisions[PushDecision.DELIVERED]  # counted by the latencies, or as own
    of_tokens = {PushDecision.REFUSED: report.token_faults, PushDecision.TOKEN_GONE: report.strangers_gone}
    apart = Counter({PushDecision.DELIVERED: delivered, **of_tokens})
    for decision, count in (report.decisions - apart).items():
        metrics.add_metric(decided(decision), MetricUnit.Count, count)
    for latency in report.latencies:
        metrics.add_metric(Metric.LATENCY, MetricUnit.Milliseconds, latency)
    for (app, reason), waiting in report.faults.items():
        logger.error("misconfigured", app=app, reason=reason, waiting=waiting)
    if lost:
        metrics.add_metric(Metric.EVENTS_LOST, MetricUnit.Count, lost)
    flush(metrics)
