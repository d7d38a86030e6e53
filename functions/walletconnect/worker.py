"""The Lambda behind WalletConnect's queue of commands: the Notify server."""

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

from clarion import aws, metrics, tables
from clarion.event_log import EventLog, EventWriter
from clarion.metrics import Metric, metrics_of
from clarion.networks import WALLETCONNECT
from clarion.networks.settings import WorkerSettings
from clarion.networks.walletconnect.needs import SERVER_SECRET
from clarion.networks.walletconnect.relay import RelayClient
from clarion.networks.walletconnect.relay_publisher import RelayPublisher
from clarion.networks.walletconnect.server_keys import ServerKeys
from clarion.networks.walletconnect.settings import WalletConnectSettings
from clarion.networks.walletconnect.tables import MODELS
from clarion.providers.transport import Transport
from clarion.secrets import Secret
from clarion.settings import EventSettings
from walletconnect.batch import CommandWorker
from walletconnect.key_server import KeyServerClient
from walletconnect.notify_commands import NotifyCommandHandler
from walletconnect.outbox import NotifyOutbox
from walletconnect.relay_commands import RelayCommandHandler
from walletconnect.request_handlers import RequestHandlers

THREADS = 8
SPARE_SECONDS = 45
"""What is under way when the time is up may take so long: several requests to tables, a key server, and the relay."""


class WalletConnectWorkerSettings(EventSettings, WorkerSettings, WalletConnectSettings):
    """The queue of envelopes is required."""

    envelopes_queue_url: str


def handler(event: Mapping[str, Any], context: LambdaContext) -> dict[str, list[dict[str, str]]]:
    """Partial failures: https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html"""
    until = time.monotonic() + context.get_remaining_time_in_millis() / 1000 - SPARE_SECONDS
    worker, settings = _worker()
    unfinished = worker.handle(event["Records"], until)
    _record(worker.outbox, settings.stage)
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in unfinished]}


def _record(outbox: NotifyOutbox, stage: str) -> None:
    """Emit the events and the metrics of one invocation."""
    recorded = metrics_of(WALLETCONNECT, stage)
    lost = outbox.events.flush()
    for name, count in ({Metric.EVENTS_LOST.value: lost} | outbox.counts).items():
        if count:
            recorded.add_metric(name, MetricUnit.Count, count)
    outbox.counts.clear()
    metrics.flush(recorded)


@cache
def _worker() -> tuple[CommandWorker, WalletConnectWorkerSettings]:
    settings = WalletConnectWorkerSettings.from_environment()
    return _worker_of(settings), settings


def _worker_of(settings: WalletConnectWorkerSettings) -> CommandWorker:
    connection = tables.bind(settings.table_prefix, pool=THREADS, own=MODELS)
    session, executor = connection.session, ThreadPoolExecutor(THREADS)
    sqs = aws.sqs(session, pool=THREADS)
    keys = Secret(aws.secrets(session), settings.secrets[SERVER_SECRET], ServerKeys)
    transport = Transport(settings.ca_file)
    outbox = NotifyOutbox(
        relay=_relay(settings, keys, transport),
        sqs=sqs,
        envelopes_queue_url=settings.envelopes_queue_url,
        events=EventLog(EventWriter(aws.firehose(session), sqs, settings)),
    )
    notify_commands = NotifyCommandHandler(domain=settings.options.domain, outbox=outbox)
    relay_commands = RelayCommandHandler(
        keys=keys,
        key_servers=KeyServerClient(transport, settings.options),
        handlers=RequestHandlers(connection, executor),
        notify_commands=notify_commands,
    )
    return CommandWorker(
        relay_commands=relay_commands,
        notify_commands=notify_commands,
        queue=settings.command_queue(sqs),
    )


def _relay(settings: WalletConnectWorkerSettings, keys: Secret[ServerKeys], transport: Transport) -> RelayPublisher:
    """The relay's address is that of its WebSocket, too."""
    options = settings.options
    url = f"ws{options.relay_url.removeprefix('http')}"
    return RelayPublisher(RelayClient(url, options.relay_project_id, keys.get().relay), transport)
