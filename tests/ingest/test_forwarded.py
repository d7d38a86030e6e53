"""Which statements get a second look, and when they count as handled."""

from uuid import UUID, uuid4

import pytest

from clarion.tables import rule_key
from ingest.candidates import Candidates
from ingest.fingerprints import of_pair
from ingest.forwarded import Forwarded
from ingest.letter import MOST_NAMED, Letter
from ingest.outbox import Outbox, Room

SENDER, TOPIC, OTHER = b"\x5e" * 32, b"\x70" * 32, b"\x71" * 32
NOW = 1_700_000_000_000
PATIENCE_MS = 10_000


class Scene:
    def __init__(self, capacity: int = 1 << 30) -> None:
        self.now = NOW
        self.candidates = Candidates()
        self.candidates.fresh_as_of = NOW
        self.handled: list[UUID] = []
        self.outbox = Outbox(to="queue", room=Room(1 << 30), most=1000, linger=0, gone=lambda _: None, is_open=True)
        self.forwarded = Forwarded(
            candidates=self.candidates,
            outbox=self.outbox,
            handled=lambda letter: self.handled.append(letter.receipt),
            patience_ms=PATIENCE_MS,
            capacity=capacity,
            clock=lambda: self.now,
        )

    def letter(self, *topics: bytes) -> Letter:
        changes = self.candidates.changes
        pairs = [of_pair(SENDER + topic) for topic in topics or (TOPIC,)]
        named = tuple(changes.of(pairs))
        return Letter(uuid4(), self.now, 1, b"statement", changed=named, pairs=pairs, changes_known=changes.count)

    def send(self, *topics: bytes) -> Letter:
        letter = self.letter(*topics)
        self.forwarded.add(letter)
        return letter

    def write_rule(self, name: str, topic: bytes = TOPIC) -> None:
        self.candidates.change(name, rule_key(1, SENDER, topic))

    async def looks(self) -> list[Letter]:
        self.forwarded.look_again()
        if not len(self.outbox):
            return []
        batch = await self.outbox.take()
        self.outbox.done(batch)
        return batch


@pytest.fixture
def scene() -> Scene:
    return Scene()


async def test_a_rule_that_the_stream_shows_after_its_statement_was_sent_gets_it_a_second_look(scene: Scene) -> None:
    letter = scene.send(OTHER, TOPIC)
    assert await scene.looks() == []
    scene.write_rule("fresh")
    scene.write_rule("elsewhere", bytes(32))
    [look] = await scene.looks()
    assert (look.receipt, look.statement, look.changed) == (letter.receipt, letter.statement, ("fresh",))
    assert look.look_id is not None
    assert look.message.look_id == look.look_id


async def test_no_change_gets_a_statement_two_looks_and_each_new_one_gets_it_another(scene: Scene) -> None:
    scene.send()
    scene.write_rule("one")
    first = await scene.looks()
    assert await scene.looks() == []
    scene.write_rule("two")
    second = await scene.looks()
    assert [look.changed for look in first + second] == [("one",), ("two",)]
    assert len({look.look_id for look in first + second}) == 2


async def test_whom_the_first_message_names_gets_no_second(scene: Scene) -> None:
    scene.write_rule("before")
    letter = scene.send()
    assert letter.changed == ("before",)
    assert await scene.looks() == []


async def test_a_change_while_a_statement_waits_to_be_sent_is_not_missed(scene: Scene) -> None:
    letter = scene.letter()
    scene.write_rule("meanwhile")
    assert await scene.looks() == []
    scene.forwarded.add(letter)
    assert [look.changed for look in await scene.looks()] == [("meanwhile",)]


async def test_many_changes_make_messages_of_so_many_names_at_most(scene: Scene) -> None:
    scene.send()
    for number in range(MOST_NAMED + 1):
        scene.write_rule(f"{number:03}")
    assert [len(look.changed) for look in await scene.looks()] == [MOST_NAMED, 1]


def test_a_statement_is_handled_once_the_lake_has_it_and_every_rule_of_its_time_is_known(scene: Scene) -> None:
    first, second = scene.send(), scene.send()
    scene.forwarded.recorded(first)
    scene.candidates.fresh_as_of = NOW + PATIENCE_MS - 1
    scene.forwarded.look_again()
    assert scene.handled == []
    scene.candidates.fresh_as_of += 1
    scene.forwarded.look_again()
    assert scene.handled == [first.receipt]
    scene.forwarded.recorded(second)
    assert scene.handled == [first.receipt, second.receipt]
    assert len(scene.forwarded) == 0


def test_beyond_its_bytes_the_oldest_is_let_go(scene: Scene) -> None:
    scene = Scene(capacity=2 * scene.letter().held_size)
    first, *_ = [scene.send() for _ in range(3)]
    scene.forwarded.recorded(first)
    scene.forwarded.look_again()
    assert (scene.handled, len(scene.forwarded)) == ([first.receipt], 2)
