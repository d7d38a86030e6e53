"""Which statements get a second look, and when they count as handled."""

import asyncio
from dataclasses import replace
from uuid import UUID, uuid4

import pytest

from clarion.tables import rule_key
from ingest.candidates import Candidates
from ingest.fingerprints import of_pair
from ingest.forwarded import Forwarded
from ingest.letter import MOST_NAMED, Letter
from ingest.outbox import Outbox, Room
from ingest.rule_changes import REMEMBERED_MS, RuleChanges

SENDER, TOPIC, OTHER = b"\x5e" * 32, b"\x70" * 32, b"\x71" * 32
NOW = 1_700_000_000_000
PATIENCE_MS = 10_000


class Scene:
    def __init__(self, capacity: int = 1 << 30, outbox_bytes: int = 1 << 30) -> None:
        self.now = NOW
        self.candidates = Candidates()
        self.candidates.changes = RuleChanges(clock=lambda: self.now)
        self.candidates.fresh_as_of = NOW
        self.handled: list[UUID] = []
        self.verified: list[UUID] = []
        self.forged = False
        self.outbox = Outbox(
            to="queue", room=Room(outbox_bytes), most=1000, linger=0, gone=lambda _: None, is_open=True
        )
        self.forwarded = Forwarded(
            candidates=self.candidates,
            outbox=self.outbox,
            is_genuine=self._verify,
            handled=lambda letter: self.handled.append(letter.receipt),
            patience_ms=PATIENCE_MS,
            capacity=capacity,
            clock=lambda: self.now,
        )

    def letter(self, *topics: bytes, verified: bool = False) -> Letter:
        changes = self.candidates.changes
        pairs = [of_pair(SENDER + topic) for topic in topics or (TOPIC,)]
        named = tuple(changes.of(pairs))
        return Letter(
            uuid4(),
            self.now,
            1,
            b"statement",
            changed=named,
            pairs=pairs,
            changes_known=changes.count,
            verified=verified,
        )

    def send(self, *topics: bytes, verified: bool = False) -> Letter:
        letter = self.letter(*topics, verified=verified)
        self.forwarded.add(letter)
        return letter

    def write_rule(self, name: str, topic: bytes = TOPIC) -> None:
        self.candidates.change(name, rule_key(1, SENDER, topic))

    def _verify(self, letter: Letter) -> bool:
        self.verified.append(letter.receipt)
        return not self.forged

    async def looks(self) -> list[Letter]:
        await self.forwarded.look_again()
        return await self.take()

    async def take(self) -> list[Letter]:
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


async def test_changes_on_and_on_get_a_statement_two_looks_of_which_the_second_names_all_later_ones(
    scene: Scene,
) -> None:
    letter = scene.send()
    scene.write_rule("one")
    first = await scene.looks()
    later = [f"later {number}" for number in range(9)]
    for name in later:
        scene.now += 1_000
        scene.write_rule(name)
        assert await scene.looks() == []
    scene.now = scene.candidates.fresh_as_of = NOW + PATIENCE_MS
    second = await scene.looks()
    assert [look.changed for look in first + second] == [("one",), tuple(later)]
    assert len({look.look_id for look in first + second}) == 2
    assert {look.receipt for look in first + second} == {letter.receipt}
    scene.write_rule("too late")
    assert (await scene.looks(), len(scene.forwarded)) == ([], 0)


async def test_no_change_is_forgotten_before_its_look_while_the_stream_lags_behind(scene: Scene) -> None:
    """So that the filter is not known to be complete, and the statement is held on."""
    scene.send()
    scene.write_rule("one")
    await scene.looks()
    scene.write_rule("two")
    scene.now += REMEMBERED_MS - 1_000
    assert [look.changed for look in await scene.looks()] == [("two",)]


async def test_looks_wait_for_space_in_the_outbox(scene: Scene) -> None:
    scene = Scene(outbox_bytes=2 * scene.letter().held_size)
    for _ in range(10):
        scene.send()
    scene.write_rule("fresh")
    looking = asyncio.create_task(scene.forwarded.look_again())
    looks: list[Letter] = []
    while not looking.done():
        await asyncio.sleep(0.001)
        assert len(scene.outbox) <= 2
        looks += await scene.take()
    assert len(looks + await scene.take()) == 10


async def test_a_look_at_a_great_many_gives_way(scene: Scene) -> None:
    for _ in range(20_000):
        scene.send()
    scene.write_rule("fresh")
    looking = asyncio.create_task(scene.forwarded.look_again())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not looking.done()
    await looking
    assert len(scene.outbox) == 20_000


async def test_what_nobody_has_verified_is_verified_once_before_its_first_look(scene: Scene) -> None:
    letter = scene.send()
    scene.send(verified=True)
    assert (await scene.looks(), scene.verified) == ([], [])
    scene.write_rule("one")
    assert len(await scene.looks()) == 2
    scene.write_rule("two")
    scene.now = scene.candidates.fresh_as_of = NOW + PATIENCE_MS
    assert len(await scene.looks()) == 2
    assert scene.verified == [letter.receipt]


async def test_what_is_forged_gets_no_look_and_is_released(scene: Scene) -> None:
    scene.forged = True
    letter = scene.send()
    scene.write_rule("one")
    assert (await scene.looks(), len(scene.forwarded)) == ([], 0)
    scene.forwarded.recorded(letter)
    assert scene.handled == [letter.receipt]


def test_the_names_in_a_message_count_as_held(scene: Scene) -> None:
    scene.write_rule("x" * 36)
    assert replace(scene.letter(), changed=()).held_size + 36 <= scene.letter().held_size


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


async def test_a_statement_is_handled_once_the_lake_has_it_and_every_rule_of_its_time_is_known(scene: Scene) -> None:
    first, second = scene.send(), scene.send()
    scene.forwarded.recorded(first)
    scene.candidates.fresh_as_of = NOW + PATIENCE_MS - 1
    await scene.forwarded.look_again()
    assert scene.handled == []
    scene.candidates.fresh_as_of += 1
    await scene.forwarded.look_again()
    assert scene.handled == [first.receipt]
    scene.forwarded.recorded(second)
    assert scene.handled == [first.receipt, second.receipt]
    assert len(scene.forwarded) == 0


async def test_beyond_its_bytes_the_oldest_is_let_go(scene: Scene) -> None:
    scene = Scene(capacity=2 * scene.letter().held_size)
    first, *_ = [scene.send() for _ in range(3)]
    scene.forwarded.recorded(first)
    await scene.forwarded.look_again()
    assert (scene.handled, len(scene.forwarded)) == ([first.receipt], 2)
