"""The source of SimpleX: how fast its queues are subscribed to anew, what they take of memory, and what a kill loses.

Beside the subscriptions stands the bare cryptography of each: its key loaded, and a signature. That is what issue 22 sets
`LEAST_RATIO` of. A second line has the key opened as well, which lies sealed in its row. All go by the processor's time
of this process; rows come as pynamodb has them, and the server is a process of its own. No status is written: it is what
the rows have already.

Memory is what Python has allocated for a queue and a server, and what the process has grown by for a connection.

A killed task loses what it had read and SQS had not taken yet: no server sends that again. Here each batch takes SQS
`SQS_SECONDS`, and whatever was sent counts, read or not.
"""

import asyncio
import gc
import multiprocessing
import os
import random
import resource
import sys
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from os import urandom
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import SecretStr

from bench.figures import Figure, report
from clarion.messages import read_match_message
from clarion.networks.simplex.credentials import private_key
from clarion.networks.simplex.envelope import decode
from clarion.networks.simplex.queues import FollowedQueue, bucket_of, queue_of
from clarion.networks.simplex.rules import queue_key
from clarion.networks.simplex.storage_key import StorageKey
from clarion.secrets import SharedSecret
from ingest.delivery.destinations import CommandQueues, EnvelopeQueue, LakeStream
from ingest.delivery.outbox import Budget
from ingest.delivery.outboxes import Outboxes
from ingest.filter.candidates import CandidateFilter
from ingest.intake import Intake
from ingest.lease.shards import Shards
from ingest.memory.seen import SeenEnvelopes
from ingest.memory.standby import Standby
from ingest.memory.unmatched import UnmatchedBuffer
from ingest.sources.feed import Feed
from ingest.sources.simplex.connector import Connector
from ingest.sources.simplex.handshake import client_context
from ingest.sources.simplex.places import Places
from ingest.sources.simplex.queues import ServerQueues, WatchedQueue
from ingest.sources.simplex.room import Room
from ingest.sources.simplex.rows import watched
from ingest.sources.simplex.server import FollowedServer, ServerContext
from ingest.sources.simplex.session import SmpTimes
from ingest.sources.simplex.source import SOURCE_SPEC, key_opener
from ingest.sources.simplex.statuses import StatusWriter
from tests.ingest.simplex.smp_server import SmpTestServer

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from ingest.counts import Counts

QUEUES = 5_000
CONNECTIONS = 300
REPEATED = 20_000
"""Queues, to measure the memory of one."""
LEAST_RATIO = 0.35
"""Of the subscriptions' rate to that of their bare cryptography."""
KILLS = 8
RATE = 200
"""Messages a second, before each kill."""
MOST_LOST_MS = 100.0
SQS_SECONDS = 0.02
_SPAWN = multiprocessing.get_context("spawn")
_STORAGE_KEY = StorageKey.of(SharedSecret(secret=SecretStr("b" * 43)))
_AMPLE = 64 * 1024 * 1024

type Take = Callable[[Sequence[bytes]], Any]


def row_of(
    server: bytes, notifier_id: bytes, key: Ed25519PrivateKey, storage_key: StorageKey = _STORAGE_KEY
) -> FollowedQueue:
    raw = server + bytes([len(notifier_id)]) + notifier_id
    queue = queue_of(raw)
    der = key.private_bytes(serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    of_queue = queue_key(queue)
    sealed = storage_key.seal(der, of_queue)
    row = FollowedQueue(of_queue, queue=raw, notifier_key=sealed, token_id="t", status="ACTIVE")  # noqa: S106 - no secret
    row.owner_key, row.bucket, row.changed_at = b"owner", bucket_of(queue.server), 1
    return row


def server_context(take: Take) -> ServerContext:
    """As a task's servers share it."""
    return ServerContext(
        connector=Connector(client_context(), loopback=True),
        places=Places(),
        room=Room(),
        reading=asyncio.Semaphore(1),
        writing=asyncio.Semaphore(1),
        take=take,
        open_key=key_opener(_STORAGE_KEY),
        times=SmpTimes(),
        counts=Counter(),
    )


async def ours() -> bool:
    return True


def followed(row: FollowedQueue, context: ServerContext) -> FollowedServer:
    """The server of `row`, with that queue, as a task follows it."""
    queue = cast("WatchedQueue", watched(row))
    server = FollowedServer(queue.server, context, StatusWriter(ours, context.writing))
    server.add(queue)
    return server


def serve(pipe: "Connection", queues: int) -> None:
    """Be a server with so many queues: their rows go into the pipe; then, each number asks for so many messages."""
    asyncio.run(_serve(pipe, queues))


async def _serve(pipe: "Connection", queues: int) -> None:
    with TemporaryDirectory() as folder:
        async with SmpTestServer(Path(folder)) as server:
            pipe.send([(server.address(), *_raw(server)) for _ in range(queues)])
            await server.until(lambda: len(server.subscribed) >= queues)
            pipe.send("subscribed")
            await asyncio.to_thread(pipe.recv)


def _raw(server: SmpTestServer) -> tuple[bytes, bytes]:
    notifier_id, key = server.add_queue()
    return notifier_id, key.private_bytes_raw()


async def subscribe_anew(rows: Sequence[FollowedQueue], pipe: "Connection") -> float:
    """The processor's seconds."""

    async def take(_: Sequence[bytes]) -> None: ...

    server = followed(rows[0], server_context(take))
    began = time.process_time()
    for row in rows[1:]:
        server.add(cast("WatchedQueue", watched(row)))
    following = asyncio.create_task(server.follow())
    while not pipe.poll():  # noqa: ASYNC110 - another process says so
        await asyncio.sleep(0.02)
    taken = time.process_time() - began
    pipe.recv()
    await server.leave(following)
    return taken


def seconds_to_open(rows: Sequence[FollowedQueue]) -> float:
    """Of the processor, for all keys."""
    began = time.process_time()
    for row in rows:
        _STORAGE_KEY.open(bytes(row.notifier_key), bytes(row.queue_key))
    return time.process_time() - began


def seconds_to_sign(rows: Sequence[FollowedQueue]) -> float:
    """Of the processor, to load each key and sign once by it."""
    opened = [_STORAGE_KEY.open(bytes(row.notifier_key), bytes(row.queue_key)) for row in rows]
    began = time.process_time()
    for der in opened:
        cast("Ed25519PrivateKey", private_key(der)).sign(bytes(120))
    return time.process_time() - began


def resubscription(queues: int = QUEUES) -> list[Figure]:
    """Beside its bare cryptography, first what `LEAST_RATIO` is of."""
    with served(queues) as (rows, pipe):
        before = seconds_to_open(rows), seconds_to_sign(rows)
        taken = asyncio.run(subscribe_anew(rows, pipe))
        opening, signing = map(min, before, (seconds_to_open(rows), seconds_to_sign(rows)))
    ours, bare = queues / taken, queues / signing
    return [
        Figure.beside(f"resubscription beside loading and signing, {LEAST_RATIO} at least", ours, bare, "queues/s"),
        Figure.beside("the same beside opening as well", ours, queues / (opening + signing), "queues/s"),
    ]


@contextmanager
def served(queues: int) -> Iterator[tuple[list[FollowedQueue], "Connection"]]:
    """The rows of a server that is a process of its own, and its pipe."""
    ours, theirs = _SPAWN.Pipe()
    process = _SPAWN.Process(target=serve, args=(theirs, queues), daemon=True)
    process.start()
    yield [row_of(server, name, Ed25519PrivateKey.from_private_bytes(raw)) for server, name, raw in ours.recv()], ours
    ours.send("end")
    process.join()


def memory() -> list[Figure]:
    """Of one queue with a token of its own, of one server, and of one connection, to one of 300 servers."""
    with served(CONNECTIONS) as (rows, pipe):
        # Memory that was freed would be taken for the connections'.
        server, connection = asyncio.run(_of_servers(rows, pipe))
        queue = _allocated(lambda: _queues(rows[0]), REPEATED)
    return [
        Figure.alone("memory of a queue", queue, "bytes"),
        Figure.alone("memory of a server without a connection", server, "bytes"),
        Figure.alone("memory of a connection", connection, "bytes"),
    ]


def _allocated(make: Callable[[], object], count: int) -> float:
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    kept = make()
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del kept
    return (after - before) / count


def _queues(like: FollowedQueue) -> object:
    """As a bucket and a server keep them."""
    address, rows, queues = queue_of(bytes(like.queue)).server, dict[bytes, WatchedQueue](), ServerQueues()
    for number in range(REPEATED):
        key, name, token = urandom(24), urandom(24), f"{number:048}"
        sealed = urandom(len(bytes(like.notifier_key)))
        rows[key] = WatchedQueue(key, address, name, sealed, token, "ACTIVE", 1_800_000_000_000 + number)
        queues.add(rows[key])
    return rows, queues


async def _of_servers(rows: Sequence[FollowedQueue], pipe: "Connection") -> tuple[float, float]:
    tasks: list[asyncio.Task[None]] = []

    async def take(_: Sequence[bytes]) -> None: ...

    context = server_context(take)

    def make() -> object:
        servers = [followed(row, context) for row in rows]
        tasks.extend(asyncio.create_task(server.follow()) for server in servers)
        return servers

    server = _allocated(make, len(rows))
    before = _resident()
    while not await asyncio.to_thread(pipe.poll, 0.1):
        pass
    pipe.recv()
    grown = _resident() - before
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    return server, grown / len(rows)


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


class SlowSqs:
    """Takes a batch in `SQS_SECONDS`; what it has goes into the pipe, which outlives whoever writes."""

    def __init__(self, pipe: "Connection") -> None:
        self._pipe = pipe

    def send_message_batch(self, **request: Any) -> Mapping[str, Any]:
        time.sleep(SQS_SECONDS)
        entries = request["Entries"]
        self._pipe.send_bytes("\n".join(entry["MessageBody"] for entry in entries).encode())
        return {"Successful": [{"Id": entry["Id"]} for entry in entries], "Failed": []}


class EmptyLake:
    def write(self, _: object) -> Sequence[bytes]:
        return []


def follow(pipe: "Connection", row: tuple[bytes, bytes, bytes]) -> None:
    """Be a task that follows the server of one queue, until it is killed."""
    server, notifier_id, raw = row
    asyncio.run(_follow(pipe, row_of(server, notifier_id, Ed25519PrivateKey.from_private_bytes(raw))))


async def _follow(pipe: "Connection", row: FollowedQueue) -> None:
    counts: Counts = Counter()
    outboxes = Outboxes(
        queue=EnvelopeQueue(cast("Any", SlowSqs(pipe)), "queue", cast("Any", None), "oversize"),
        lake=LakeStream(cast("Any", EmptyLake())),
        commands=CommandQueues(cast("Any", None), {}),
        command_networks=(),
        capacity=_AMPLE,
        sources=1,
        lake_linger=1.0,
        counts=counts,
    )
    shards = Shards("me")
    intake = Intake(
        shards=shards,
        standby=Standby(shards, Budget(_AMPLE), 0),
        seen=SeenEnvelopes(1_000_000),
        candidates=CandidateFilter(),
        unmatched=UnmatchedBuffer(_AMPLE),
        outbox=outboxes.envelopes,
        counts=counts,
        rule_lag_ms=0,
    )
    feed = Feed(1, "simplex", SOURCE_SPEC)

    async def take(raws: Sequence[bytes]) -> None:
        await intake.take(raws, feed)

    await asyncio.gather(followed(row, server_context(take)).follow(), outboxes.send_forever())


async def oldest_lost(server: SmpTestServer) -> float:
    """In milliseconds, at one kill: 0 if nothing was lost."""
    notifier_id, raw = _raw(server)
    ours, theirs = _SPAWN.Pipe()
    task = _SPAWN.Process(target=follow, args=(theirs, (server.address(), notifier_id, raw)), daemon=True)
    task.start()
    theirs.close()
    taking = asyncio.create_task(asyncio.to_thread(_taken, ours))
    await server.subscribes(notifier_id)
    sent: dict[bytes, float] = {}
    ends = time.monotonic() + random.uniform(1.0, 2.0)  # noqa: S311 - any moment
    while time.monotonic() < ends:
        (nonce,) = server.notify(notifier_id)
        sent[nonce] = time.monotonic()
        await asyncio.sleep(1 / RATE)
    task.kill()
    killed_at = time.monotonic()
    taken = await taking
    await asyncio.to_thread(task.join)
    return max((killed_at - at for nonce, at in sent.items() if nonce not in taken), default=0.0) * 1000


def _taken(pipe: "Connection") -> set[bytes]:
    """The nonces of all messages that SQS has by the task's end."""
    found: set[bytes] = set()
    with suppress(EOFError, OSError):
        while True:
            bodies = pipe.recv_bytes().decode().split("\n")
            found.update(decode(read_match_message(body).raw or b"").item.message.nonce for body in bodies)
    return found


async def losses() -> Figure:
    with TemporaryDirectory() as folder:
        async with SmpTestServer(Path(folder)) as server:
            lost = [await oldest_lost(server) for _ in range(KILLS)]
    return Figure.alone("oldest message lost at a kill", max(lost), "ms")


def main() -> int:
    """1 if a figure is beyond its bound."""
    measured, (beside_signing, beside_opening), lost = memory(), resubscription(), asyncio.run(losses())
    report([*measured, beside_signing, beside_opening, lost])
    return int((beside_signing.ratio or 0) < LEAST_RATIO or lost.ours > MOST_LOST_MS)


if __name__ == "__main__":
    os.environ.setdefault("AWS_DEFAULT_REGION", "eu-central-1")
    sys.exit(main())
