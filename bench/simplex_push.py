"""How long after an SMP server's notification a device is pushed, through the emulated stack: `make bench-simplex-push`.

    a server of the tests ──NMSG──▶ ingest ──▶ SQS ──▶ match ──a second──▶ dispatch ──▶ APNs' stand-in

    python -m bench.simplex_push --clients 1000 --rate 100 --seconds 60

Each client has ten queues, and messages come of queues by lot. Clients and queues are written to the tables as the NTF
server would leave them, and ingest is started after that. Latency goes from the server's sending to the recorded
outcome of the message's push, `coalesced` ones by the push before them. Ends with 1 if the latest percent are over
`MOST_MS`, or any message was never pushed. All share one machine: the processor time of a message is given by part.
"""

import argparse
import asyncio
import os
import random
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from itertools import batched
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from pynamodb.models import Model

from bench.crowd import WRITERS, WRITTEN_AT_ONCE, write
from bench.figures import Figure, report
from bench.latency import percentiles
from bench.processors import ProcessorTime
from bench.simplex_source import row_of
from clarion import tables
from clarion.channels import Channel
from clarion.clock import now_ms
from clarion.decisions import SubscriptionStatus
from clarion.networks import SIMPLEX
from clarion.networks.simplex.composing import sealed_for_dispatch
from clarion.networks.simplex.needs import STORAGE_KEY
from clarion.networks.simplex.rules import key_of
from clarion.networks.simplex.storage_key import StorageKey
from clarion.networks.simplex.tables import MODELS
from clarion.secrets import Secret, SharedSecret
from local.system import System, running
from tests.ingest.simplex.smp_server import SmpTestServer

CLIENTS, QUEUES_OF_CLIENT = 1_000, 10
RATE, SECONDS = 100.0, 60.0
"""Messages a second."""
WARM_UP_S = 10
"""The functions start, and nothing counts."""
IDLE_S = 5
"""What is spent on nothing is measured for so long."""
ARRIVAL_S = 60
MOST_MS = 2_500
_REACHED = {"delivered", "coalesced"}


@dataclass(frozen=True)
class SimplexLatency:
    """`seconds` from the server's sending to the push, of each message that was; `parts` as in `bench.latency`."""

    clients: int
    rate: float
    sent: int
    seconds: Sequence[float]
    parts: Mapping[str, float]

    @property
    def holds(self) -> bool:
        return len(self.seconds) == self.sent and percentiles(self.seconds)[1] * 1000 <= MOST_MS

    def figures(self) -> list[Figure]:
        p50, p99 = percentiles(self.seconds)
        at = f"emulated, {self.rate:g} NMSG/s of {self.clients * QUEUES_OF_CLIENT:,} queues"
        return [
            Figure.alone(f"{at}: from NMSG to push, median", p50 * 1000, "ms"),
            Figure.beside(f"{at}: from NMSG to push, 99th percentile, beside the most", p99 * 1000, MOST_MS, "ms"),
            Figure.beside(f"{at}: pushed, beside sent", len(self.seconds), self.sent, "messages"),
            Figure.alone(f"{at}: processor time of a message", sum(self.parts.values()) * 1000, "ms"),
        ]

    def figures_by_part(self) -> list[Figure]:
        return [Figure.alone(f"{self.rate:g} NMSG/s: {part}", each * 1000, "ms") for part, each in self.parts.items()]


@dataclass
class Notifiers:
    """The queues of all clients, at one SMP server; `names` has the envelopes' queue key by notifier id."""

    system: System
    server: SmpTestServer
    names: Mapping[bytes, bytes]

    async def notify(self, rate: float, seconds: float) -> dict[str, float]:
        """When each message was due, in UNIX seconds, by the id of its envelope; at an even pace.

        One that is sent late is late like any other.
        """
        sent, notifier_ids, begun = dict[str, float](), list(self.names), time.time()
        for number in range(round(rate * seconds)):
            due = begun + number / rate
            await asyncio.sleep(max(0.0, due - time.time()))
            notifier_id = random.choice(notifier_ids)  # noqa: S311 - a load
            for nonce in self.server.notify(notifier_id):
                sent[sha256(self.names[notifier_id] + nonce).hexdigest()] = due
        return sent

    async def pushed(self, sent: Mapping[str, float]) -> dict[str, float]:
        """When the push of each was recorded, in UNIX seconds; returns once all are there, or are late."""
        ended = dict[str, float]()
        async for events in self.system.lake.growing(ARRIVAL_S):
            reached = [each for each in events if each["event"] == "push" and each["decision"] in _REACHED]
            ended = {each["envelope_id"]: each["at"] / 1000 for each in reached if each["envelope_id"] in sent}
            if len(ended) == len(sent):
                break
            # To look at the lake takes of the processors that the stack needs.
            await asyncio.sleep(2)
        return ended


async def measured(clients: int, rate: float, seconds: float) -> SimplexLatency:
    async with _followed(clients) as notifiers:
        await notifiers.pushed(await notifiers.notify(rate, WARM_UP_S))
        idle = ProcessorTime.begin()
        await asyncio.sleep(IDLE_S)
        unused, idle_s, busy = idle.taken(), idle.seconds, ProcessorTime.begin()
        sent = await notifiers.notify(rate, seconds)
        await asyncio.sleep(IDLE_S)
        spans, taken = busy.seconds / idle_s, busy.taken()
        ended = await notifiers.pushed(sent)
    parts = {part: (used - spans * unused[part]) / len(sent) for part, used in taken.items()}
    return SimplexLatency(clients, rate, len(sent), [at - sent[name] for name, at in ended.items()], parts)


@asynccontextmanager
async def _followed(clients: int) -> AsyncIterator[Notifiers]:
    with TemporaryDirectory() as folder:
        async with running("bench-simplex-push", lambda _: None) as system, SmpTestServer(Path(folder)) as server:
            await asyncio.to_thread(system.ingest.close)
            names = await asyncio.to_thread(write_clients, system, server, clients)
            system.ingest.enter_context(system.ingesting(log="ingest-simplex.log"))
            async with asyncio.timeout(ARRIVAL_S * 5):
                await server.until(lambda: len(server.subscribed) >= len(names))
            yield Notifiers(system, server, names)


def write_clients(system: System, server: SmpTestServer, clients: int) -> dict[bytes, bytes]:
    """The key of each queue, by its notifier id."""
    dynamodb, prefix = system.client("dynamodb"), system.deployment.outputs.table_prefix
    os.environ["AWS_DEFAULT_REGION"] = dynamodb.meta.region_name
    tables.bind(prefix, own=MODELS)
    secret = Secret(system.client("secretsmanager"), f"{prefix}{STORAGE_KEY}", SharedSecret)
    key, names = StorageKey.of(secret.get()), dict[bytes, bytes]()
    rows = (row for number in range(clients) for row in _client(key, server, number, names))
    with ThreadPoolExecutor(WRITERS) as executor:
        for _ in executor.map(lambda some: write(dynamodb, some), batched(rows, WRITTEN_AT_ONCE, strict=False)):
            pass
    return names


def _client(key: StorageKey, server: SmpTestServer, number: int, names: dict[bytes, bytes]) -> Iterator[Model]:
    """Its subscription, its queues and their rules."""
    subscription_id, address = str(uuid4()), server.address()
    yield tables.Subscription(
        subscription_id,
        client_id=uuid4().bytes * 2,
        network=SIMPLEX,
        channel=Channel.APNS.value,
        token=f"{number:064x}",
        status=SubscriptionStatus.ACTIVE.value,
        generation=1,
        rule_count=QUEUES_OF_CLIENT,
        created_at=now_ms(),
        updated_at=now_ms(),
        network_data=sealed_for_dispatch(key, subscription_id, os.urandom(32), os.urandom(32)),
    )
    for _ in range(QUEUES_OF_CLIENT):
        notifier_id, signing_key = server.add_queue()
        row = row_of(address, notifier_id, signing_key, key)
        names[notifier_id] = bytes(row.queue_key)
        rule = key_of(bytes(row.queue_key))
        yield row
        yield tables.RuleRow(subscription_id, tables.rule_key(1, rule), key=rule)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=CLIENTS)
    parser.add_argument("--rate", type=float, default=RATE, help="messages a second")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    options = parser.parse_args()
    found = asyncio.run(measured(options.clients, options.rate, options.seconds))
    report([*found.figures(), *found.figures_by_part()])
    sys.exit(0 if found.holds else 1)


if __name__ == "__main__":
    main()
