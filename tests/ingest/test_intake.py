import asyncio
import gc
import time
from collections.abc import Coroutine

import pytest

from clarion.metrics import Metric
from clarion.networks import STATEMENTS
from clarion.networks.statements.codec import MAX_SIZE, Proof, ProofKind, Statement, encode
from clarion.networks.statements.rules import key_of
from clarion.tables import rule_key
from ingest.counts import Counts
from ingest.delivery.outbox import Budget, Outbox
from ingest.delivery.outgoing import MOST_NAMED, OVERHEAD_BYTES, Outgoing
from ingest.filter.candidates import CandidateFilter
from ingest.intake import LARGE_BYTES, VERIFIED_SHARE, Intake
from ingest.memory.initial_replay import InitialReplay
from ingest.memory.replayed import Observation, Replayed
from ingest.memory.seen import SeenEnvelopes
from ingest.memory.standby import ReceivedEnvelope, Reception, Standby
from ingest.memory.unmatched import Arrival, UnmatchedBuffer
from ingest.sources import SourceFault
from ingest.sources.feed import Feed
from ingest.sources.statements.source import SOURCE_SPEC
from tests.ingest.conftest import SENDER, MakeStatement, alone

TOPIC, OTHER = b"\x70" * 32, b"\x71" * 32
NOW = 1_700_000_000_000
PATIENCE_MS = 5_000
OVERLAP_MS = 60_000
AMPLE = 1 << 30


class IntakeScene:
    """An intake with all that it is made of, and its clock."""

    def __init__(
        self, counts: Counts, *, unmatched_bytes: int = AMPLE, seen_limit: int = 1000, outbox_bytes: int = AMPLE
    ) -> None:
        self.now = NOW
        self.random = 1.0
        self.honest, self.hostile = Feed(1, STATEMENTS, SOURCE_SPEC), Feed(2, STATEMENTS, SOURCE_SPEC)
        self.handled: list[int] = []
        self.seen = SeenEnvelopes(seen_limit, sources=2)
        self.candidates = CandidateFilter()
        self.candidates.fresh_as_of = NOW
        self.outbox = Outbox[Outgoing](
            to="queue",
            budget=Budget(outbox_bytes, sources=2),
            most=10,
            linger=0,
            taken=lambda outgoing: self.handled.append(outgoing.fingerprint),
        )
        self.unmatched = UnmatchedBuffer(unmatched_bytes, sources=2)
        self.shards = alone()
        self.standby = Standby(self.shards, Budget(outbox_bytes, sources=2), OVERLAP_MS)
        self.intake = Intake(
            shards=self.shards,
            standby=self.standby,
            seen=self.seen,
            candidates=self.candidates,
            unmatched=self.unmatched,
            outbox=self.outbox,
            counts=counts,
            rule_lag_ms=PATIENCE_MS,
            clock=lambda: self.now,
            random=lambda: self.random,
        )

    async def show(self, *statements: bytes, source: Feed | None = None) -> None:
        await self.intake.take(statements, source or self.honest)

    async def replay(self, statement: bytes, *, seconds_ago: int, source: Feed | None = None) -> None:
        """Let a node replay it that was last live so long ago."""
        replay = InitialReplay(self.seen, 0).begin(initial=False, since=self.now - seconds_ago * 1000)
        await self.intake.take([statement], source or self.hostile, replay)

    async def forwarded(self) -> list[bytes]:
        return [outgoing.raw for outgoing in await self.outbox.take()] if len(self.outbox) else []


@pytest.fixture
def scene(counts: Counts) -> IntakeScene:
    return IntakeScene(counts)


async def turns() -> None:
    """Let others come as far as they can, though each may give way after every statement."""
    for _ in range(100):
        await asyncio.sleep(0)


async def test_a_statement_that_a_rule_names_is_forwarded_by_any_of_its_topics(
    scene: IntakeScene, make_statement: MakeStatement
) -> None:
    scene.candidates.add([rule_key(3, key_of(SENDER, TOPIC))])
    await scene.show(make_statement(1, topics=(OTHER, TOPIC)))
    assert await scene.forwarded() == [make_statement(1, topics=(OTHER, TOPIC))]


async def test_a_statement_that_no_rule_names_costs_nothing_and_is_counted(
    scene: IntakeScene, make_statement: MakeStatement, counts: Counts
) -> None:
    scene.candidates.add([rule_key(3, key_of(SENDER, TOPIC))])
    await scene.show(make_statement(1, sender=OTHER), make_statement(2, topics=(OTHER,)), make_statement(3, topics=()))
    scene.candidates.fresh_as_of = NOW + PATIENCE_MS
    await scene.intake.look_again(scene.honest.number)
    assert await scene.forwarded() == []
    assert counts["envelope_unmatched"] == 3
    assert len(scene.unmatched) == 0


async def test_a_rule_written_just_before_its_statement_counts(
    scene: IntakeScene, make_statement: MakeStatement
) -> None:
    """The statement is here before the rule has come out of the table's stream."""
    await scene.show(make_statement(1))
    await scene.intake.look_again(scene.honest.number)
    scene.candidates.add([rule_key(3, key_of(SENDER, TOPIC))])
    await scene.intake.look_again(scene.honest.number)
    assert await scene.forwarded() == [make_statement(1)]


async def test_a_message_names_those_whose_rules_for_the_statement_changed_lately(
    scene: IntakeScene, make_statement: MakeStatement
) -> None:
    scene.candidates.add([rule_key(3, key_of(SENDER, TOPIC))])
    await scene.show(make_statement(1, topics=(OTHER,)))
    scene.candidates.change("fresh", rule_key(3, key_of(SENDER, OTHER)))
    await scene.show(make_statement(2, topics=(OTHER, TOPIC)), make_statement(3))
    await scene.intake.look_again(scene.honest.number)
    outgoings = await scene.outbox.take()
    named = {outgoing.raw: outgoing.names for outgoing in outgoings}
    assert named == {
        make_statement(1, topics=(OTHER,)): ("fresh",),
        make_statement(2, topics=(OTHER, TOPIC)): ("fresh",),
        make_statement(3): (),
    }
    assert {getattr(outgoing.message, "changed", None) for outgoing in outgoings} == {("fresh",), ()}
    assert not any(outgoing.look_id for outgoing in outgoings)


async def test_more_names_than_one_message_takes_make_second_looks(
    scene: IntakeScene, make_statement: MakeStatement
) -> None:
    for number in range(MOST_NAMED + 1):
        scene.candidates.change(f"{number:03}", rule_key(3, key_of(SENDER, TOPIC)))
    await scene.show(make_statement(1))
    first, second = await scene.outbox.take()
    assert (len(first.names), first.look_id) == (MOST_NAMED, None)
    assert (second.names, second.receipt) == ((f"{MOST_NAMED:03}",), first.receipt)
    assert second.look_id


async def test_no_statement_is_let_go_before_the_filter_knows_all_rules_that_are_older(
    scene: IntakeScene, make_statement: MakeStatement, counts: Counts
) -> None:
    await scene.show(make_statement(1))
    scene.now += 3_600_000  # an hour in which the stream could not be read
    scene.candidates.fresh_as_of = NOW + PATIENCE_MS - 1
    await scene.intake.look_again(scene.honest.number)
    assert len(scene.unmatched) == 1
    scene.candidates.fresh_as_of += 1
    await scene.intake.look_again(scene.honest.number)
    assert len(scene.unmatched) == 0
    assert counts["envelope_unmatched"] == 1


async def test_what_there_is_no_room_to_keep_is_forwarded_rather_than_lost(
    counts: Counts, make_statement: MakeStatement
) -> None:
    statements = [make_statement(number) for number in range(3)]
    scene = IntakeScene(counts, unmatched_bytes=4 * Arrival(NOW, 1, [], STATEMENTS, statements[0], 1).held_size)
    await scene.show(*statements)
    assert await scene.forwarded() == statements[:1]
    assert len(scene.unmatched) == 2


async def test_what_there_is_no_room_to_keep_is_let_go_if_it_is_forged(
    counts: Counts, make_statement: MakeStatement
) -> None:
    forged = [make_statement(number, sender=OTHER) for number in range(3)]
    scene = IntakeScene(counts, unmatched_bytes=4 * Arrival(NOW, 1, [], STATEMENTS, forged[0], 1).held_size)
    await scene.show(*forged)
    assert await scene.forwarded() == []
    assert counts["envelope_bad_signature"] == 1
    await scene.show(forged[0])
    assert counts[Metric.ENVELOPES_SKIPPED] == 1


async def test_a_flood_by_one_node_pushes_nothing_of_another_out_of_the_second_look(
    counts: Counts, make_statement: MakeStatement
) -> None:
    honest = make_statement(1)
    scene = IntakeScene(counts, unmatched_bytes=6 * Arrival(NOW, 1, [], STATEMENTS, honest, 1).held_size)
    await scene.show(honest)
    await scene.show(*(make_statement(number) for number in range(2, 20)), source=scene.hostile)
    assert len(scene.unmatched) == 1 + 3
    assert honest not in await scene.forwarded()
    scene.candidates.add([rule_key(3, key_of(SENDER, TOPIC))])
    await scene.intake.look_again(scene.honest.number)
    assert honest in await scene.forwarded()


async def test_garbage_is_not_remembered_and_ends_the_subscription(scene: IntakeScene, counts: Counts) -> None:
    with pytest.raises(SourceFault):
        await scene.show(*(number.to_bytes(4) for number in range(10_000)), source=scene.hostile)
    assert scene.seen.size == 0
    assert counts["envelope_malformed"] < 200


async def test_a_node_may_show_a_few_statements_that_we_cannot_read(
    scene: IntakeScene, make_statement: MakeStatement, counts: Counts
) -> None:
    """Of a later version, among a thousand others."""
    later = make_statement(0) + b"\x09"
    for number in range(1, 1001):
        await scene.show(make_statement(number), later)
        await scene.show(*(make_statement(number) for number in range(1, 10)))
    assert counts["envelope_malformed"] == 1000


async def test_a_node_that_makes_statements_up_fills_its_own_share_of_what_is_remembered(
    counts: Counts, make_statement: MakeStatement
) -> None:
    scene = IntakeScene(counts, seen_limit=100)
    forged = [make_statement(number, sender=OTHER) for number in range(60)]
    await scene.show(*forged, source=scene.hostile)
    assert scene.seen.size == 25
    assert counts["envelope_bad_signature"] == 35
    honest = [make_statement(number) for number in range(60)]
    await scene.show(*honest)
    assert scene.seen.size == 85
    await scene.show(*honest, source=scene.hostile)
    assert counts[Metric.ENVELOPES_SKIPPED] == 60


@pytest.mark.parametrize("size", [LARGE_BYTES, MAX_SIZE - 300])
async def test_a_large_candidate_is_forwarded_only_if_it_is_genuine(
    size: int, scene: IntakeScene, make_statement: MakeStatement, counts: Counts
) -> None:
    scene.candidates.add([rule_key(3, key_of(SENDER, TOPIC)), rule_key(3, key_of(OTHER, TOPIC))])
    genuine, forged = make_statement(1, size=size), make_statement(1, size=size, sender=OTHER)
    await scene.show(genuine, forged)
    assert await scene.forwarded() == [genuine]
    assert counts["envelope_bad_signature"] == 1
    await scene.show(forged)
    assert counts[Metric.ENVELOPES_SKIPPED] == 1


async def test_a_small_candidate_is_left_to_match_until_its_node_is_known_to_forge(
    scene: IntakeScene, make_statement: MakeStatement
) -> None:
    scene.candidates.add([rule_key(3, key_of(OTHER, TOPIC))])
    small = [make_statement(number, sender=OTHER) for number in range(3)]
    await scene.show(small[0], make_statement(1, size=LARGE_BYTES, sender=OTHER), small[1], source=scene.hostile)
    await scene.show(small[2])
    assert await scene.forwarded() == [small[0], small[2]]


async def test_a_random_share_of_small_candidates_is_verified_and_finds_a_node_that_forges_them(
    scene: IntakeScene, make_statement: MakeStatement, counts: Counts
) -> None:
    scene.candidates.add([rule_key(3, key_of(SENDER, TOPIC)), rule_key(3, key_of(OTHER, TOPIC))])
    small = [make_statement(number, sender=OTHER) for number in range(4)]
    await scene.show(small[0], source=scene.hostile)
    scene.random = VERIFIED_SHARE / 2
    await scene.show(small[1], source=scene.hostile)
    scene.random = 1.0
    await scene.show(small[2], make_statement(1), source=scene.hostile)
    await scene.show(small[3])
    assert await scene.forwarded() == [small[0], small[3], make_statement(1)]
    assert counts["envelope_bad_signature"] == 2


async def test_what_is_found_to_be_forged_before_a_second_look_is_held_against_its_node(
    scene: IntakeScene, make_statement: MakeStatement, counts: Counts
) -> None:
    scene.candidates.add([rule_key(3, key_of(SENDER, TOPIC)), rule_key(3, key_of(OTHER, TOPIC))])
    await scene.show(make_statement(1, sender=OTHER), source=scene.hostile)
    (outgoing,) = await scene.outbox.take()
    assert not scene.intake.is_genuine(outgoing)
    await scene.show(make_statement(2, sender=OTHER), make_statement(3), source=scene.hostile)
    (outgoing,) = await scene.outbox.take()
    assert (outgoing.raw, outgoing.verified) == (make_statement(3), True)
    assert scene.intake.is_genuine(outgoing)


async def test_what_needs_more_messages_than_one_is_verified(scene: IntakeScene, make_statement: MakeStatement) -> None:
    for number in range(MOST_NAMED + 1):
        scene.candidates.change(f"{number:03}", rule_key(3, key_of(OTHER, TOPIC)))
    await scene.show(make_statement(1, sender=OTHER))
    assert await scene.forwarded() == []


async def test_a_node_whose_share_of_the_outbox_is_full_delays_no_other(
    counts: Counts, make_statement: MakeStatement
) -> None:
    flood = [make_statement(number) for number in range(20)]
    scene = IntakeScene(counts, outbox_bytes=2 * 5 * (len(flood[0]) + OVERHEAD_BYTES))
    scene.candidates.add([rule_key(3, key_of(SENDER, TOPIC))])
    flooding = asyncio.create_task(scene.show(*flood, source=scene.hostile))
    await turns()
    assert len(scene.outbox) == 5
    await asyncio.wait_for(scene.show(make_statement(100)), 30)
    assert make_statement(100) in await scene.forwarded()
    assert not flooding.done()
    flooding.cancel()


async def test_a_rule_that_wants_a_flood_in_the_second_look_delays_no_other_node(
    counts: Counts, make_statement: MakeStatement
) -> None:
    flood = [make_statement(number) for number in range(20)]
    scene = IntakeScene(counts, outbox_bytes=2 * 5 * (len(flood[0]) + OVERHEAD_BYTES))
    await scene.show(*flood, source=scene.hostile)
    await scene.show(make_statement(100))
    scene.candidates.add([rule_key(3, key_of(SENDER, TOPIC))])
    looking = asyncio.create_task(scene.intake.look_again(scene.hostile.number))
    await turns()
    assert (len(scene.outbox), len(scene.unmatched)) == (5, 16)
    await asyncio.wait_for(scene.intake.look_again(scene.honest.number), 30)
    assert make_statement(100) in await scene.forwarded()
    assert not looking.done()
    looking.cancel()


async def test_a_rule_that_the_filter_learns_during_a_look_loses_no_statement(
    make_statement: MakeStatement, counts: Counts
) -> None:
    """Nothing is let go for a time whose rules the look has not compared it with."""
    scene = IntakeScene(counts, seen_limit=1_000_000)
    await scene.show(*(make_statement(number, sender=OTHER) for number in range(20_000)))
    scene.candidates.add([rule_key(3, key_of(SENDER, TOPIC))])
    looking = asyncio.create_task(scene.intake.look_again(scene.honest.number))
    await asyncio.sleep(0)
    assert not looking.done()
    scene.candidates.add([rule_key(3, key_of(OTHER, TOPIC))])
    scene.candidates.fresh_as_of = NOW + PATIENCE_MS
    await looking
    assert counts["envelope_unmatched"] == 0
    await scene.intake.look_again(scene.honest.number)
    assert len(scene.outbox) == 20_000


async def test_forged_candidates_take_no_more_than_half_of_the_room_before_the_queue(
    counts: Counts, make_statement: MakeStatement
) -> None:
    forged = [make_statement(number, sender=OTHER) for number in range(20)]
    scene = IntakeScene(counts, outbox_bytes=20 * (len(forged[0]) + OVERHEAD_BYTES))
    scene.candidates.add([rule_key(3, key_of(SENDER, TOPIC)), rule_key(3, key_of(OTHER, TOPIC))])
    await scene.show(*forged, make_statement(1), source=scene.hostile)
    assert await scene.forwarded() == [*forged[:5], make_statement(1)]


async def test_what_a_replay_shows_at_the_first_start_is_noted_and_hides_no_live_copy(
    scene: IntakeScene, make_statement: MakeStatement
) -> None:
    scene.candidates.add([rule_key(3, key_of(SENDER, TOPIC))])
    replay = InitialReplay(scene.seen, 0).begin(initial=True)
    await scene.intake.take([make_statement(1), b"garbage"], scene.hostile, replay)
    assert replay.shown is not None
    assert (len(replay.shown), scene.seen.size) == (1, 0)
    await scene.show(make_statement(1))
    assert await scene.forwarded() == [make_statement(1)]


async def longest_turn(work: Coroutine[None, None, None]) -> float:
    """For how many seconds of CPU time `work` kept the event loop at a time, a machine under load apart.

    Garbage is not collected meanwhile: that takes the longer, the more other tests have left behind.
    """
    longest = 0.0
    working = asyncio.create_task(work)
    gc.disable()
    while not working.done():
        began = time.thread_time()
        await asyncio.sleep(0)
        longest = max(longest, time.thread_time() - began)
    gc.enable()
    return longest


async def test_a_live_copy_of_what_a_replay_showed_first_is_forwarded_once_more_by_the_same_receipt(
    scene: IntakeScene, make_statement: MakeStatement
) -> None:
    scene.candidates.add([rule_key(3, key_of(SENDER, TOPIC))])
    await scene.replay(make_statement(1), seconds_ago=60)
    scene.now += 1000
    await scene.show(make_statement(1))
    await scene.show(make_statement(1))
    await scene.replay(make_statement(1), seconds_ago=0)
    replayed, live = await scene.outbox.take()
    assert (replayed.replayed_since, live.replayed_since) == (NOW - 60_000, None)
    assert (replayed.receipt, replayed.observed_at) == (live.receipt, live.observed_at)
    assert replayed.id != live.id
    scene.outbox.done([replayed, live])


async def test_a_live_copy_counts_also_while_no_rule_names_the_statement_yet(
    scene: IntakeScene, make_statement: MakeStatement
) -> None:
    await scene.replay(make_statement(1), seconds_ago=60)
    await scene.show(make_statement(1))
    scene.candidates.add([rule_key(3, key_of(SENDER, TOPIC))])
    await scene.intake.look_again(scene.hostile.number)
    [outgoing] = await scene.outbox.take()
    assert outgoing.replayed_since is None


async def test_what_another_node_replays_too_is_as_old_as_the_later_of_both_was_live_if_a_call_still_rings_then(
    scene: IntakeScene, make_statement: MakeStatement
) -> None:
    scene.candidates.add([rule_key(3, key_of(SENDER, TOPIC))])
    await scene.replay(make_statement(1), seconds_ago=60)
    for seconds_ago in (40, 5, 3):
        await scene.replay(make_statement(1), seconds_ago=seconds_ago, source=scene.honest)
    await scene.show(make_statement(1))
    outgoings = await scene.outbox.take()
    assert [outgoing.replayed_since for outgoing in outgoings] == [NOW - 60_000, NOW - 5_000, None]
    assert len({outgoing.receipt for outgoing in outgoings}) == 1


async def test_a_live_copy_that_comes_when_a_call_would_not_ring_any_more_is_skipped(
    scene: IntakeScene, make_statement: MakeStatement
) -> None:
    scene.candidates.add([rule_key(3, key_of(SENDER, TOPIC))])
    await scene.replay(make_statement(1), seconds_ago=60)
    scene.now += 30_000
    await scene.show(make_statement(1))
    assert await scene.forwarded() == [make_statement(1)]


def test_what_was_replayed_lately_is_bounded_in_time_and_number() -> None:
    replayed = Replayed(capacity=2)
    for number in range(3):
        replayed.add(number, Observation(NOW, 0))
    assert len(replayed) == 2
    assert replayed.show_again(0, None, NOW) is None
    replayed.add(9, Observation(NOW + 30_000, 0))
    assert len(replayed) == 1


async def test_a_node_that_sends_on_and_on_gives_way(scene: IntakeScene, make_statement: MakeStatement) -> None:
    statements = [make_statement(number, sender=OTHER) for number in range(20_000)]
    assert await longest_turn(scene.show(*statements)) < 0.1


async def test_a_look_at_a_flood_that_a_new_rule_wants_gives_way(make_statement: MakeStatement, counts: Counts) -> None:
    scene = IntakeScene(counts, seen_limit=1_000_000)
    scene.random = 0.0
    await scene.show(*(make_statement(number, sender=OTHER) for number in range(10_000)), source=scene.hostile)
    scene.candidates.add([rule_key(3, key_of(OTHER, TOPIC))])
    assert await longest_turn(scene.intake.look_again(scene.hostile.number)) < 0.1
    assert counts["envelope_bad_signature"] == 10_000
    assert len(scene.unmatched) == 0


async def test_letting_go_of_a_flood_gives_way(make_statement: MakeStatement, counts: Counts) -> None:
    scene = IntakeScene(counts, seen_limit=1_000_000)
    await scene.show(*(make_statement(number, sender=OTHER) for number in range(20_000)), source=scene.hostile)
    scene.candidates.fresh_as_of = NOW + PATIENCE_MS
    looking = asyncio.create_task(scene.intake.look_again(scene.hostile.number))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(scene.unmatched) > 0
    await looking
    assert counts["envelope_unmatched"] == 20_000


async def test_a_known_statement_is_skipped_and_counted(
    scene: IntakeScene, make_statement: MakeStatement, counts: Counts
) -> None:
    scene.candidates.add([rule_key(3, key_of(SENDER, TOPIC))])
    await scene.show(make_statement(1), make_statement(1))
    await scene.show(make_statement(1))
    assert len(await scene.forwarded()) == 1
    assert counts[Metric.ENVELOPES_SKIPPED] == 2
    assert counts[Metric.ENVELOPES_RECEIVED] == 3


@pytest.mark.parametrize("kind", [None, ProofKind.ED25519, ProofKind.ECDSA])
async def test_a_statement_whose_proof_no_rule_can_name_is_let_go(
    kind: ProofKind | None, scene: IntakeScene, counts: Counts
) -> None:
    sizes = (65, 33) if kind is ProofKind.ECDSA else (64, 32)
    proof = Proof(kind, bytes(sizes[0]), SENDER + bytes(sizes[1] - 32)) if kind else None
    scene.candidates.add([rule_key(3, key_of(SENDER, TOPIC))])
    await scene.show(encode(Statement(2**63, (TOPIC,), proof=proof)))
    assert await scene.forwarded() == []
    assert counts["envelope_unsupported_proof"] == 1


async def test_what_is_no_statement_is_let_go(scene: IntakeScene, counts: Counts) -> None:
    await scene.show(b"", b"\x00", b"\xff" * 100)
    assert await scene.forwarded() == []
    assert counts["envelope_malformed"] == 3


async def test_nothing_is_recorded_as_handled_before_it_is(scene: IntakeScene, make_statement: MakeStatement) -> None:
    scene.candidates.add([rule_key(3, key_of(SENDER, TOPIC))])
    await scene.show(make_statement(1), make_statement(2, topics=(OTHER,)))
    assert scene.seen.delta() == b""
    assert scene.handled == []


def others_own_all(scene: IntakeScene) -> None:
    scene.shards.divide(["another"])


async def test_what_is_another_task_s_is_held_as_it_came_and_costs_nothing_else(
    scene: IntakeScene, make_statement: MakeStatement, counts: Counts
) -> None:
    scene.candidates.add([rule_key(3, key_of(SENDER, TOPIC))])
    others_own_all(scene)
    await scene.show(make_statement(1), make_statement(2, topics=(OTHER,)))
    await scene.show(make_statement(1), source=scene.hostile)
    assert (len(scene.standby), scene.seen.size, await scene.forwarded()) == (2, 0, [])
    assert counts["envelopes_skipped"] == 1


async def test_what_is_taken_over_is_forwarded_as_it_was_observed(
    scene: IntakeScene, make_statement: MakeStatement
) -> None:
    scene.candidates.add([rule_key(3, key_of(SENDER, TOPIC))])
    others_own_all(scene)
    await scene.replay(make_statement(1), seconds_ago=20)
    scene.now += 10_000
    scene.shards.divide(["me"])
    for held in scene.standby.take_own():
        scene.intake.take_held(held)
    (outgoing,) = await scene.outbox.take()
    assert (outgoing.raw, outgoing.observed_at, outgoing.replayed_since) == (make_statement(1), NOW, NOW - 20_000)


async def test_what_was_handled_meanwhile_is_not_taken_over(scene: IntakeScene, make_statement: MakeStatement) -> None:
    scene.candidates.add([rule_key(3, key_of(SENDER, TOPIC))])
    others_own_all(scene)
    await scene.show(make_statement(1))
    scene.shards.divide(["me"])
    await scene.show(make_statement(1))
    for held in scene.standby.take_own():
        scene.intake.take_held(held)
    assert await scene.forwarded() == [make_statement(1)]


async def test_what_there_is_no_space_to_hold_is_taken_in_like_our_own(
    counts: Counts, make_statement: MakeStatement
) -> None:
    scene = IntakeScene(counts, outbox_bytes=1)
    scene.candidates.add([rule_key(3, key_of(SENDER, TOPIC))])
    others_own_all(scene)
    scene.standby.hold(ReceivedEnvelope(1, b"", Reception(scene.honest, NOW, None)))
    showing = asyncio.create_task(scene.show(make_statement(1)))
    assert [outgoing.raw for outgoing in await scene.outbox.take()] == [make_statement(1)]
    showing.cancel()


async def test_what_proves_malformed_when_it_is_taken_over_is_counted_and_held_against_nobody(
    scene: IntakeScene, counts: Counts
) -> None:
    others_own_all(scene)
    await scene.show(*(bytes([255, number]) for number in range(200)))
    scene.shards.divide(["me"])
    for held in scene.standby.take_own():
        scene.intake.take_held(held)
    assert counts["envelope_malformed"] == 200
    await scene.show(b"\xff")


async def test_what_another_task_has_handled_is_known_and_saved(
    scene: IntakeScene, make_statement: MakeStatement
) -> None:
    others_own_all(scene)
    await scene.show(make_statement(1))
    for held in scene.standby.take_delivered(lambda _: NOW + OVERLAP_MS + 1):
        scene.seen.remember(held.fingerprint, held.source)
    scene.shards.divide(["me"])
    await scene.show(make_statement(1))
    assert (scene.seen.size, len(scene.unmatched)) == (1, 0)
    assert scene.seen.delta()


async def test_what_stood_at_the_first_start_is_old_whosever_it_is(
    scene: IntakeScene, make_statement: MakeStatement
) -> None:
    others_own_all(scene)
    initial = InitialReplay(scene.seen, 0)
    replay = initial.begin(initial=True)
    await scene.intake.take([make_statement(1)], scene.honest, replay)
    assert (len(scene.standby), len(replay.shown or ())) == (0, 1)
