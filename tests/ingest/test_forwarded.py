"""Which statements get a second look, and when they count as handled."""

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from clarion.networks.statements.rules import key_of
from clarion.tables import rule_key
from ingest.delivery.outbox import Budget, Outbox
from ingest.delivery.outgoing import MOST_NAMED, Outgoing
from ingest.filter.candidates import CandidateFilter
from ingest.filter.fingerprints import of_key
from ingest.filter.rule_changes import REMEMBERED_MS, RuleChanges
from ingest.memory.forwarded import Forwarded, SecondLooks
from tests.ingest.conftest import make_outgoing

if TYPE_CHECKING:
    from uuid import UUID

SENDER, TOPIC, OTHER = b"\x5e" * 32, b"\x70" * 32, b"\x71" * 32
NOW = 1_700_000_000_000
PATIENCE_MS = 10_000


class Scene:
    def __init__(self, capacity: int = 1 << 30, outbox_bytes: int = 1 << 30) -> None:
        self.now = NOW
        self.candidates = CandidateFilter()
        self.candidates.changes = RuleChanges(clock=lambda: self.now)
        self.candidates.fresh_as_of = NOW
        self.handled: list[UUID] = []
        self.verified: list[UUID] = []
        self.forged = False
        self.outbox = Outbox[Outgoing](to="queue", budget=Budget(outbox_bytes), most=1000, linger=0, taken=self._taken)
        self.forwarded = Forwarded(
            candidates=self.candidates,
            outbox=self.outbox,
            is_genuine=self._verify,
            handled=lambda outgoing: self.handled.append(outgoing.receipt),
            patience_ms=PATIENCE_MS,
            capacity=capacity,
            clock=lambda: self.now,
        )
        self.second_looks = SecondLooks({0: self.forwarded}, self.candidates.changes)

    def outgoing(self, *topics: bytes, verified: bool = False) -> Outgoing:
        changes = self.candidates.changes
        keys = [of_key(key_of(SENDER, topic)) for topic in topics or (TOPIC,)]
        return make_outgoing(
            observed_at=self.now,
            names=tuple(changes.lately(keys)),
            keys=keys,
            changes_known=changes.count,
            verified=verified,
        )

    def send(self, *topics: bytes, verified: bool = False) -> Outgoing:
        outgoing = self.outgoing(*topics, verified=verified)
        self.forwarded.add(outgoing)
        return outgoing

    def write_rule(self, name: str, topic: bytes = TOPIC) -> None:
        self.candidates.change(name, rule_key(1, key_of(SENDER, topic)))

    def _verify(self, outgoing: Outgoing) -> bool:
        self.verified.append(outgoing.receipt)
        return not self.forged

    def _taken(self, outgoing: Outgoing) -> None:
        self.second_looks.sent(outgoing)

    def pass_time(self, seconds: float) -> None:
        """Let the event loop turn."""
        for _ in range(int(seconds * 4)):
            self.now += 250
            self.second_looks.forget_changes()

    async def looks(self) -> list[Outgoing]:
        await self.forwarded.look_again()
        return await self.take()

    async def take(self) -> list[Outgoing]:
        if not len(self.outbox):
            return []
        batch = await self.outbox.take()
        self.outbox.done(batch)
        return batch


@pytest.fixture
def scene() -> Scene:
    return Scene()


async def test_a_rule_that_the_stream_shows_after_its_statement_was_sent_gets_it_a_second_look(scene: Scene) -> None:
    outgoing = scene.send(OTHER, TOPIC)
    assert await scene.looks() == []
    scene.write_rule("fresh")
    scene.write_rule("elsewhere", bytes(32))
    [look] = await scene.looks()
    assert (look.receipt, look.raw, look.names) == (outgoing.receipt, outgoing.raw, ("fresh",))
    assert look.look_id is not None
    assert getattr(look.message, "look_id", None) == look.look_id


async def test_changes_on_and_on_get_a_statement_two_looks_of_which_the_second_names_all_later_ones(
    scene: Scene,
) -> None:
    outgoing = scene.send()
    scene.write_rule("one")
    first = await scene.looks()
    later = [f"later {number}" for number in range(9)]
    for name in later:
        scene.now += 1_000
        scene.write_rule(name)
        assert await scene.looks() == []
    scene.now = scene.candidates.fresh_as_of = NOW + PATIENCE_MS
    second = await scene.looks()
    assert [look.names for look in first + second] == [("one",), tuple(later)]
    assert len({look.look_id for look in first + second}) == 2
    assert {look.receipt for look in first + second} == {outgoing.receipt}
    scene.write_rule("too late")
    assert (await scene.looks(), len(scene.forwarded)) == ([], 0)


async def test_no_change_is_forgotten_before_its_look_while_the_stream_lags_behind(scene: Scene) -> None:
    """So that the filter is not known to be complete, and the statement is held on."""
    scene.send()
    scene.write_rule("one")
    await scene.looks()
    scene.write_rule("two")
    scene.now += REMEMBERED_MS - 1_000
    assert [look.names for look in await scene.looks()] == [("two",)]


async def test_looks_wait_for_space_in_the_outbox(scene: Scene) -> None:
    scene = Scene(outbox_bytes=2 * scene.outgoing().held_size)
    for _ in range(10):
        scene.send()
    scene.write_rule("fresh")
    looking = asyncio.create_task(scene.forwarded.look_again())
    looks: list[Outgoing] = []
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
    outgoing = scene.send()
    scene.send(verified=True)
    assert (await scene.looks(), scene.verified) == ([], [])
    scene.write_rule("one")
    assert len(await scene.looks()) == 2
    scene.write_rule("two")
    scene.now = scene.candidates.fresh_as_of = NOW + PATIENCE_MS
    assert len(await scene.looks()) == 2
    assert scene.verified == [outgoing.receipt]


async def test_what_is_forged_gets_no_look_and_is_released(scene: Scene) -> None:
    scene.forged = True
    outgoing = scene.send()
    scene.write_rule("one")
    assert (await scene.looks(), len(scene.forwarded)) == ([], 0)
    scene.forwarded.recorded(outgoing)
    assert scene.handled == [outgoing.receipt]


def test_the_names_in_a_message_count_as_held(scene: Scene) -> None:
    scene.write_rule("x" * 36)
    assert replace(scene.outgoing(), names=()).held_size + 36 <= scene.outgoing().held_size


async def test_whom_the_first_message_names_gets_no_second(scene: Scene) -> None:
    scene.write_rule("before")
    outgoing = scene.send()
    assert outgoing.names == ("before",)
    assert await scene.looks() == []


async def test_a_change_while_a_statement_waits_to_be_sent_is_not_missed(scene: Scene) -> None:
    outgoing = scene.outgoing()
    scene.write_rule("meanwhile")
    assert await scene.looks() == []
    scene.forwarded.add(outgoing)
    assert [look.names for look in await scene.looks()] == [("meanwhile",)]


async def test_many_changes_make_messages_of_so_many_names_at_most(scene: Scene) -> None:
    scene.send()
    for number in range(MOST_NAMED + 1):
        scene.write_rule(f"{number:03}")
    assert [len(look.names) for look in await scene.looks()] == [MOST_NAMED, 1]


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
    scene = Scene(capacity=2 * scene.outgoing().held_size)
    first, *_ = [scene.send() for _ in range(3)]
    scene.forwarded.recorded(first)
    await scene.forwarded.look_again()
    assert (scene.handled, len(scene.forwarded)) == ([first.receipt], 2)


async def test_a_pause_of_the_process_loses_no_look(scene: Scene) -> None:
    """However long the event loop stands still between a change and the look at it."""
    scene.send()
    scene.write_rule("one")
    await scene.looks()
    scene.write_rule("two")
    scene.now += 10 * REMEMBERED_MS
    scene.second_looks.forget_changes()
    assert [look.names for look in await scene.looks()] == [("two",)]


async def test_a_change_is_not_forgotten_while_looks_wait_for_space(scene: Scene) -> None:
    scene = Scene(outbox_bytes=scene.outgoing().held_size)
    for _ in range(2):
        scene.send()
    scene.write_rule("fresh")
    looking = asyncio.create_task(scene.forwarded.look_again())
    await asyncio.sleep(0.01)
    scene.pass_time(2 * REMEMBERED_MS / 1000)
    looks = await scene.take()
    while not looking.done():
        await asyncio.sleep(0.001)
        looks += await scene.take()
    assert [look.names for look in looks] == [("fresh",)] * 2


async def test_a_change_that_all_was_compared_with_is_forgotten_in_time(scene: Scene) -> None:
    scene.send()
    scene.write_rule("one")
    scene.pass_time(2 * REMEMBERED_MS / 1000)
    assert len(scene.candidates.changes) == 1
    await scene.looks()
    scene.pass_time(1)
    assert len(scene.candidates.changes) == 0


async def test_a_statement_is_not_handled_while_a_look_at_it_is_unsent(scene: Scene) -> None:
    outgoing = scene.send()
    scene.forwarded.recorded(outgoing)
    scene.write_rule("fresh")
    scene.now = scene.candidates.fresh_as_of = NOW + PATIENCE_MS
    await scene.forwarded.look_again()
    assert (scene.handled, len(scene.forwarded), len(scene.outbox)) == ([], 0, 1)
    batch = await scene.outbox.take()
    scene.outbox.done(batch, failed=batch)
    assert scene.handled == []
    await scene.take()
    assert scene.handled == [outgoing.receipt]


async def test_a_statement_that_the_lake_gets_late_is_not_handled_while_a_look_at_it_is_unsent(scene: Scene) -> None:
    outgoing = scene.send()
    for number in range(MOST_NAMED + 1):
        scene.write_rule(f"{number:03}")
    scene.now = scene.candidates.fresh_as_of = NOW + PATIENCE_MS
    await scene.forwarded.look_again()
    scene.forwarded.recorded(outgoing)
    batch = await scene.outbox.take()
    scene.outbox.done(batch, failed=batch[:1])
    assert scene.handled == []
    await scene.take()
    assert scene.handled == [outgoing.receipt]
