"""How long after an SMP server's notification a device is pushed: the real source, match and dispatch, over emulated AWS.

    a server of the tests ──NMSG──▶ the source ──every 100 ms──▶ SQS ──▶ match ──a second──▶ dispatch ──▶ APNs' stand-in

AWS is emulated in this process, and takes most of its time: so `RATE` messages a second are what one process bears.
Each client has ten queues, and messages come of queues by lot. Latency goes from the server's sending to the recorded
outcome of the message's push, `coalesced` ones by the push before them. Match and dispatch have a thread and an instance each.
"""

import asyncio
import os
import random
import statistics
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast
from uuid import uuid4

import boto3

from bench.figures import Figure, report
from bench.simplex_source import followed, row_of, server_context
from clarion.channels import Channel
from clarion.clock import now_ms
from clarion.networks import SIMPLEX, Rule
from clarion.networks.simplex.composing import sealed_for_dispatch
from clarion.networks.simplex.queues import FollowedQueue
from clarion.networks.simplex.rules import key_of
from clarion.networks.simplex.storage_key import StorageKey
from clarion.tables import Subscription
from ingest.delivery.outgoing import Outgoing
from ingest.sources.simplex.rows import watched
from tests.ingest.simplex.smp_server import SmpTestServer
from tests.ledger.end_to_end import BATCH, STORAGE_TEXT, EndToEnd, deployed_stages, dispatch_batch
from tests.ledger.simplex import create_items_table
from tests.match.scene import Scene, lake_events

CLIENTS, QUEUES_OF_CLIENT = int(os.environ.get("CLIENTS", "100")), 10
RATE = float(os.environ.get("RATE", "10"))
"""Messages a second."""
SECONDS = float(os.environ.get("SECONDS", "40"))
FLUSH_SECONDS = 0.1
"""Of the source's outbox."""
MOST_MS = 2_500
_PATIENCE = 60
_REACHED = {"delivered", "coalesced"}


class Consumer(threading.Thread):
    """Lambda's event source of one queue, with one instance: it receives up to ten messages, and hands them over."""

    def __init__(self, stages: EndToEnd, url: str, work: Callable[[list[dict[str, Any]]], Any]) -> None:
        super().__init__(daemon=True)
        self._stages, self._url, self._work = stages, url, work
        self.ends = False

    def run(self) -> None:
        sqs = boto3.client("sqs")
        while not self.ends:
            messages = sqs.receive_message(QueueUrl=self._url, MaxNumberOfMessages=BATCH).get("Messages", [])
            if not messages:
                time.sleep(0.01)
                continue
            records = [
                {
                    "messageId": one["MessageId"],
                    "body": one["Body"],
                    "receiptHandle": one["ReceiptHandle"],
                    "attributes": {"ApproximateReceiveCount": "1"},
                }
                for one in messages
            ]
            self._work(records)
            entries = [{"Id": one["MessageId"], "ReceiptHandle": one["ReceiptHandle"]} for one in messages]
            sqs.delete_message_batch(QueueUrl=self._url, Entries=cast("Any", entries))


def register(stages: EndToEnd, server: SmpTestServer) -> list[FollowedQueue]:
    """All clients, each with its queues."""
    rows = list[FollowedQueue]()
    for _ in range(CLIENTS):
        queues = [row_of(server.address(), *server.add_queue()) for _ in range(QUEUES_OF_CLIENT)]
        scene = Scene(stages.settings, stages.worker.clients)
        subscription = scene.subscribe_to(SIMPLEX, [Rule(key_of(bytes(one.queue_key))) for one in queues])
        sealed = sealed_for_dispatch(
            StorageKey(STORAGE_TEXT.encode()), subscription.subscription_id, b"a" * 32, b"c" * 32
        )
        token = sha256(subscription.subscription_id.encode()).hexdigest()
        subscription.update([Subscription.token.set(token), Subscription.network_data.set(sealed)])
        rows += queues
    return rows


async def play(stages: EndToEnd, folder: Path) -> dict[bytes, float]:
    """When each envelope was sent, by its id, in UNIX milliseconds."""
    read, sent = deque[Outgoing](), dict[bytes, float]()

    async def take(raws: Sequence[bytes]) -> None:
        read.extend(
            Outgoing(network=SIMPLEX, receipt=uuid4(), observed_at=now_ms(), fingerprint=0, raw=raw) for raw in raws
        )

    async with SmpTestServer(folder) as server:
        rows = register(stages, server)
        source = followed(rows[0], server_context(take))
        for row in rows:
            source.add(cast("Any", watched(row)))
        following = asyncio.create_task(source.follow())
        await server.until(lambda: len(server.subscribed) >= len(rows))
        flushing = asyncio.create_task(_flush(stages, read))
        ends, due = time.monotonic() + SECONDS, time.monotonic()
        names = {bytes(row.queue)[-24:]: bytes(row.queue_key) for row in rows}
        while due < ends:
            notifier_id = random.choice(list(names))  # noqa: S311 - a load
            at = time.time() * 1000
            for nonce in server.notify(notifier_id):
                sent[sha256(names[notifier_id] + nonce).digest()] = at
            due += 1 / RATE
            await asyncio.sleep(max(0, due - time.monotonic()))
        await asyncio.sleep(3)
        flushing.cancel()
        await source.leave(following)
    return sent


async def _flush(stages: EndToEnd, read: deque[Outgoing]) -> None:
    while True:
        await asyncio.sleep(FLUSH_SECONDS)
        batch = [read.popleft() for _ in range(len(read))]
        if batch:
            await asyncio.to_thread(stages.ingest, batch)


def latencies(stages: EndToEnd) -> list[float]:
    """In milliseconds."""
    create_items_table()
    queues = stages.settings.push_queues
    consumers = [
        Consumer(stages, stages.settings.queue_url, stages.worker.handle),
        Consumer(stages, queues[Channel.APNS], dispatch_batch),
    ]
    for one in consumers:
        one.start()
    with TemporaryDirectory() as folder:
        sent = asyncio.run(play(stages, Path(folder)))
    ended, until = dict[bytes, int](), time.monotonic() + _PATIENCE
    while len(ended) < len(sent) and time.monotonic() < until:
        pushes = [event for event in lake_events() if event["event"] == "push" and event["decision"] in _REACHED]
        ended |= {_id(event["envelope_id"]): event["at"] for event in pushes}
        time.sleep(0.5)
    for one in consumers:
        one.ends = True
        one.join()
    if len(ended) < len(sent):
        raise AssertionError(f"{len(sent) - len(ended)} of {len(sent)} messages were never pushed")
    return [ended[name] - at for name, at in sent.items()]


def _id(shown: str) -> bytes:
    return bytes.fromhex(shown.removeprefix("0x"))


def figures() -> list[Figure]:
    with deployed_stages() as stages:
        found = sorted(latencies(stages))
    percentiles = statistics.quantiles(found, n=100)
    name = f"SimpleX, NMSG to push, {RATE:g} a second of {CLIENTS * QUEUES_OF_CLIENT:,} queues"
    return [
        Figure.alone(f"{name}, median", percentiles[49], "ms"),
        Figure.alone(f"{name}, p99", percentiles[98], "ms"),
    ]


if __name__ == "__main__":
    os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")
    report(figures())
