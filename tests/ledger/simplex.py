"""What a message of SimpleX costs, by what becomes of it: from ingest's sending to the provider, as in `end_to_end`.

The token's row has six items before, as it has after any week. Messages come one at a time, but for the six in one push.
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from itertools import count
from typing import Literal, NamedTuple
from uuid import uuid4

import boto3

from clarion.channels import Channel
from clarion.clock import now_ms
from clarion.networks import SIMPLEX, Rule
from clarion.networks.simplex.addresses import SmpQueue, SmpServer
from clarion.networks.simplex.composing import sealed_for_dispatch
from clarion.networks.simplex.envelope import encode
from clarion.networks.simplex.items import MOST_ITEMS, MessageArrived
from clarion.networks.simplex.needs import ITEMS
from clarion.networks.simplex.rules import key_of, queue_key
from clarion.networks.simplex.storage_key import StorageKey
from clarion.tables import Subscription
from infra.environments import PROD
from ingest.delivery.outgoing import Outgoing
from match.recording import AT_FIRST
from pipeline.prices import (
    FIREHOSE_BYTE,
    INVOCATION,
    LOG_BYTE,
    METRIC_MONTH,
    READ_UNIT,
    SENT_BYTE,
    SQS_REQUEST,
    WRITE_UNIT,
)
from tests.ledger.amounts import AmountsTable, dollars_table, most
from tests.ledger.bill import FILE, MONTH, lambda_time
from tests.ledger.end_to_end import STORAGE_TEXT, EndToEnd, dispatch_batch
from tests.ledger.stopwatch import Spent
from tests.ledger.whole_bill import recorded_metrics
from tests.match.meter import Bill, meter
from tests.match.scene import PREFIX, Scene

LIMIT = 30
SERVER = SmpServer(("smp14.simplex.im", "o" * 56 + ".onion"), "", bytes(32))
"""As long as those of SimpleX's own servers."""
PATIENCE_SECONDS = 60
VISIBLE: Literal["ApproximateNumberOfMessages"] = "ApproximateNumberOfMessages"


class MessageAmounts(NamedTuple):
    """For one message. Times are in milliseconds, `metrics` in millionths of a metric's month."""

    reads: float
    writes: float
    requests: float
    streamed: float
    invocations: float
    match_waiting: float
    match_processor: float
    dispatch_waiting: float
    dispatch_processor: float
    logged: float
    metrics: float
    sent: float


MEASURED_TIMES = {"match_processor", "dispatch_processor"}
PATHS = {
    "alone": 1,
    "six in one push": MOST_ITEMS,
    "held back, and recorded": 1,
    "held back": 1,
    "to nobody": 1,
}
"""How many messages there are at once."""
AMOUNTS_TABLE = AmountsTable(MessageAmounts, "for one message", [*PATHS])


@dataclass
class Phone:
    """A token with a queue more than a push has items."""

    stages: EndToEnd
    queues: Sequence[SmpQueue] = field(
        default_factory=lambda: [SmpQueue(SERVER, uuid4().bytes + bytes(8)) for _ in range(MOST_ITEMS + 1)]
    )
    numbers: "count[int]" = field(default_factory=count)

    def register(self) -> None:
        rules = [Rule(key_of(queue_key(one))) for one in self.queues]
        row = Scene(self.stages.settings, self.stages.worker.clients).subscribe_to(SIMPLEX, rules)
        sealed = sealed_for_dispatch(StorageKey(STORAGE_TEXT.encode()), row.subscription_id, b"a" * 32, b"c" * 32)
        row.update([Subscription.token.set("a1" * 32), Subscription.network_data.set(sealed)])

    def message(self, queue: SmpQueue) -> Outgoing:
        arrived = MessageArrived(next(self.numbers).to_bytes(24), b"m" * 144)
        raw, now = encode(queue, now_ms() // 1000, arrived), now_ms()
        return Outgoing(network=SIMPLEX, receipt=uuid4(), observed_at=now, fingerprint=0, raw=raw)

    def deliver(self, *queues: SmpQueue, reaches: bool = True) -> MessageAmounts:
        """A message of each, in one batch. Those that are not held back reach the device a second later."""
        stages, sent = self.stages, self.stages.relay.sent
        stages.log.seek(0)
        stages.log.truncate()
        messages = [self.message(one) for one in queues]
        with meter.running() as bill, redirect_stdout(stages.log):
            stages.ingest(messages)
            match = stages.invoke(stages.settings.queue_url, stages.worker.handle, receives=-(-len(queues) // 10))
        bills, dispatch = [bill], Spent()
        if reaches:
            url = stages.settings.push_queues[Channel.APNS]
            await_messages(url, len(queues))
            with meter.running() as bill:
                dispatch = stages.invoke(url, dispatch_batch, receives=-(-len(queues) // 10))
            bills.append(bill)
        return _amounts(len(queues), bills, match, dispatch, stages.log.getvalue(), stages.relay.sent - sent)


def measure(stages: EndToEnd, rounds: int) -> dict[str, MessageAmounts]:
    """By path: the most of each count, the least of each time. A round before opens the connections."""
    create_items_table()
    _, *found = [_round(stages) for _ in range(rounds + 1)]
    return {name: most([one[name] for one in found], MEASURED_TIMES) for name in PATHS}


def dollars(name: str, of: MessageAmounts) -> dict[str, float]:
    """A million messages."""
    messages = PATHS[name]
    match_mb, dispatch_mb = PROD.match.size.memory_mb, PROD.dispatch.size.memory_mb
    billed = {
        "DynamoDB": of.reads * READ_UNIT + of.writes * WRITE_UNIT,
        "SQS": of.requests * SQS_REQUEST,
        "Firehose": of.streamed * FIREHOSE_BYTE,
        "S3": FILE / (PROD.lake_buffer_s * messages),
        "Lambda, invocations": of.invocations * INVOCATION,
        "Lambda, match's time": lambda_time(of.match_waiting, of.match_processor, messages, match_mb),
        "Lambda, dispatch's time": lambda_time(of.dispatch_waiting, of.dispatch_processor, messages, dispatch_mb),
        "logs": of.logged * LOG_BYTE,
        "metrics": of.metrics / 1e6 * METRIC_MONTH,
        "transfer to the provider": of.sent * SENT_BYTE,
    }
    return billed | {"**all in**": sum(billed.values())}


def bill_table(measured: Mapping[str, MessageAmounts]) -> str:
    return dollars_table("dollars a million messages", PATHS, [dollars(name, one) for name, one in measured.items()])


def report(measured: Mapping[str, MessageAmounts]) -> str:
    """Both tables, which go by the digits that are shown."""
    amounts = AMOUNTS_TABLE.text(measured.values())
    return "\n\n".join([amounts, bill_table(AMOUNTS_TABLE.read(amounts))])


def _round(stages: EndToEnd) -> dict[str, MessageAmounts]:
    phone = Phone(stages)
    phone.register()
    first, *others = phone.queues
    phone.deliver(*others)
    six, alone = phone.deliver(*others), phone.deliver(first)
    phone.deliver(*[first] * (LIMIT - 1))
    # The first two begin the cooldown, and the period for which a late push is on its way.
    recorded = [phone.deliver(first, reaches=False) for _ in range(AT_FIRST)][-1]
    # Every few seconds one is recorded once more.
    held_back = min((phone.deliver(first, reaches=False) for _ in range(2 * AT_FIRST)), key=lambda one: one.writes)
    nobody = phone.deliver(SmpQueue(SERVER, uuid4().bytes), reaches=False)
    return {
        "alone": alone,
        "six in one push": six,
        "held back, and recorded": recorded,
        "held back": held_back,
        "to nobody": nobody,
    }


def _amounts(
    messages: int, bills: Sequence[Bill], match: Spent, dispatch: Spent, log: str, sent: int
) -> MessageAmounts:
    return MessageAmounts(
        reads=sum(bill.reads for bill in bills) / messages,
        writes=sum(bill.writes for bill in bills) / messages,
        requests=sum(bill.sent + bill.received for bill in bills) / messages,
        streamed=sum(bill.streamed for bill in bills) / messages,
        invocations=len(bills) / messages,
        match_waiting=match.waiting / messages,
        match_processor=match.processor / messages,
        dispatch_waiting=dispatch.waiting / messages,
        dispatch_processor=dispatch.processor / messages,
        logged=len(log.encode()) / messages,
        metrics=1e6 * len(recorded_metrics(log)) / (MONTH * messages),
        sent=sent / messages,
    )


def await_messages(url: str, messages: int) -> None:
    """Until so many can be received: a push waits for others."""
    sqs, until = boto3.client("sqs"), time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=[VISIBLE])["Attributes"][VISIBLE]
        if int(found) >= messages:
            return
        time.sleep(0.05)
    raise AssertionError("the pushes never came")


def create_items_table() -> None:
    boto3.client("dynamodb").create_table(
        TableName=f"{PREFIX}{ITEMS}",
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "subscription_id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "subscription_id", "AttributeType": "S"}],
    )
