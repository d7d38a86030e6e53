"""What a million subscribers who are woken every twenty minutes cost: a minute's tick, and a batch of dispatch's.

The real code of both runs as in `end_to_end`; what is shared by a minute's wake-ups is shared by `WOKEN` of them.
"""

from contextlib import redirect_stdout
from math import inf
from typing import NamedTuple
from uuid import UUID

import boto3

from clarion.channels import Channel
from clarion.cleanup import CleanupQueue
from clarion.clock import now_ms
from clarion.decisions import SubscriptionStatus
from clarion.event_log import EventLog, EventWriter
from clarion.metrics import metrics_of
from clarion.networks import STATEMENTS
from clarion.tables import Subscription, WakeUp
from clarion.wake_ups import PERIODS
from infra.environments import PROD
from pipeline.prices import (
    FIREHOSE_BYTE,
    INVOCATION,
    READ_UNIT,
    SENT_BYTE,
    SQS_REQUEST,
    WRITE_UNIT,
)
from schedule.expiries import Expiries
from schedule.handler import SERVICE, Schedule
from schedule.ticks import LATEST, TICKS
from schedule.waking import WakeUps
from tests.ledger.amounts import AMOUNT, AmountsTable, dollars_table, most
from tests.ledger.bill import invocation_ms, lambda_time
from tests.ledger.end_to_end import BATCH, EndToEnd, dispatch_batch
from tests.ledger.stopwatch import SideBySide, Spent, stopwatch
from tests.match.meter import Bill, meter

WOKEN = 1_000
"""In the minute that is measured."""
PERIOD = 1440
DISPATCHED = PROD.dispatch.of_held.batch
MILLIONS = 30 * 1440 / 20
"""Of wake-ups in a month of 30 days, for a million subscribers."""


class WakeUpAmounts(NamedTuple):
    """For one wake-up. Times are in milliseconds."""

    slot_reads: float
    tick_writes: float
    sends: float
    schedule_waiting: float
    schedule_processor: float
    dispatch_reads: float
    dispatch_writes: float
    receives: float
    streamed: float
    dispatch_waiting: float
    dispatch_processor: float
    sent: float


MEASURED_TIMES = {"schedule_processor", "dispatch_processor"}
AMOUNTS_TABLE = AmountsTable(
    WakeUpAmounts,
    f"for one wake-up, of {WOKEN:,} in a minute",
    labels={
        "slot_reads": "the slots' entries, read units",
        "tick_writes": "the tick's row, write units",
        "sends": "requests that send to the queues",
        "schedule_waiting": "the schedule waits, ms",
        "schedule_processor": "the schedule computes, ms",
        "dispatch_reads": "dispatch's subscription, read units",
        "dispatch_writes": "dispatch, write units",
        "receives": "requests that receive and delete",
    },
)


def measure(stages: EndToEnd, rounds: int) -> WakeUpAmounts:
    """The most of each count, the least of each time.

    A round before opens the connections. The minute is that of now, or the one before where that is the first of its hour, which has more to do.
    """
    now = now_ms() // 60_000
    minute = now - (now % 60 == 0)
    _subscribe(minute)
    _, *found = [_measure(stages, minute) for _ in range(rounds + 1)]
    return most(found, MEASURED_TIMES)


def dollars(of: WakeUpAmounts) -> dict[str, float]:
    """A month, for a million subscribers."""
    queued = {
        "the slots' entries": of.slot_reads * READ_UNIT + of.tick_writes * WRITE_UNIT,
        "sends to the queues": of.sends * SQS_REQUEST,
        "the schedule's time": lambda_time(of.schedule_waiting, of.schedule_processor, WOKEN, PROD.schedule.memory_mb),
    }
    dispatched = {
        "dispatch reads the subscription": of.dispatch_reads * READ_UNIT + of.dispatch_writes * WRITE_UNIT,
        "SQS bills the receiving and deleting": of.receives * SQS_REQUEST,
        "dispatch's invocations": INVOCATION / DISPATCHED,
        "dispatch's time": lambda_time(
            of.dispatch_waiting, of.dispatch_processor, DISPATCHED, PROD.dispatch.size.memory_mb
        ),
        "its events": of.streamed * FIREHOSE_BYTE,
        "transfer to the provider": of.sent * SENT_BYTE,
    }
    subtotal = {"*so that each is queued in its minute*": sum(queued.values())}
    total = {"**together**": sum(queued.values()) + sum(dispatched.values())}
    return {name: MILLIONS * each for name, each in (queued | subtotal | dispatched | total).items()}


def dispatch_ms(of: WakeUpAmounts) -> int:
    """How long dispatch takes for a batch."""
    return invocation_ms(of.dispatch_waiting, of.dispatch_processor, DISPATCHED, PROD.dispatch.size.memory_mb)


def bill_table(of: WakeUpAmounts) -> str:
    return dollars_table("for a million subscribers", ["dollars a month"], [dollars(of)])


def report(of: WakeUpAmounts) -> str:
    """Both tables, which go by the digits that are shown."""
    amounts = AMOUNTS_TABLE.text([of])
    return "\n\n".join([amounts, bill_table(AMOUNTS_TABLE.read(amounts)[AMOUNT])])


def _measure(stages: EndToEnd, minute: int) -> WakeUpAmounts:
    queue_url = boto3.client("sqs").create_queue(QueueName="apns-held")["QueueUrl"]
    tick, scheduled = _tick(stages, minute, queue_url)
    before = stages.relay.sent
    with meter.running() as batch:
        dispatched = stages.invoke(queue_url, dispatch_batch, receives=DISPATCHED // BATCH)
    sent = stages.relay.sent - before
    boto3.client("sqs").delete_queue(QueueUrl=queue_url)
    return WakeUpAmounts(
        slot_reads=tick.reads / WOKEN,
        tick_writes=tick.writes / WOKEN,
        sends=tick.sent / WOKEN,
        schedule_waiting=scheduled.waiting / WOKEN,
        schedule_processor=scheduled.processor / WOKEN,
        dispatch_reads=batch.reads / DISPATCHED,
        dispatch_writes=batch.writes / DISPATCHED,
        receives=batch.received / DISPATCHED,
        streamed=batch.streamed / DISPATCHED,
        dispatch_waiting=dispatched.waiting / DISPATCHED,
        dispatch_processor=dispatched.processor / DISPATCHED,
        sent=sent / DISPATCHED,
    )


def _tick(stages: EndToEnd, minute: int, queue_url: str) -> tuple[Bill, Spent]:
    """The call of a minute that is the next one after the last call's."""
    WakeUp(TICKS, LATEST, minute=minute - 1).save()
    schedule = _schedule(stages, queue_url)
    with redirect_stdout(stages.log), meter.running() as bill, stopwatch.running() as spent:
        schedule.run(minute, inf)
    return bill, spent


def _schedule(stages: EndToEnd, queue_url: str) -> Schedule:
    sqs, settings = boto3.client("sqs"), stages.settings
    return Schedule(
        wake_ups=WakeUps(sqs=sqs, held_queues={Channel.APNS: queue_url}, executor=SideBySide()),
        expiries=Expiries(
            cleanup=CleanupQueue(sqs, "unused"),
            events=EventLog(EventWriter(boto3.client("firehose"), sqs, settings)),
        ),
        metrics=metrics_of(SERVICE, settings.stage),
    )


def _subscribe(minute: int) -> None:
    """`WOKEN` iPhones that are due in this minute, as the API makes them."""
    WakeUp(PERIODS, str(PERIOD), minute=minute).save()
    names = [str(UUID(int=number, version=4)) for number in range(WOKEN)]
    with Subscription.batch_write() as batch:
        for name in names:
            batch.save(_subscription(name))
    with WakeUp.batch_write() as batch:
        for name in names:
            batch.save(
                WakeUp(
                    f"{PERIOD}:{minute % PERIOD}", name, network=STATEMENTS, channel=Channel.APNS, client_id=bytes(32)
                )
            )


def _subscription(name: str) -> Subscription:
    return Subscription(
        name,
        client_id=bytes(32),
        network=STATEMENTS,
        channel=Channel.APNS.value,
        token="a1" * 32,
        status=SubscriptionStatus.ACTIVE.value,
        generation=1,
        rule_count=0,
        created_at=now_ms(),
        updated_at=now_ms(),
        wake_every_minutes=PERIOD,
    )
