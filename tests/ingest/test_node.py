"""What is believed of one node's replays, and for how long not."""

import asyncio
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from clarion.networks import STATEMENTS
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
from ingest.sources.statements.node import Node, State
from ingest.sources.statements.session import NodeTimeouts
from ingest.sources.statements.source import SOURCE_SPEC
from tests.ingest.conftest import MakeStatement, alone

if TYPE_CHECKING:
    from tests.ingest.conftest import FakeNode

AMPLE = 1 << 30
RESYNC_SECONDS = 600
"""What a node is given so that its peers show it what it has lost."""


class Clock:
    """Runs on as ever, and leaps when asked to."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock by which replays are believed, and of nothing else."""
    steered = Clock()
    monkeypatch.setattr("ingest.sources.replays.time", SimpleNamespace(monotonic=steered))
    return steered


class Followed:
    """A node that is followed, with each of its replays asked for."""

    def __init__(self, shown_by: "FakeNode", counts: Counts, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog
        outbox = Outbox[Outgoing](to="queue", budget=Budget(AMPLE), most=10, linger=0, taken=lambda _: None)
        seen = SeenEnvelopes(1000)
        shards = alone()
        intake = Intake(
            shards=shards,
            standby=Standby(shards, Budget(AMPLE), 0),
            seen=seen,
            candidates=CandidateFilter(),
            unmatched=UnmatchedBuffer(AMPLE),
            outbox=outbox,
            counts=counts,
            rule_lag_ms=0,
        )
        downstream = Downstream(
            feed=Feed(1, STATEMENTS, SOURCE_SPEC),
            progress=DeliveryProgress(oldest_held=lambda: None, kept_ms=0).add_source("statements"),
            counts=counts,
            intake=intake,
            initial_replay=InitialReplay(seen, 0),
            expected=0,
            live_through=0,
            is_crowded=lambda: False,
            leases=Leases("me", 1.0),
        )
        self.node = Node(url=shown_by.url, downstream=downstream, timeouts=NodeTimeouts())

    def believed(self) -> bool:
        return not self.node.replays.owed

    def _replays(self) -> int:
        return [record.message for record in self._caplog.records].count("node replayed")

    async def replayed(self) -> None:
        """Wait for one more replay."""
        before = self._replays()
        self.node.renew("for a test")
        while self._replays() == before:
            await asyncio.sleep(0.005)


async def test_a_replay_that_is_too_small_is_disbelieved_for_its_time_and_believed_after_it(
    node: "FakeNode", counts: Counts, make_statement: MakeStatement, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    node.stored = [make_statement(number) for number in range(100)]
    followed = Followed(node, counts, caplog)
    with caplog.at_level("INFO", "ingest"):
        async with asyncio.timeout(60):
            following = asyncio.create_task(followed.node.follow())
            await followed.replayed()
            assert followed.believed()
            del node.stored[10:]
            await followed.replayed()
            assert not followed.believed()
            clock.ahead += RESYNC_SECONDS - 60
            await followed.replayed()
            assert not followed.believed()
            clock.ahead += 60
            await followed.replayed()
            assert followed.believed()
            await followed.replayed()
            assert followed.believed()  # it is what is expected by now
        following.cancel()


async def test_a_node_that_was_believed_again_is_given_its_time_anew_when_it_loses_its_store_once_more(
    node: "FakeNode", counts: Counts, make_statement: MakeStatement, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    stored = [make_statement(number) for number in range(100)]
    node.stored = list(stored)
    followed = Followed(node, counts, caplog)
    with caplog.at_level("INFO", "ingest"):
        async with asyncio.timeout(60):
            following = asyncio.create_task(followed.node.follow())
            await followed.replayed()
            node.stored = stored[:10]
            await followed.replayed()
            node.stored = list(stored)
            await followed.replayed()
            assert followed.believed()
            clock.ahead += RESYNC_SECONDS + 1
            node.stored = stored[:10]
            await followed.replayed()
            assert not followed.believed()
        following.cancel()


async def test_a_node_is_away_until_it_is_subscribed_then_replays_and_is_live(
    node: "FakeNode", counts: Counts, make_statement: MakeStatement, caplog: pytest.LogCaptureFixture
) -> None:
    node.stored = [make_statement(number) for number in range(100)]
    node.batch = 1
    followed = Followed(node, counts, caplog)
    states = [followed.node.state]
    async with asyncio.timeout(60):
        following = asyncio.create_task(followed.node.follow())
        while len(states) < 5:
            if followed.node.state is not states[-1]:
                states.append(followed.node.state)
                if states[-1] is State.LIVE:
                    await node.hang_up()
            await asyncio.sleep(0)
    following.cancel()
    assert states == [State.AWAY, State.REPLAYING, State.LIVE, State.AWAY, State.REPLAYING]
