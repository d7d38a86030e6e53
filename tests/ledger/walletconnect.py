"""What a dapp's notification costs: one `notify` a second for a hundred subscribers, and the worker's batch of it.

The real code of both runs as in `end_to_end`. What match and dispatch do for a subscriber's phones is counted there.
"""

from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import boto3

from api.networks.walletconnect.settings import DappApiSettings
from api.networks.walletconnect.worker import DappApiWorker
from api.recent import Recent
from clarion import tables
from clarion.command_queue import CommandQueue
from clarion.event_log import EventLog, EventWriter
from clarion.networks.walletconnect.buckets import NOTIFY_OF_SUBSCRIBER
from clarion.networks.walletconnect.commands import ACCOUNTS
from clarion.networks.walletconnect.needs import SERVER_SECRET
from clarion.networks.walletconnect.projects import find_project
from clarion.networks.walletconnect.relay import Publication, RelayClient
from clarion.networks.walletconnect.relay_publisher import PublishOutcome
from clarion.networks.walletconnect.server_keys import ServerKeys
from clarion.networks.walletconnect.settings import WalletConnectOptions
from clarion.networks.walletconnect.tables import MODELS
from clarion.providers.transport import Transport
from clarion.secrets import Secret
from infra.environments import PROD
from pipeline.prices import (
    API_REQUEST,
    FIREHOSE_BYTE,
    INVOCATION,
    LOG_BYTE,
    METRIC_MONTH,
    READ_UNIT,
    SENT_BYTE,
    SQS_REQUEST,
    WRITE_UNIT,
)
from tests.dapps import Dapp
from tests.ledger.amounts import AMOUNT, AmountsTable, dollars_table, most
from tests.ledger.bill import FILE, MONTH, lambda_time
from tests.ledger.end_to_end import EndToEnd
from tests.ledger.stopwatch import PROVIDER_WAIT, SideBySide, stopwatch
from tests.ledger.whole_bill import recorded_metrics
from tests.match.meter import meter
from tests.match.scene import PREFIX
from tests.zulip import Clock
from walletconnect.batch import CommandWorker
from walletconnect.key_server import KeyServerClient
from walletconnect.notify_commands import NotifyCommandHandler
from walletconnect.outbox import NotifyOutbox
from walletconnect.relay_commands import RelayCommandHandler
from walletconnect.request_handlers import RequestHandlers

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

SUBSCRIBERS = 100
COMMANDS = SUBSCRIBERS // ACCOUNTS
OPTIONS = WalletConnectOptions(
    domain="notify.example.org",
    relay_url="https://relay.example.org",
    relay_project_id="0" * 32,
    key_servers=("keys.example.org",),
)
CONTENT = {"title": "Your swap is done", "body": "You have got 1.2 ETH", "url": "https://app.example.org/swaps/17"}
HEAD = b"POST %b HTTP/1.1\r\nhost: %b\r\nuser-agent: clarion\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
PAUSES = (60, NOTIFY_OF_SUBSCRIBER.interval // 1000)
"""Seconds before a `notify`."""
TLS_BYTES = 22
"""Of a record of TLS 1.3 about its content: https://www.rfc-editor.org/rfc/rfc8446#section-5.2"""


class SubscriberAmounts(NamedTuple):
    """For one subscriber. Times are in milliseconds, `metrics` in millionths of a metric's month."""

    reads: float
    writes: float
    requests: float
    streamed: float
    router_waiting: float
    router_processor: float
    worker_waiting: float
    worker_processor: float
    logged: float
    metrics: float
    sent: float


MEASURED_TIMES = {"router_processor", "worker_processor"}
AMOUNTS_TABLE = AmountsTable(
    SubscriberAmounts,
    f"for one subscriber, of a `notify` for {SUBSCRIBERS}",
    labels={
        "worker_waiting": "the worker waits, ms",
        "worker_processor": "the worker computes, ms",
        "sent": "sent to the relay, bytes",
    },
)


@dataclass
class CountingRelay:
    """Takes what it is given after as long as a provider, and counts the bytes of the requests."""

    client: RelayClient
    sent: int = 0

    def publish(self, publications: Sequence[Publication]) -> list[PublishOutcome]:
        stopwatch.waited += PROVIDER_WAIT
        url = self.client.rpc_url(0).encode()
        for body in (one.request() for one in publications):
            head = HEAD % (url.partition(b".org")[2], b"relay.example.org", len(body))
            self.sent += len(head) + len(body) + TLS_BYTES
        return [PublishOutcome.PUBLISHED for _ in publications]


@dataclass(frozen=True)
class Notify:
    """A dapp with subscribers, at one instance of each function."""

    dapp: Dapp
    worker: CommandWorker
    relay: CountingRelay
    accounts: Sequence[str]

    def handle(self, records: Sequence[dict[str, Any]]) -> list[str]:
        """As the worker's Lambda does, but for its metrics."""
        unfinished = self.worker.handle(records)
        assert self.worker.outbox.events.flush() == 0
        return unfinished


def measure(stages: EndToEnd, rounds: int) -> SubscriberAmounts:
    """The most of each count, the least of each time. A round before opens the connections.

    Each round has one `notify` within the hour, and one when the subscribers' buckets have been refilled.
    """
    notify = known_dapp(stages)
    _, *found = [_measure(stages, notify, pause) for pause in PAUSES * (rounds + 1)]
    return most(found, MEASURED_TIMES)


def dollars(of: SubscriberAmounts) -> dict[str, float]:
    """A million."""
    router_mb, worker_mb = PROD.api.size.memory_mb, PROD.commands.size.memory_mb
    billed = {
        "DynamoDB": of.reads * READ_UNIT + of.writes * WRITE_UNIT,
        "SQS": of.requests * SQS_REQUEST,
        "Firehose": of.streamed * FIREHOSE_BYTE,
        "S3": FILE / (PROD.lake_buffer_s * SUBSCRIBERS),
        "API Gateway": API_REQUEST / SUBSCRIBERS,
        "Lambda, invocations": 2 * INVOCATION / SUBSCRIBERS,
        "Lambda, the router's time": lambda_time(of.router_waiting, of.router_processor, SUBSCRIBERS, router_mb),
        "Lambda, the worker's time": lambda_time(of.worker_waiting, of.worker_processor, SUBSCRIBERS, worker_mb),
        "logs": of.logged * LOG_BYTE,
        "metrics": of.metrics / 1e6 * METRIC_MONTH,
        "transfer to the relay": of.sent * SENT_BYTE,
    }
    return billed | {"**all in**": sum(billed.values())}


def bill_table(of: SubscriberAmounts) -> str:
    return dollars_table("for a million notifications of WalletConnect", ["dollars"], [dollars(of)])


def report(of: SubscriberAmounts) -> str:
    """Both tables, which go by the digits that are shown."""
    amounts = AMOUNTS_TABLE.text([of])
    return "\n\n".join([amounts, bill_table(AMOUNTS_TABLE.read(amounts)[AMOUNT])])


def _measure(stages: EndToEnd, notify: Notify, pause: int) -> SubscriberAmounts:
    """`pause` is in seconds."""
    stages.log.seek(0)
    stages.log.truncate()
    notify.dapp.clock.pass_seconds(pause)
    sent, queue_url = notify.relay.sent, notify.dapp.worker.settings.command_queue_url
    with meter.running() as bill:
        with redirect_stdout(stages.log), stopwatch.running() as router:
            reply = notify.dapp.notify(*notify.accounts, **CONTENT)
        assert len(reply.json["sent"]) == SUBSCRIBERS
        worker = stages.invoke(queue_url, notify.handle)
    log = stages.log.getvalue()
    return SubscriberAmounts(
        reads=bill.reads / SUBSCRIBERS,
        writes=bill.writes / SUBSCRIBERS,
        requests=(bill.sent + bill.received) / SUBSCRIBERS,
        streamed=bill.streamed / SUBSCRIBERS,
        router_waiting=router.waiting / SUBSCRIBERS,
        router_processor=router.processor / SUBSCRIBERS,
        worker_waiting=worker.waiting / SUBSCRIBERS,
        worker_processor=worker.processor / SUBSCRIBERS,
        logged=len(log.encode()) / SUBSCRIBERS,
        metrics=1e6 * len(recorded_metrics(log)) / (MONTH * SUBSCRIBERS),
        sent=(notify.relay.sent - sent) / SUBSCRIBERS,
    )


def known_dapp(stages: EndToEnd) -> Notify:
    keys = ServerKeys.generate()
    boto3.client("secretsmanager").create_secret(Name=SERVER_SECRET, SecretString=keys.text)
    settings = DappApiSettings(
        network="walletconnect",
        table_prefix=PREFIX,
        events_stream=stages.settings.events_stream,
        late_events_queue_url=stages.settings.late_events_queue_url,
        secrets=f'{{"{SERVER_SECRET}": "{SERVER_SECRET}"}}',
        command_queue_url=boto3.client("sqs").create_queue(QueueName="walletconnect-commands")["QueueUrl"],
        options=OPTIONS.model_dump_json(),
    )
    tables.bind(PREFIX, own=MODELS)
    for model in MODELS:
        model.create_table(billing_mode="PAY_PER_REQUEST")
    # No thread pool, but an executor, which is all that is asked of it.
    threads, clock = cast("ThreadPoolExecutor", SideBySide()), Clock()
    # Sixty calls share the reading of the project, however long these take.
    projects = Recent(find_project, clock=lambda: 0.0)
    dapp = Dapp(replace(DappApiWorker.serving(settings), projects=projects, threads=threads, now=clock), clock)
    dapp.create()
    assert dapp.claim().status == 200
    relay = CountingRelay(RelayClient("wss://relay.example.org", "0" * 32, keys.relay))
    return Notify(dapp, _worker(stages, relay), relay, [dapp.subscriber() for _ in range(SUBSCRIBERS)])


def _worker(stages: EndToEnd, relay: CountingRelay) -> CommandWorker:
    sqs = boto3.client("sqs")
    events = EventLog(EventWriter(boto3.client("firehose"), sqs, stages.settings))
    outbox = NotifyOutbox(relay=relay, sqs=sqs, envelopes_queue_url=stages.settings.queue_url, events=events)
    notify_commands = NotifyCommandHandler(domain=OPTIONS.domain, outbox=outbox)
    relay_commands = RelayCommandHandler(
        keys=Secret(boto3.client("secretsmanager"), SERVER_SECRET, ServerKeys),
        key_servers=KeyServerClient(Transport(), OPTIONS),
        handlers=RequestHandlers(tables.bind(PREFIX, own=MODELS), SideBySide()),
        notify_commands=notify_commands,
    )
    return CommandWorker(
        relay_commands=relay_commands,
        notify_commands=notify_commands,
        queue=CommandQueue(sqs=sqs, url="unused", dead_letter_url="unused", max_receives=PROD.commands.receives),
    )
