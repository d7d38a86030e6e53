"""What pushes of Zulip's servers cost: one `notify` a second, for a hundred devices, and dispatch's batches of them.

The real code of both runs as in `end_to_end`.
"""

from base64 import b64encode
from contextlib import redirect_stdout
from dataclasses import replace
from typing import NamedTuple

import boto3

from api.networks.zulip.token_ids import number_of
from api.networks.zulip.worker import ZulipWorker
from api.recent import Recent
from clarion.channels import Channel
from clarion.clock import now_ms
from clarion.decisions import SubscriptionStatus
from clarion.networks import ZULIP
from clarion.networks.zulip.devices import KEY_PREFIX_BYTES, DeviceData, Profile, device_id, pack
from clarion.networks.zulip.needs import BOUNCER_SECRET
from clarion.networks.zulip.servers import MODELS, find_realm, find_server
from clarion.tables import Subscription
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
from tests.ledger.amounts import AMOUNT, AmountsTable, dollars_table, most
from tests.ledger.bill import FILE, MONTH, lambda_time
from tests.ledger.end_to_end import EndToEnd, dispatch_batch
from tests.ledger.stopwatch import SideBySide, stopwatch
from tests.ledger.whole_bill import recorded_metrics
from tests.match.meter import meter
from tests.match.scene import PREFIX
from tests.zulip import KEYS, CallingServer, Clock, ZulipDevice, settings_of

DEVICES = 100
BATCHES = DEVICES // PROD.dispatch.batch
CONTENT = b64encode(bytes(600)).decode()
"""As long as that of a message of some words, with its sender, its channel and its topic."""


class NotifyAmounts(NamedTuple):
    """For one push. Times are in milliseconds, `metrics` in parts of a metric's month."""

    reads: float
    writes: float
    requests: float
    streamed: float
    router_waiting: float
    router_processor: float
    dispatch_waiting: float
    dispatch_processor: float
    logged: float
    metrics: float
    sent: float


MEASURED_TIMES = {"router_processor", "dispatch_processor"}
AMOUNTS_TABLE = AmountsTable(NotifyAmounts, f"for one push, of a `notify` for {DEVICES} devices")


def measure(stages: EndToEnd, rounds: int) -> NotifyAmounts:
    """The most of each count, the least of each time. A round before opens the connections."""
    server = known_server(stages)
    devices = _register(server)
    _, *found = [_measure(stages, server, devices) for _ in range(rounds + 1)]
    return most(found, MEASURED_TIMES)


def dollars(of: NotifyAmounts) -> dict[str, float]:
    """A million pushes."""
    router_mb, dispatch_mb = PROD.api.size.memory_mb, PROD.dispatch.size.memory_mb
    billed = {
        "DynamoDB": of.reads * READ_UNIT + of.writes * WRITE_UNIT,
        "SQS": of.requests * SQS_REQUEST,
        "Firehose": of.streamed * FIREHOSE_BYTE,
        "S3": FILE / (PROD.lake_buffer_s * DEVICES),
        "API Gateway": API_REQUEST / DEVICES,
        "Lambda, invocations": (1 + BATCHES) * INVOCATION / DEVICES,
        "Lambda, the router's time": lambda_time(of.router_waiting, of.router_processor, DEVICES, router_mb),
        "Lambda, dispatch's time": lambda_time(
            of.dispatch_waiting, of.dispatch_processor, PROD.dispatch.batch, dispatch_mb
        ),
        "logs": of.logged * LOG_BYTE,
        "metrics": of.metrics / 1e6 * METRIC_MONTH,
        "transfer to the provider": of.sent * SENT_BYTE,
    }
    return billed | {"**all in**": sum(billed.values())}


def bill_table(of: NotifyAmounts) -> str:
    return dollars_table("for a million pushes of Zulip", ["dollars"], [dollars(of)])


def report(of: NotifyAmounts) -> str:
    """Both tables, which go by the digits that are shown."""
    amounts = AMOUNTS_TABLE.text([of])
    return "\n\n".join([amounts, bill_table(AMOUNTS_TABLE.read(amounts)[AMOUNT])])


def _measure(stages: EndToEnd, server: CallingServer, devices: list[ZulipDevice]) -> NotifyAmounts:
    stages.log.seek(0)
    stages.log.truncate()
    pushes, before = [device.push(CONTENT) for device in devices], stages.relay.sent
    queue_url = server.worker.settings.push_queues[Channel.APNS]
    with meter.running() as bill:
        with redirect_stdout(stages.log), stopwatch.running() as router:
            assert server.notify(*pushes).json["apple_successfully_sent_count"] == DEVICES
        dispatched = [stages.invoke(queue_url, dispatch_batch) for _ in range(BATCHES)]
    log = stages.log.getvalue()
    return NotifyAmounts(
        reads=bill.reads / DEVICES,
        writes=bill.writes / DEVICES,
        requests=(bill.sent + bill.received) / DEVICES,
        streamed=bill.streamed / DEVICES,
        router_waiting=router.waiting / DEVICES,
        router_processor=router.processor / DEVICES,
        dispatch_waiting=sum(one.waiting for one in dispatched) / DEVICES,
        dispatch_processor=sum(one.processor for one in dispatched) / DEVICES,
        logged=len(log.encode()) / DEVICES,
        metrics=1e6 * len(recorded_metrics(log)) / (MONTH * DEVICES),
        sent=(stages.relay.sent - before) / DEVICES,
    )


def known_server(stages: EndToEnd) -> CallingServer:
    """With a realm; it calls the router in this process."""
    boto3.client("secretsmanager").create_secret(Name=BOUNCER_SECRET, SecretString=KEYS.text)
    settings = settings_of(PREFIX, stages.settings.late_events_queue_url, stages.settings.push_queues)
    # Sixty calls share the reading of the server and of its realm, however long these take.
    servers, realms = Recent(find_server, clock=lambda: 0.0), Recent(find_realm, clock=lambda: 0.0)
    worker = replace(ZulipWorker.serving(settings), servers=servers, realms=realms, senders=SideBySide())
    server = CallingServer(worker, Clock())
    for model in MODELS:
        model.create_table(billing_mode="PAY_PER_REQUEST")
    server.admit()
    return server


def _register(server: CallingServer) -> list[ZulipDevice]:
    devices = [ZulipDevice(token=f"{number:064x}") for number in range(DEVICES)]
    with Subscription.batch_write() as batch:
        for device in devices:
            batch.save(_row(server, device))
    return devices


def _row(server: CallingServer, device: ZulipDevice) -> Subscription:
    number = number_of(device.token_id)
    data = DeviceData(Profile.SHIPPED, server.realm, number, bytes(KEY_PREFIX_BYTES), now_ms() // 1000)
    return Subscription(
        device_id(server.uuid, server.realm, number),
        client_id=server.uuid.bytes,
        network=ZULIP,
        network_data=pack(data),
        channel=Channel.APNS.value,
        token=device.token,
        status=SubscriptionStatus.ACTIVE.value,
        generation=1,
        rule_count=0,
        created_at=now_ms(),
        updated_at=now_ms(),
    )
