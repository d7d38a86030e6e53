"""How much of a node is taken, and how fast."""

import asyncio
from types import SimpleNamespace

import grpc
import pytest

from clarion.networks import XMTP
from clarion.networks.xmtp.rules import key_of
from clarion.tables import rule_key
from ingest.counts import Counts
from ingest.delivery.outbox import Budget, Outbox
from ingest.delivery.outgoing import Outgoing
from ingest.downstream import Downstream
from ingest.filter.candidates import CandidateFilter
from ingest.intake import Intake
from ingest.lease.leases import Leases
from ingest.lease.progress import DeliveryProgress
from ingest.memory.initial_replay import InitialReplay
from ingest.memory.seen import SeenEnvelopes
from ingest.memory.standby import Standby
from ingest.memory.unmatched import UnmatchedBuffer
from ingest.sources.feed import Feed
from ingest.sources.xmtp.budget import ByteBudget
from ingest.sources.xmtp.connection import NodeAddress
from ingest.sources.xmtp.node import NodeBounds, XmtpNode
from ingest.sources.xmtp.source import SOURCE_SPEC
from local.tls import Localhost
from tests.ingest.conftest import alone
from tests.ingest.xmtp.conftest import TOPIC
from tests.ingest.xmtp.nodes import Context, GrpcNode, envelope

_MIB = 1024 * 1024


class Elapsing:
    """A clock that goes on by what is slept."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Elapsing:
    elapsing = Elapsing()
    monkeypatch.setattr("ingest.sources.xmtp.budget.time", elapsing)
    monkeypatch.setattr("ingest.sources.xmtp.budget.asyncio", SimpleNamespace(sleep=elapsing.sleep))
    return elapsing


async def test_what_is_within_the_budget_costs_no_time(clock: Elapsing) -> None:
    budget, began = ByteBudget(_MIB), clock.now
    for _ in range(10):
        await budget.spend(_MIB)
    assert clock.now == began


async def test_what_is_beyond_the_budget_waits_until_it_is_within(clock: Elapsing) -> None:
    budget, began = ByteBudget(_MIB), clock.now
    for _ in range(30):
        await budget.spend(_MIB)
    assert clock.now - began == pytest.approx(20)


async def test_the_smallest_message_counts_for_what_it_costs(clock: Elapsing) -> None:
    budget, began = ByteBudget(2048), clock.now
    for _ in range(30):
        await budget.spend(0)
    assert clock.now - began == pytest.approx(20)


async def test_the_budget_of_a_node_that_is_beyond_it_for_long_is_exceeded(clock: Elapsing) -> None:
    budget, began = ByteBudget(_MIB), clock.now
    while not budget.is_exceeded:
        await budget.spend(_MIB)
    assert 60 < clock.now - began < 65


async def test_the_budget_of_a_node_that_is_beyond_it_now_and_then_is_not(clock: Elapsing) -> None:
    budget = ByteBudget(_MIB)
    for _ in range(20):
        for _ in range(40):
            await budget.spend(_MIB)
            assert not budget.is_exceeded
        clock.now += 20


class Flooding:
    """A node's behaviour: shows as much as it is let to, for a rule of ours."""

    def __init__(self) -> None:
        self.shown: list[int] = []
        """How many envelopes on each subscription."""

    async def __call__(self, context: Context) -> None:
        number = len(self.shown)
        self.shown.append(0)
        while True:
            await context.write(envelope(f"{self.shown[number]}" + "x" * 10_000))
            self.shown[number] += 1

    async def shows(self, count: int, number: int) -> None:
        """Wait until it has shown so many on one subscription."""
        while len(self.shown) <= number or self.shown[number] < count:
            await asyncio.sleep(0.01)


def outbox(capacity: int) -> Outbox[Outgoing]:
    return Outbox(to="queue", budget=Budget(capacity), most=10, linger=0, taken=lambda _: None)


def follower(node: GrpcNode, localhost: Localhost, downstream: Downstream) -> XmtpNode:
    credentials = grpc.ssl_channel_credentials(localhost.ca_file.read_bytes())
    return XmtpNode(
        name=node.url,
        address=NodeAddress(target=node.url.removeprefix("https://"), credentials=credentials),
        downstream=downstream,
        bounds=NodeBounds(message_bytes=_MIB, bytes_per_second=1 << 40, answer=5, quiet=60, longest_quiet=60),
    )


def downstream(counts: Counts, outbox: Outbox[Outgoing]) -> Downstream:
    """A place to hand things on to, whose outbox is all that it has."""
    seen, candidates = SeenEnvelopes(100_000), CandidateFilter()
    candidates.add([rule_key(1, key_of(TOPIC))])
    shards = alone()
    intake = Intake(
        shards=shards,
        standby=Standby(shards, Budget(_MIB), 0),
        seen=seen,
        candidates=candidates,
        unmatched=UnmatchedBuffer(_MIB),
        outbox=outbox,
        counts=counts,
        rule_lag_ms=0,
    )
    return Downstream(
        feed=Feed(1, XMTP, SOURCE_SPEC),
        progress=DeliveryProgress(oldest_held=lambda: None, kept_ms=0).add_source("xmtp"),
        counts=counts,
        intake=intake,
        initial_replay=InitialReplay(seen, 0),
        expected=0,
        live_through=0,
        is_crowded=lambda: False,
        leases=Leases("me", 1.0),
    )


async def test_a_node_is_not_read_while_what_it_showed_has_no_space_and_waits_by_itself(
    localhost: Localhost, counts: Counts
) -> None:
    full, free = outbox(_MIB), outbox(64 * _MIB)
    flooding = Flooding()
    async with GrpcNode(localhost.certificate_file, flooding) as shown_by, asyncio.timeout(60):
        node = follower(shown_by, localhost, downstream(counts, full))
        other = follower(shown_by, localhost, downstream(counts, free))
        following = [asyncio.create_task(node.follow())]
        await flooding.shows(1, 0)
        following.append(asyncio.create_task(other.follow()))
        await flooding.shows(16 * _MIB // 10_000, 1)
        held = flooding.shown[0]
        assert held * 10_000 < 4 * _MIB
        node.check()
        assert node.connected
        while flooding.shown[0] == held:
            full.done(await full.take())
        for task in following:
            task.cancel()
