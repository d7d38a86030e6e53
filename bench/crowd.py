"""A crowd through the emulated stack: one statement that so many phones want, with calls beside it: `make bench-crowd`.

    python -m bench.crowd --receivers 100000

The phones are written to the tables as the API would leave them, since to register them one by one takes hours here.
"""

import argparse
import asyncio
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import batched
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pynamodb.models import Model

from bench.figures import Figure, report
from bench.latency import Senders, percentiles, received_by
from clarion import tables
from clarion.channels import Channel
from clarion.clock import now_ms
from clarion.decisions import NotificationDecision, SubscriptionStatus
from clarion.networks import STATEMENTS
from clarion.networks.statements import codec
from clarion.networks.statements.rules import key_of
from local.device import Device, topic_of
from local.lake import LakeEvent
from local.system import System, running

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

TOPIC = topic_of("a crowd")
RECEIVERS = 100_000
CALLS_A_SECOND = 1.0
GIVEN_UP_S = 3_600
LAKE_S = 600
WRITERS, WRITTEN_AT_ONCE = 4, 25
EVERY_S = 10
"""Progress."""


@dataclass(frozen=True)
class Crowd:
    """Seconds since the statement was submitted, sorted: when each phone's push was queued, and when it was delivered.

    `repeated` are pushes of the statement that a phone got more than once; `calls` are seconds from a call's
    submission to its push.
    """

    receivers: int
    queued: Sequence[float]
    delivered: Sequence[float]
    repeated: int
    calls: Sequence[float]

    def figures(self) -> list[Figure]:
        name = f"emulated, a crowd of {self.receivers:,}"
        p50, p99 = percentiles(self.calls)
        return [
            Figure.beside(f"{name}: pushes queued, beside phones", len(self.queued), self.receivers, "pushes"),
            Figure.beside(f"{name}: pushes delivered, beside phones", len(self.delivered), self.receivers, "pushes"),
            Figure.alone(f"{name}: pushes repeated", self.repeated, "pushes"),
            Figure.alone(f"{name}: until the last push is queued", self.queued[-1], "s"),
            Figure.alone(f"{name}: until the last push is delivered", self.delivered[-1], "s"),
            Figure.alone(f"{name}: statements beside it, from submission to push, median", p50 * 1000, "ms"),
            Figure.alone(f"{name}: statements beside it, from submission to push, 99th percentile", p99 * 1000, "ms"),
        ]


async def measured(receivers: int) -> Crowd:
    async with running("bench-crowd", lambda _: None) as system:
        sender, others = Device("sender"), Senders(system)
        # What ingest has to know of the crowd: that somebody wants the sender's statements.
        await system.register(Device("receiver"), Channel.APNS, f"{receivers:064x}", (sender.public_key, TOPIC))
        await asyncio.to_thread(write_phones, system, key_of(sender.public_key, TOPIC), receivers - 1)
        await others.submit(CALLS_A_SECOND, EVERY_S)
        raw, began = sender.statement(TOPIC, data=b"sealed"), time.time()
        await system.store.submit(raw)
        beside = await submit_until_delivered(system, others, receivers)
        events = await events_of(system, codec.digest(raw).hex(), receivers)
    return Crowd(receivers, *_times(events, began), calls=beside)


def write_phones(system: System, key: bytes, count: int) -> None:
    dynamodb = system.client("dynamodb")
    os.environ["AWS_DEFAULT_REGION"] = dynamodb.meta.region_name
    tables.bind(system.deployment.outputs.table_prefix)
    with ThreadPoolExecutor(WRITERS) as executor:
        for number, _ in enumerate(executor.map(lambda rows: write(dynamodb, rows), _rows(key, count))):
            if number % 400 == 0:
                print(f"» {number * WRITTEN_AT_ONCE // 2:,} phones", flush=True)


def _rows(key: bytes, count: int) -> Iterator[Sequence[Model]]:
    """Two of each phone: its subscription, and its one rule."""
    return batched((row for number in range(count) for row in _phone(key, number)), WRITTEN_AT_ONCE, strict=False)


def _phone(key: bytes, number: int) -> tuple[Model, Model]:
    subscription = tables.Subscription(
        str(uuid4()),
        client_id=uuid4().bytes * 2,
        network=STATEMENTS,
        channel=Channel.APNS.value,
        token=f"{number:064x}",
        status=SubscriptionStatus.ACTIVE.value,
        generation=1,
        rule_count=1,
        created_at=now_ms(),
        updated_at=now_ms(),
    )
    return subscription, tables.RuleRow(subscription.subscription_id, tables.rule_key(1, key), key=key)


def write(dynamodb: "DynamoDBClient", rows: Sequence[Model]) -> None:
    puts: dict[str, list[Any]] = {}
    for row in rows:
        puts.setdefault(row.Meta.table_name, []).append({"PutRequest": {"Item": row.serialize()}})
    left: Any = puts
    while left:
        left = dynamodb.batch_write_item(RequestItems=left)["UnprocessedItems"]


async def submit_until_delivered(system: System, others: Senders, receivers: int) -> list[float]:
    """Statements of others, until the crowd has its pushes; the latency of each."""
    submitted: dict[str, float] = {}
    before, deadline = system.apns.received.count, time.monotonic() + GIVEN_UP_S
    while system.apns.received.count - before - len(submitted) < receivers and time.monotonic() < deadline:
        submitted |= await others.submit(CALLS_A_SECOND, EVERY_S)
        print(f"» {system.apns.received.count - before - len(submitted):,} delivered", flush=True)
    received = received_by(system)
    return [received[name] - at for name, at in submitted.items() if name in received]


async def events_of(system: System, envelope_id: str, receivers: int) -> list[LakeEvent]:
    """What the lake has of the crowd's statement, once each phone's push is there, or after `LAKE_S`."""
    found: list[LakeEvent] = []
    async for events in system.lake.growing(LAKE_S):
        found = [event for event in events if event.get("envelope_id") == envelope_id]
        if sum(event["event"] == "push" for event in found) >= receivers:
            break
    return found


def _times(events: Sequence[LakeEvent], began: float) -> tuple[list[float], list[float], int]:
    """When each was queued first and was delivered first, and how many deliveries repeat one."""
    queued: dict[str, float] = {}
    delivered: dict[str, float] = {}
    for event in sorted(events, key=lambda event: -int(event["at"])):
        phone, at = event.get("subscription_id", ""), event["at"] / 1000 - began
        if event["event"] == "notification" and event["decision"] == NotificationDecision.QUEUED:
            queued[phone] = at
        elif event["event"] == "push":
            delivered[phone] = at
    pushes = Counter(event["subscription_id"] for event in events if event["event"] == "push")
    return sorted(queued.values()), sorted(delivered.values()), pushes.total() - len(pushes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--receivers", type=int, default=RECEIVERS)
    report(asyncio.run(measured(parser.parse_args().receivers)).figures())


if __name__ == "__main__":
    main()
