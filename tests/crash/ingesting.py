"""Scenario: two ingest tasks that read two nodes of XMTP and divide the shards, for a while with a third.

Nodes replay nothing, so what a task that stops has not forwarded is lost unless the other holds it. The watched task is
the one that ends badly; the other is only ended as a deployment does. The third is a lease that nobody renews.

    third               owns a part ─┐
    watched  owns a part ────────────┴▶ takes over ──▶ is taken for lost ──▶ is ended │ anew ──▶ owns all ──▶ is ended
    other    owns a part ────────────┴▶ takes over ──▶ owns all, for a look ──────────▶ is ended │ anew: owns a part
"""

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from math import inf
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3
import pytest
from botocore.config import Config

from clarion.clock import now_ms
from clarion.messages import EnvelopeMessage, read_match_message
from clarion.metrics import Metric
from clarion.networks import XMTP, network
from clarion.tables import Lease, RuleRow, rule_key, table_name
from ingest.filter.fingerprints import Fingerprint, of_envelope
from ingest.lease.leases import Leases
from ingest.lease.shards import SHARDS, owners_of
from ingest.settings import RENEWALS, IngestSettings
from ingest.wiring import AwsClients
from ingest.wiring import wire as wire_task
from local import tls
from local.xmtp_node import DevelopmentNode
from tests.crash.dispatching import FAILED
from tests.crash.harness import RETURN, Scenario
from tests.crash.lake import recorded_events
from tests.crash.steps import SteppedLoop
from tests.crash.wire import Stopped, wire
from tests.ingest.conftest import MotoStreams
from tests.match.scene import PREFIX
from tests.xmtp import Inbox, envelope

LEASE_SECONDS = 8.0
LOOK_SECONDS = LEASE_SECONDS / RENEWALS
"""Between two looks at the leases."""
JOIN_SECONDS = 2 * LOOK_SECONDS
"""Until a task that starts has joined, and the other has seen it."""
END_SECONDS = 4
"""For what a task that ends has yet to pass on."""
PERIOD_SECONDS = 2 * LEASE_SECONDS
"""Long enough for a lease to run out, and for what its task had to be taken over and forwarded."""
OVERLAP_SECONDS = 2.0
"""More than lies between the moments at which two tasks are shown the same."""
TOO_LARGE = 780_000
"""Bytes that the queue doesn't take."""
MOST_TIMES = 3
"""By each of the two that were shown it, and again where no answer came."""
THIRD = "third"

type Step = Callable[[], Awaitable[None]]


class IngestProcess:
    """An ingest task, as ECS runs it."""

    def __init__(self, name: str, loop: SteppedLoop, settings: IngestSettings, clients: AwsClients) -> None:
        self.name = name
        self._loop = loop
        self._stop = asyncio.Event()
        self.task = wire_task(settings, clients, Leases(name, settings.lease_seconds, loop.time))
        self._running = loop.create_task(self.task.run(self._stop))

    @property
    def received(self) -> int:
        self.check()
        return self.task.counts[Metric.ENVELOPES_RECEIVED]

    def is_connected(self, nodes: int) -> bool:
        self.check()
        return len(self.task.sources.connected) == nodes

    def check(self) -> None:
        """Raise what has ended it, if anything has."""
        if self._running.done():
            self._running.result()

    async def end(self) -> None:
        """As SIGTERM does."""
        self._stop.set()
        await self._loop.pass_time(END_SECONDS)
        await self._loop.until(self._running.done)
        self.check()

    async def kill(self) -> None:
        self._running.cancel()
        await asyncio.wait([self._running])


@dataclass(frozen=True)
class Deployment:
    loop: SteppedLoop
    nodes: Sequence[DevelopmentNode]
    clients: AwsClients
    ca_file: Path
    started: list[IngestProcess] = field(default_factory=list)

    def kill_all(self) -> None:
        """What a run leaves behind that went wrong would take part in the next."""
        while self.started:
            self.loop.run_until_complete(self.started.pop().kill())


@dataclass
class Ingesting:
    deployment: Deployment

    def __post_init__(self) -> None:
        self.deployment.kill_all()
        self._watched: IngestProcess | None = None
        self._other: IngestProcess | None = None
        self._names = count()
        self._third = False
        """Whether it has shards."""
        self._wanted = set[bytes]()
        self._loop = self.deployment.loop
        self._inbox = Inbox(b"bo", uuid4().bytes)
        rule = self._inbox.rule(now_ms() // 1000)
        RuleRow(str(uuid4()), rule_key(1, rule.key), key=rule.key).save()
        for lease in Lease.scan():
            lease.delete()
        self._queue_url, self._late_url = _make_queue(), _make_queue()
        self._settings = self._make_settings()
        messages = [partial(self._show, data) for data in (b"first", b"second", b"third", b"fourth")]
        self._story = deque[Step]([
            *(messages[0], self._show_large, self._period),
            *(self._third_joins, messages[1], self._period, self._third_is_gone),
            *(self._watched_seems_lost, messages[2], self._period),
            *(self._end_watched, self._end_other),
            *(messages[3], self._period),
            self._end_watched,
        ])  # fmt: skip

    def _make_settings(self) -> IngestSettings:
        """A task lets go of what another has delivered, but for what it was shown within the overlap."""
        return IngestSettings.model_validate({
            "networks": (XMTP,),
            "nodes": {XMTP: [node.url for node in self.deployment.nodes]},
            "ca_file": str(self.deployment.ca_file),
            "envelopes_queue_url": self._queue_url,
            "oversize_bucket": "oversize",
            "state_prefix": f"seen/{uuid4()}/",
            "events_stream": "lake",
            "late_events_queue_url": self._late_url,
            "table_prefix": PREFIX,
            "rule_lag_seconds": 0,
            "stream_poll_seconds": 3,
            "stream_idle_seconds": 0,
            "save_seconds": 5,
            "lease_seconds": LEASE_SECONDS,
            "overlap_seconds": OVERLAP_SECONDS,
            "health_port": 0,
        })  # fmt: skip

    # ---- what the harness asks for ----------------------------------------------------------------------------

    def deliver(self) -> bool:
        try:
            self._loop.run_until_complete(self._go_on())
        except FAILED:
            self.stop()
            return False
        except BaseExceptionGroup as failures:
            if failures.subgroup(Stopped):
                raise Stopped from None
            raise
        return True

    def stop(self) -> None:
        if self._watched:
            self._loop.run_until_complete(self._watched.kill())
        self._watched = None

    def stop_both(self) -> None:
        self.stop()
        if self._other:
            self._loop.run_until_complete(self._other.kill())
        self._other = None

    def check(self) -> None:
        if self._other:
            self._loop.run_until_complete(self._other.end())
        raws, shown = dict[str, bytes](), list[bytes]()
        for message in map(read_match_message, _drain(self._queue_url)):
            assert isinstance(message, EnvelopeMessage), "another message than an envelope's"
            receipt = str(message.receipt)
            raws[receipt] = raws.get(receipt) or message.raw or _stored(message.location)
            shown.append(_id_of(raws[receipt]))
        assert set(shown) == self._wanted, "what was forwarded is not what was wanted"
        assert max(Counter(shown).values()) <= MOST_TIMES, "an envelope was forwarded too often"
        recorded = {event["receipt"] for event in recorded_events(self._late_url) if event["event"] == "observed"}
        assert {_id_of(raws[receipt]) for receipt in recorded} == self._wanted, "the lake lacks what was forwarded"

    # ---- the story ----------------------------------------------------------------------------------------------

    async def _go_on(self) -> None:
        while self._story:
            await self._start()
            await self._story[0]()
            self._story.popleft()

    async def _start(self) -> None:
        """Both tasks, until each knows of the other. ECS starts another for one that has ended."""
        if self._watched and self._other:
            self._watched.check()
            return
        self._watched = self._watched or self._process("watched")
        await self._connected(self._watched)
        await self._pass_time(LOOK_SECONDS)
        if not self._other:
            with wire.aside():
                self._other = self._process("other")
        await self._connected(self._other)
        await self._pass_time(JOIN_SECONDS)

    def _process(self, role: str) -> IngestProcess:
        name = f"{role} {next(self._names)}"
        process = IngestProcess(name, self._loop, self._settings, self.deployment.clients)
        self.deployment.started.append(process)
        return process

    async def _connected(self, process: IngestProcess) -> None:
        await self._loop.until(lambda: process.is_connected(len(self.deployment.nodes)))

    async def _show(self, data: bytes) -> None:
        """For each owner: by both nodes, and by either alone; and one of a topic that nobody asked for."""
        at, (one, two) = now_ms() / 1000, self.deployment.nodes
        shown = [(two, envelope(f"/xmtp/mls/1/g-{uuid4().hex}/proto", data, at))]
        for owner in self._owners:
            both, left, right = (data + by for by in (b" by both", b" by one", b" by the other"))
            shown += (one, self._message(owner, both, at)), (two, self._message(owner, both, at + 1))
            shown += (one, self._message(owner, left, at)), (two, self._message(owner, right, at))
        await self._shown(shown)

    async def _show_large(self) -> None:
        watched, *_ = self._owners
        await self._shown([(self.deployment.nodes[0], self._message(watched, bytes(TOO_LARGE), now_ms() / 1000))])

    @property
    def _owners(self) -> list[str]:
        """The tasks at work, the watched one first."""
        both = [process.name for process in (self._watched, self._other) if process]
        return [*both, THIRD] if self._third else both

    def _message(self, owner: str, data: bytes, at: float) -> bytes:
        """One whose shard is the `owner`'s."""
        owners = owners_of(frozenset(self._owners))
        made = (self._inbox.message(at, b"%b, %d" % (data, number)) for number in count())
        raw = next(raw for raw in made if owners[_fingerprint_of(raw) % SHARDS] == owner)
        self._wanted.add(_id_of(raw))
        return raw

    async def _shown(self, shown: Sequence[tuple[DevelopmentNode, bytes]]) -> None:
        """And taken in by both tasks."""
        both = [process for process in (self._watched, self._other) if process]
        before = [process.received for process in both]
        for node, raw in shown:
            node.show_raw(raw)
        expected = [number + len(shown) for number in before]
        await self._loop.until(lambda: [process.received for process in both] == expected)

    async def _period(self) -> None:
        wire.step(RETURN)
        await self._pass_time(PERIOD_SECONDS)

    async def _pass_time(self, seconds: float) -> None:
        for _ in range(round(seconds)):
            await self._loop.pass_time(1)
            if self._watched:
                self._watched.check()

    async def _third_joins(self) -> None:
        """Both see its lease."""
        with wire.aside():
            Lease(THIRD, version=now_ms(), delivered_through=0, ttl=0).save()
        self._third = True
        await self._pass_time(LOOK_SECONDS)

    async def _third_is_gone(self) -> None:
        """Its lease has run out, and its row goes as by TTL."""
        with wire.aside():
            Lease(THIRD).delete()
        self._third = False

    async def _watched_seems_lost(self) -> None:
        """The other sees no lease of it, and takes its shards over, until it is renewed: meanwhile they are both's."""
        assert self._watched
        assert self._other
        with wire.aside():
            Lease(self._watched.name).delete()
            looking = self._loop.create_task(self._other.task.sharing.renew())
        await looking

    async def _end_watched(self) -> None:
        if self._watched:
            await self._watched.end()
        self._watched = None

    async def _end_other(self) -> None:
        other, self._other = self._other, None
        if other:
            await other.end()


def _make_queue() -> str:
    return boto3.client("sqs").create_queue(QueueName=f"crash-{uuid4()}")["QueueUrl"]


def _drain(queue_url: str) -> Iterator[str]:
    sqs = boto3.client("sqs")
    while found := sqs.receive_message(QueueUrl=queue_url, MaxNumberOfMessages=10).get("Messages"):
        for each in found:
            sqs.delete_message(QueueUrl=queue_url, ReceiptHandle=each["ReceiptHandle"])
            yield each["Body"]


def _id_of(raw: bytes) -> bytes:
    return network(XMTP).decode(raw).id


def _fingerprint_of(raw: bytes) -> Fingerprint:
    return of_envelope(_id_of(raw), bytes([network(XMTP).number]))


def _stored(location: str | None) -> bytes:
    """What is too large for the queue; it is removed, for the emulation keeps it in memory."""
    s3, key = boto3.client("s3"), location or ""
    raw = s3.get_object(Bucket="oversize", Key=key)["Body"].read()
    s3.delete_object(Bucket="oversize", Key=key)
    return raw


@contextmanager
def scenario(folder: Path) -> Iterator[Scenario]:
    """With two nodes, which keep their certificates in `folder`."""
    localhost, loop = tls.issue(folder), SteppedLoop()
    boto3.client("dynamodb").update_table(
        TableName=table_name(PREFIX, RuleRow),
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"},
    )
    clients = AwsClients.from_environment(PREFIX)
    # moto knows DynamoDB Streams by its old address.
    streams: Any = boto3.client("dynamodbstreams", config=Config(account_id_endpoint_mode="disabled"))
    nodes = [DevelopmentNode(localhost) for _ in range(2)]
    deployment = Deployment(loop, nodes, replace(clients, streams=MotoStreams(streams)), localhost.ca_file)
    with loop.stepped_clocks(), pytest.MonkeyPatch.context() as patch:
        # The stream has one shard for good here.
        patch.setattr("ingest.filter.rule_feed.DISCOVERY_SECONDS", inf)
        for node in nodes:
            loop.run_until_complete(node.start())
        yield Scenario("ingest", lambda: Ingesting(deployment))
        deployment.kill_all()
        for node in nodes:
            loop.run_until_complete(node.stop())
        loop.close()
