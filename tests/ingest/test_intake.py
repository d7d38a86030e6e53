from collections.abc import Callable

import pytest

from clarion.metrics import Metric
from clarion.statement import Proof, ProofKind, Statement, encode
from clarion.tables import rule_key
from ingest import outbox
from ingest.candidates import Candidates
from ingest.counts import Counts
from ingest.intake import Intake
from ingest.letter import MOST_NAMED
from ingest.outbox import Outbox
from ingest.protocol import Origin, Shown
from ingest.second_look import SecondLook, Unmatched
from ingest.seen import Seen

SENDER, TOPIC, OTHER = b"\x5e" * 32, b"\x70" * 32, b"\x71" * 32
NOW = 1_700_000_000_000
PATIENCE_MS = 5_000
AMPLE = 1 << 30

type Make = Callable[..., bytes]


class Room:
    """An intake with all that it is made of, and its clock."""

    def __init__(self, counts: Counts, *, second_look_bytes: int = AMPLE) -> None:
        self.now = NOW
        self.handled: list[int] = []
        self.seen = Seen(1000)
        self.candidates = Candidates()
        self.candidates.fresh_as_of = NOW
        self.outbox = Outbox(
            to="queue",
            room=outbox.Room(AMPLE),
            most=10,
            linger=0,
            gone=lambda letter: self.handled.append(letter.fingerprint),
            is_open=True,
        )
        self.second_look = SecondLook(second_look_bytes)
        self.intake = Intake(
            seen=self.seen,
            candidates=self.candidates,
            second_look=self.second_look,
            outbox=self.outbox,
            counts=counts,
            patience_ms=PATIENCE_MS,
            clock=lambda: self.now,
        )

    def show(self, *statements: bytes) -> None:
        self.intake.take_now(Shown(list(statements), Origin.LIVE), standing=False)

    async def forwarded(self) -> list[bytes]:
        return [letter.statement for letter in await self.outbox.take()] if len(self.outbox) else []


@pytest.fixture
def room(counts: Counts) -> Room:
    return Room(counts)


async def test_a_statement_that_a_rule_names_is_forwarded_by_any_of_its_topics(
    room: Room, make_statement: Make
) -> None:
    room.candidates.add([rule_key(3, SENDER, TOPIC)])
    room.show(make_statement(1, topics=(OTHER, TOPIC)))
    assert await room.forwarded() == [make_statement(1, topics=(OTHER, TOPIC))]


async def test_a_statement_that_no_rule_names_costs_nothing_and_is_counted(
    room: Room, make_statement: Make, counts: Counts
) -> None:
    room.candidates.add([rule_key(3, SENDER, TOPIC)])
    room.show(make_statement(1, sender=OTHER), make_statement(2, topics=(OTHER,)), make_statement(3, topics=()))
    room.candidates.fresh_as_of = NOW + PATIENCE_MS
    room.intake.look_again()
    assert await room.forwarded() == []
    assert counts["statement_unmatched"] == 3
    assert len(room.second_look) == 0


async def test_a_rule_written_just_before_its_statement_counts(room: Room, make_statement: Make) -> None:
    """The statement is here before the rule has come out of the table's stream."""
    room.show(make_statement(1))
    room.intake.look_again()
    room.candidates.add([rule_key(3, SENDER, TOPIC)])
    room.intake.look_again()
    assert await room.forwarded() == [make_statement(1)]


async def test_a_message_names_those_whose_rules_for_the_statement_changed_lately(
    room: Room, make_statement: Make
) -> None:
    room.candidates.add([rule_key(3, SENDER, TOPIC)])
    room.show(make_statement(1, topics=(OTHER,)))
    room.candidates.change("fresh", rule_key(3, SENDER, OTHER))
    room.show(make_statement(2, topics=(OTHER, TOPIC)), make_statement(3))
    room.intake.look_again()
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
    room.show(make_statement(1))
    first, second = await room.outbox.take()
    assert (len(first.changed), first.look_id) == (MOST_NAMED, None)
    assert (second.changed, second.receipt) == ((f"{MOST_NAMED:03}",), first.receipt)
    assert second.look_id


async def test_no_statement_is_let_go_before_the_filter_knows_all_rules_that_are_older(
    room: Room, make_statement: Make, counts: Counts
) -> None:
    room.show(make_statement(1))
    room.now += 3_600_000  # an hour in which the stream could not be read
    room.candidates.fresh_as_of = NOW + PATIENCE_MS - 1
    room.intake.look_again()
    assert len(room.second_look) == 1
    room.candidates.fresh_as_of += 1
    room.intake.look_again()
    assert len(room.second_look) == 0
    assert counts["statement_unmatched"] == 1


async def test_what_there_is_no_room_to_keep_is_forwarded_rather_than_lost(
    counts: Counts, make_statement: Make
) -> None:
    statements = [make_statement(number) for number in range(3)]
    room = Room(counts, second_look_bytes=2 * Unmatched(NOW, 1, [], statements[0]).held_size)
    room.show(*statements)
    room.intake.look_again()
    assert await room.forwarded() == statements[:1]
    assert len(room.second_look) == 2


async def test_a_known_statement_is_skipped_and_counted(room: Room, make_statement: Make, counts: Counts) -> None:
    room.candidates.add([rule_key(3, SENDER, TOPIC)])
    room.show(make_statement(1), make_statement(1))
    room.show(make_statement(1))
    assert len(await room.forwarded()) == 1
    assert counts[Metric.STATEMENTS_SKIPPED] == 2
    assert counts[Metric.STATEMENTS_RECEIVED] == 3


@pytest.mark.parametrize("kind", [None, ProofKind.ED25519, ProofKind.ECDSA])
async def test_a_statement_whose_proof_no_rule_can_name_is_let_go(
    kind: ProofKind | None, room: Room, counts: Counts
) -> None:
    sizes = (65, 33) if kind is ProofKind.ECDSA else (64, 32)
    proof = Proof(kind, bytes(sizes[0]), SENDER + bytes(sizes[1] - 32)) if kind else None
    room.candidates.add([rule_key(3, SENDER, TOPIC)])
    room.show(encode(Statement(2**63, (TOPIC,), proof=proof)))
    assert await room.forwarded() == []
    assert counts["statement_unsupported_proof"] == 1


async def test_what_is_no_statement_is_let_go(room: Room, counts: Counts) -> None:
    room.show(b"", b"\x00", b"\xff" * 100)
    assert await room.forwarded() == []
    assert counts["statement_malformed"] == 3


async def test_nothing_is_recorded_as_handled_before_it_is(room: Room, make_statement: Make) -> None:
    room.candidates.add([rule_key(3, SENDER, TOPIC)])
    room.show(make_statement(1), make_statement(2, topics=(OTHER,)))
    assert room.seen.delta() == b""
    assert room.handled == []
