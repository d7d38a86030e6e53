import asyncio
import time
from collections.abc import Callable, Coroutine

import pytest

from clarion.metrics import Metric
from clarion.networks.statements.codec import MAX_SIZE, Proof, ProofKind, Statement, encode
from clarion.tables import rule_key
from ingest import outbox
from ingest.candidates import Candidates
from ingest.counts import Counts
from ingest.initial_replay import InitialReplay
from ingest.intake import LARGE_BYTES, VERIFIED_SHARE, Intake
from ingest.letter import ENVELOPE_BYTES, MOST_NAMED
from ingest.outbox import Outbox
from ingest.protocol import NodeFault, Origin, Shown
from ingest.replayed import Observation, Replayed
from ingest.second_look import SecondLook, Unmatched
from ingest.seen import Seen
from ingest.source import Source
from tests.ingest.conftest import SENDER

TOPIC, OTHER = b"\x70" * 32, b"\x71" * 32
NOW = 1_700_000_000_000
PATIENCE_MS = 5_000
AMPLE = 1 << 30

type Make = Callable[..., bytes]


class Room:
    """An intake with all that it is made of, and its clock."""

    def __init__(
        self, counts: Counts, *, second_look_bytes: int = AMPLE, seen_limit: int = 1000, outbox_bytes: int = AMPLE
    ) -> None:
        self.now = NOW
        self.random = 1.0
        self.honest, self.hostile = Source(1), Source(2)
        self.handled: list[int] = []
        self.seen = Seen(seen_limit, nodes=2)
        self.candidates = Candidates()
        self.candidates.fresh_as_of = NOW
        self.outbox = Outbox(
            to="queue",
            room=outbox.Room(outbox_bytes, nodes=2),
            most=10,
            linger=0,
            gone=lambda letter: self.handled.append(letter.fingerprint),
            is_open=True,
        )
        self.second_look = SecondLook(second_look_bytes, nodes=2)
        self.intake = Intake(
            seen=self.seen,
            candidates=self.candidates,
            second_look=self.second_look,
            outbox=self.outbox,
            counts=counts,
            patience_ms=PATIENCE_MS,
            clock=lambda: self.now,
            random=lambda: self.random,
        )

    async def show(self, *statements: bytes, source: Source | None = None) -> None:
        await self.intake.take(Shown(list(statements), Origin.LIVE), source or self.honest)

    async def replay(self, statement: bytes, *, seconds_ago: int, source: Source | None = None) -> None:
        """Let a node replay it that was last live so long ago."""
        replay = InitialReplay(self.seen, 0).begin(initial=False, since=self.now - seconds_ago * 1000)
        await self.intake.take(Shown([statement], Origin.REPLAY, remaining=1), source or self.hostile, replay)

    async def forwarded(self) -> list[bytes]:
        return [letter.statement for letter in await self.outbox.take()] if len(self.outbox) else []


@pytest.fixture
def room(counts: Counts) -> Room:
    return Room(counts)


async def test_a_statement_that_a_rule_names_is_forwarded_by_any_of_its_topics(
    room: Room, make_statement: Make
) -> None:
    room.candidates.add([rule_key(3, SENDER, TOPIC)])
    await room.show(make_statement(1, topics=(OTHER, TOPIC)))
    assert await room.forwarded() == [make_statement(1, topics=(OTHER, TOPIC))]


async def test_a_statement_that_no_rule_names_costs_nothing_and_is_counted(
    room: Room, make_statement: Make, counts: Counts
) -> None:
    room.candidates.add([rule_key(3, SENDER, TOPIC)])
    await room.show(make_statement(1, sender=OTHER), make_statement(2, topics=(OTHER,)), make_statement(3, topics=()))
    room.candidates.fresh_as_of = NOW + PATIENCE_MS
    await room.intake.look_again(room.honest.number)
    assert await room.forwarded() == []
    assert counts["envelope_unmatched"] == 3
    assert len(room.second_look) == 0


async def test_a_rule_written_just_before_its_statement_counts(room: Room, make_statement: Make) -> None:
    """The statement is here before the rule has come out of the table's stream."""
    await room.show(make_statement(1))
    await room.intake.look_again(room.honest.number)
    room.candidates.add([rule_key(3, SENDER, TOPIC)])
    await room.intake.look_again(room.honest.number)
    assert await room.forwarded() == [make_statement(1)]


async def test_a_message_names_those_whose_rules_for_the_statement_changed_lately(
    room: Room, make_statement: Make
) -> None:
    room.candidates.add([rule_key(3, SENDER, TOPIC)])
    await room.show(make_statement(1, topics=(OTHER,)))
    room.candidates.change("fresh", rule_key(3, SENDER, OTHER))
    await room.show(make_statement(2, topics=(OTHER, TOPIC)), make_statement(3))
    await room.intake.look_again(room.honest.number)
    letters = await room.outbox.take()
    named = {letter.statement: letter.changed for letter in letters}
    assert named == {
        make_statement(1, topics=(OTHER,)): ("fresh",),
        make_statement(2, topics=(OTHER, TOPIC)): ("fresh",),
        make_statement(3): (),
    }
    assert {letter.message.changed for letter in letters} == {("fresh",), ()}
    assert not any(letter.look_id for letter in letters)


async def test_more_names_than_one_message_takes_make_second_looks(room: Room, make_statement: Make) -> None:
    for number in range(MOST_NAMED + 1):
        room.candidates.change(f"{number:03}", rule_key(3, SENDER, TOPIC))
    await room.show(make_statement(1))
    first, second = await room.outbox.take()
    assert (len(first.changed), first.look_id) == (MOST_NAMED, None)
    assert (second.changed, second.receipt) == ((f"{MOST_NAMED:03}",), first.receipt)
    assert second.look_id


async def test_no_statement_is_let_go_before_the_filter_knows_all_rules_that_are_older(
    room: Room, make_statement: Make, counts: Counts
) -> None:
    await room.show(make_statement(1))
    room.now += 3_600_000  # an hour in which the stream could not be read
    room.candidates.fresh_as_of = NOW + PATIENCE_MS - 1
    await room.intake.look_again(room.honest.number)
    assert len(room.second_look) == 1
    room.candidates.fresh_as_of += 1
    await room.intake.look_again(room.honest.number)
    assert len(room.second_look) == 0
    assert counts["envelope_unmatched"] == 1


async def test_what_there_is_no_room_to_keep_is_forwarded_rather_than_lost(
    counts: Counts, make_statement: Make
) -> None:
    statements = [make_statement(number) for number in range(3)]
    room = Room(counts, second_look_bytes=4 * Unmatched(NOW, 1, [], statements[0], 1).held_size)
    await room.show(*statements)
    assert await room.forwarded() == statements[:1]
    assert len(room.second_look) == 2


async def test_what_there_is_no_room_to_keep_is_let_go_if_it_is_forged(counts: Counts, make_statement: Make) -> None:
    forged = [make_statement(number, sender=OTHER) for number in range(3)]
    room = Room(counts, second_look_bytes=4 * Unmatched(NOW, 1, [], forged[0], 1).held_size)
    await room.show(*forged)
    assert await room.forwarded() == []
    assert counts["envelope_bad_signature"] == 1
    await room.show(forged[0])
    assert counts[Metric.ENVELOPES_SKIPPED] == 1


async def test_a_flood_by_one_node_pushes_nothing_of_another_out_of_the_second_look(
    counts: Counts, make_statement: Make
) -> None:
    honest = make_statement(1)
    room = Room(counts, second_look_bytes=6 * Unmatched(NOW, 1, [], honest, 1).held_size)
    await room.show(honest)
    await room.show(*(make_statement(number) for number in range(2, 20)), source=room.hostile)
    assert len(room.second_look) == 1 + 3
    assert honest not in await room.forwarded()
    room.candidates.add([rule_key(3, SENDER, TOPIC)])
    await room.intake.look_again(room.honest.number)
    assert honest in await room.forwarded()


async def test_garbage_is_not_remembered_and_ends_the_subscription(room: Room, counts: Counts) -> None:
    with pytest.raises(NodeFault):
        await room.show(*(number.to_bytes(4) for number in range(10_000)), source=room.hostile)
    assert room.seen.size == 0
    assert counts["envelope_malformed"] < 200


async def test_a_node_may_show_a_few_statements_that_we_cannot_read(
    room: Room, make_statement: Make, counts: Counts
) -> None:
    """Of a later version, among a thousand others."""
    later = make_statement(0) + b"\x09"
    for number in range(1, 1001):
        await room.show(make_statement(number), later)
        await room.show(*(make_statement(number) for number in range(1, 10)))
    assert counts["envelope_malformed"] == 1000


async def test_a_node_that_makes_statements_up_fills_its_own_share_of_what_is_remembered(
    counts: Counts, make_statement: Make
) -> None:
    room = Room(counts, seen_limit=100)
    forged = [make_statement(number, sender=OTHER) for number in range(60)]
    await room.show(*forged, source=room.hostile)
    assert room.seen.size == 25
    assert counts["envelope_bad_signature"] == 35
    honest = [make_statement(number) for number in range(60)]
    await room.show(*honest)
    assert room.seen.size == 85
    await room.show(*honest, source=room.hostile)
    assert counts[Metric.ENVELOPES_SKIPPED] == 60


@pytest.mark.parametrize("size", [LARGE_BYTES, MAX_SIZE - 300])
async def test_a_large_candidate_is_forwarded_only_if_it_is_genuine(
    size: int, room: Room, make_statement: Make, counts: Counts
) -> None:
    room.candidates.add([rule_key(3, SENDER, TOPIC), rule_key(3, OTHER, TOPIC)])
    genuine, forged = make_statement(1, size=size), make_statement(1, size=size, sender=OTHER)
    await room.show(genuine, forged)
    assert await room.forwarded() == [genuine]
    assert counts["envelope_bad_signature"] == 1
    await room.show(forged)
    assert counts[Metric.ENVELOPES_SKIPPED] == 1


async def test_a_small_candidate_is_left_to_match_until_its_node_is_known_to_forge(
    room: Room, make_statement: Make
) -> None:
    room.candidates.add([rule_key(3, OTHER, TOPIC)])
    small = [make_statement(number, sender=OTHER) for number in range(3)]
    await room.show(small[0], make_statement(1, size=LARGE_BYTES, sender=OTHER), small[1], source=room.hostile)
    await room.show(small[2])
    assert await room.forwarded() == [small[0], small[2]]


async def test_a_random_share_of_small_candidates_is_verified_and_finds_a_node_that_forges_them(
    room: Room, make_statement: Make, counts: Counts
) -> None:
    room.candidates.add([rule_key(3, SENDER, TOPIC), rule_key(3, OTHER, TOPIC)])
    small = [make_statement(number, sender=OTHER) for number in range(4)]
    await room.show(small[0], source=room.hostile)
    room.random = VERIFIED_SHARE / 2
    await room.show(small[1], source=room.hostile)
    room.random = 1.0
    await room.show(small[2], make_statement(1), source=room.hostile)
    await room.show(small[3])
    assert await room.forwarded() == [small[0], small[3], make_statement(1)]
    assert counts["envelope_bad_signature"] == 2


async def test_what_is_found_to_be_forged_before_a_second_look_is_held_against_its_node(
    room: Room, make_statement: Make, counts: Counts
) -> None:
    room.candidates.add([rule_key(3, SENDER, TOPIC), rule_key(3, OTHER, TOPIC)])
    await room.show(make_statement(1, sender=OTHER), source=room.hostile)
    (letter,) = await room.outbox.take()
    assert not room.intake.is_genuine(letter)
    await room.show(make_statement(2, sender=OTHER), make_statement(3), source=room.hostile)
    (letter,) = await room.outbox.take()
    assert (letter.statement, letter.verified) == (make_statement(3), True)
    assert room.intake.is_genuine(letter)


async def test_what_needs_more_messages_than_one_is_verified(room: Room, make_statement: Make) -> None:
    for number in range(MOST_NAMED + 1):
        room.candidates.change(f"{number:03}", rule_key(3, OTHER, TOPIC))
    await room.show(make_statement(1, sender=OTHER))
    assert await room.forwarded() == []


async def test_a_node_whose_share_of_the_outbox_is_full_delays_no_other(counts: Counts, make_statement: Make) -> None:
    flood = [make_statement(number) for number in range(20)]
    room = Room(counts, outbox_bytes=2 * 5 * (len(flood[0]) + ENVELOPE_BYTES))
    room.candidates.add([rule_key(3, SENDER, TOPIC)])
    flooding = asyncio.create_task(room.show(*flood, source=room.hostile))
    await asyncio.sleep(0.01)
    assert len(room.outbox) == 5
    await asyncio.wait_for(room.show(make_statement(100)), 1)
    assert make_statement(100) in await room.forwarded()
    assert not flooding.done()
    flooding.cancel()


async def test_a_rule_that_wants_a_flood_in_the_second_look_delays_no_other_node(
    counts: Counts, make_statement: Make
) -> None:
    flood = [make_statement(number) for number in range(20)]
    room = Room(counts, outbox_bytes=2 * 5 * (len(flood[0]) + ENVELOPE_BYTES))
    await room.show(*flood, source=room.hostile)
    await room.show(make_statement(100))
    room.candidates.add([rule_key(3, SENDER, TOPIC)])
    looking = asyncio.create_task(room.intake.look_again(room.hostile.number))
    await asyncio.sleep(0.01)
    assert (len(room.outbox), len(room.second_look)) == (5, 16)
    await asyncio.wait_for(room.intake.look_again(room.honest.number), 1)
    assert make_statement(100) in await room.forwarded()
    assert not looking.done()
    looking.cancel()


async def test_a_rule_that_the_filter_learns_during_a_look_loses_no_statement(
    make_statement: Make, counts: Counts
) -> None:
    """Nothing is let go for a time whose rules the look has not compared it with."""
    room = Room(counts, seen_limit=1_000_000)
    await room.show(*(make_statement(number, sender=OTHER) for number in range(20_000)))
    room.candidates.add([rule_key(3, SENDER, TOPIC)])
    looking = asyncio.create_task(room.intake.look_again(room.honest.number))
    await asyncio.sleep(0)
    assert not looking.done()
    room.candidates.add([rule_key(3, OTHER, TOPIC)])
    room.candidates.fresh_as_of = NOW + PATIENCE_MS
    await looking
    assert counts["envelope_unmatched"] == 0
    await room.intake.look_again(room.honest.number)
    assert len(room.outbox) == 20_000


async def test_forged_candidates_take_no_more_than_half_of_the_room_before_the_queue(
    counts: Counts, make_statement: Make
) -> None:
    forged = [make_statement(number, sender=OTHER) for number in range(20)]
    room = Room(counts, outbox_bytes=20 * (len(forged[0]) + ENVELOPE_BYTES))
    room.candidates.add([rule_key(3, SENDER, TOPIC), rule_key(3, OTHER, TOPIC)])
    await room.show(*forged, make_statement(1), source=room.hostile)
    assert await room.forwarded() == [*forged[:5], make_statement(1)]


async def test_what_a_replay_shows_at_the_first_start_is_noted_and_hides_no_live_copy(
    room: Room, make_statement: Make
) -> None:
    room.candidates.add([rule_key(3, SENDER, TOPIC)])
    replay = InitialReplay(room.seen, 0).begin(initial=True)
    await room.intake.take(Shown([make_statement(1), b"garbage"], Origin.REPLAY), room.hostile, replay)
    assert replay.shown is not None
    assert (len(replay.shown), room.seen.size) == (1, 0)
    await room.show(make_statement(1))
    assert await room.forwarded() == [make_statement(1)]


async def longest_turn(work: Coroutine[None, None, None]) -> float:
    """For how many seconds of CPU time `work` kept the event loop at a time, a machine under load apart."""
    longest = 0.0
    working = asyncio.create_task(work)
    while not working.done():
        began = time.thread_time()
        await asyncio.sleep(0)
        longest = max(longest, time.thread_time() - began)
    return longest


async def test_a_live_copy_of_what_a_replay_showed_first_is_forwarded_once_more_by_the_same_receipt(
    room: Room, make_statement: Make
) -> None:
    room.candidates.add([rule_key(3, SENDER, TOPIC)])
    await room.replay(make_statement(1), seconds_ago=60)
    room.now += 1000
    await room.show(make_statement(1))
    await room.show(make_statement(1))
    await room.replay(make_statement(1), seconds_ago=0)
    replayed, live = await room.outbox.take()
    assert (replayed.replayed_since, live.replayed_since) == (NOW - 60_000, None)
    assert (replayed.receipt, replayed.observed_at) == (live.receipt, live.observed_at)
    assert replayed.key != live.key
    room.outbox.done([replayed, live])


async def test_a_live_copy_counts_also_while_no_rule_names_the_statement_yet(room: Room, make_statement: Make) -> None:
    await room.replay(make_statement(1), seconds_ago=60)
    await room.show(make_statement(1))
    room.candidates.add([rule_key(3, SENDER, TOPIC)])
    await room.intake.look_again(room.hostile.number)
    [letter] = await room.outbox.take()
    assert letter.replayed_since is None


async def test_what_another_node_replays_too_is_as_old_as_the_later_of_both_was_live_if_a_call_still_rings_then(
    room: Room, make_statement: Make
) -> None:
    room.candidates.add([rule_key(3, SENDER, TOPIC)])
    await room.replay(make_statement(1), seconds_ago=60)
    for seconds_ago in (40, 5, 3):
        await room.replay(make_statement(1), seconds_ago=seconds_ago, source=room.honest)
    await room.show(make_statement(1))
    letters = await room.outbox.take()
    assert [letter.replayed_since for letter in letters] == [NOW - 60_000, NOW - 5_000, None]
    assert len({letter.receipt for letter in letters}) == 1


async def test_a_live_copy_that_comes_when_a_call_would_not_ring_any_more_is_skipped(
    room: Room, make_statement: Make
) -> None:
    room.candidates.add([rule_key(3, SENDER, TOPIC)])
    await room.replay(make_statement(1), seconds_ago=60)
    room.now += 30_000
    await room.show(make_statement(1))
    assert await room.forwarded() == [make_statement(1)]


def test_what_was_replayed_lately_is_bounded_in_time_and_number() -> None:
    replayed = Replayed(capacity=2)
    for number in range(3):
        replayed.add(number, Observation(NOW, 0))
    assert len(replayed) == 2
    assert replayed.show_again(0, None, NOW) is None
    replayed.add(9, Observation(NOW + 30_000, 0))
    assert len(replayed) == 1


async def test_a_node_that_sends_on_and_on_gives_way(room: Room, make_statement: Make) -> None:
    statements = [make_statement(number, sender=OTHER) for number in range(20_000)]
    assert await longest_turn(room.show(*statements)) < 0.1


async def test_a_look_at_a_flood_that_a_new_rule_wants_gives_way(make_statement: Make, counts: Counts) -> None:
    room = Room(counts, seen_limit=1_000_000)
    room.random = 0.0
    await room.show(*(make_statement(number, sender=OTHER) for number in range(10_000)), source=room.hostile)
    room.candidates.add([rule_key(3, OTHER, TOPIC)])
    assert await longest_turn(room.intake.look_again(room.hostile.number)) < 0.1
    assert counts["envelope_bad_signature"] == 10_000
    assert len(room.second_look) == 0


async def test_letting_go_of_a_flood_gives_way(make_statement: Make, counts: Counts) -> None:
    room = Room(counts, seen_limit=1_000_000)
    await room.show(*(make_statement(number, sender=OTHER) for number in range(20_000)), source=room.hostile)
    room.candidates.fresh_as_of = NOW + PATIENCE_MS
    looking = asyncio.create_task(room.intake.look_again(room.hostile.number))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(room.second_look) > 0
    await looking
    assert counts["envelope_unmatched"] == 20_000


async def test_a_known_statement_is_skipped_and_counted(room: Room, make_statement: Make, counts: Counts) -> None:
    room.candidates.add([rule_key(3, SENDER, TOPIC)])
    await room.show(make_statement(1), make_statement(1))
    await room.show(make_statement(1))
    assert len(await room.forwarded()) == 1
    assert counts[Metric.ENVELOPES_SKIPPED] == 2
    assert counts[Metric.ENVELOPES_RECEIVED] == 3


@pytest.mark.parametrize("kind", [None, ProofKind.ED25519, ProofKind.ECDSA])
async def test_a_statement_whose_proof_no_rule_can_name_is_let_go(
    kind: ProofKind | None, room: Room, counts: Counts
) -> None:
    sizes = (65, 33) if kind is ProofKind.ECDSA else (64, 32)
    proof = Proof(kind, bytes(sizes[0]), SENDER + bytes(sizes[1] - 32)) if kind else None
    room.candidates.add([rule_key(3, SENDER, TOPIC)])
    await room.show(encode(Statement(2**63, (TOPIC,), proof=proof)))
    assert await room.forwarded() == []
    assert counts["envelope_unsupported_proof"] == 1


async def test_what_is_no_statement_is_let_go(room: Room, counts: Counts) -> None:
    await room.show(b"", b"\x00", b"\xff" * 100)
    assert await room.forwarded() == []
    assert counts["envelope_malformed"] == 3


async def test_nothing_is_recorded_as_handled_before_it_is(room: Room, make_statement: Make) -> None:
    room.candidates.add([rule_key(3, SENDER, TOPIC)])
    await room.show(make_statement(1), make_statement(2, topics=(OTHER,)))
    assert room.seen.delta() == b""
    assert room.handled == []
