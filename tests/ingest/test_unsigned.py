"""What a source may do whose network signs nothing: here the toy network, so changed."""

import asyncio

import pytest

from clarion.metrics import Metric
from clarion.networks import STATEMENTS, XMTP, network
from clarion.tables import rule_key
from ingest.counts import Counts
from ingest.filter.fingerprints import of_envelope
from ingest.memory.unmatched import Arrival
from ingest.sources.feed import Feed
from tests.ingest.conftest import MakeStatement
from tests.ingest.test_intake import NOW, IntakeScene
from tests.ingest.toy_source import SOURCE_SPEC
from tests.toy import NETWORK, TOY, key_of, say

HELD_SIZE = Arrival(NOW, 1, [], TOY, say("0", "hall"), 1).held_size


@pytest.fixture
def unsigned(toy: str, monkeypatch: pytest.MonkeyPatch) -> Feed:
    """The second source of a scene, beside one of statements."""
    monkeypatch.setattr(NETWORK, "signed", False)
    return Feed(2, toy, SOURCE_SPEC)


def test_statements_are_signed_and_nothing_of_xmtp_is() -> None:
    assert [network(name).signed for name in (STATEMENTS, XMTP)] == [True, False]


async def test_an_unsigned_flood_takes_nothing_of_the_space_that_is_for_verified_envelopes(
    unsigned: Feed, counts: Counts, make_statement: MakeStatement
) -> None:
    scene = IntakeScene(counts, seen_limit=100)
    await scene.show(*(say(f"{number}", "hall") for number in range(1000)), source=unsigned)
    assert scene.seen.size == 25
    statements = [make_statement(number) for number in range(75)]
    await scene.show(*statements, *statements)
    assert (scene.seen.size, counts[Metric.ENVELOPES_SKIPPED]) == (100, 75)


async def test_beyond_its_share_what_a_rule_names_is_forwarded_unremembered(unsigned: Feed, counts: Counts) -> None:
    scene = IntakeScene(counts, seen_limit=8)
    scene.candidates.add([rule_key(3, key_of("hall"))])
    shown = [say(f"{number}", "hall") for number in range(4)]
    await scene.show(*shown, *shown, source=unsigned)
    assert await scene.forwarded() == [*shown, *shown[2:]]
    assert scene.seen.size == 2
    assert scene.seen.refresh(of_envelope(NETWORK.decode(shown[0]).id, unsigned.network_number))


async def test_beyond_its_share_what_no_rule_names_is_let_go_and_counted(unsigned: Feed, counts: Counts) -> None:
    scene = IntakeScene(counts, unmatched_bytes=2 * 3 * HELD_SIZE)
    shown = [say(f"{number}", "hall") for number in range(10)]
    await scene.show(*shown, source=unsigned)
    assert await scene.forwarded() == []
    assert (len(scene.unmatched), counts["envelope_unmatched"]) == (3, 7)
    scene.candidates.add([rule_key(3, key_of("hall"))])
    await scene.intake.look_again(unsigned.number)
    assert await scene.forwarded() == shown[-3:]


async def test_what_waits_for_a_rule_unremembered_waits_once_however_often_it_is_shown(
    unsigned: Feed, counts: Counts
) -> None:
    scene = IntakeScene(counts, seen_limit=0, unmatched_bytes=2 * 3 * HELD_SIZE)
    await scene.show(say("0", "hall"), *(say("1", "hall"),) * 50, source=unsigned)
    assert (len(scene.unmatched), counts["envelope_unmatched"]) == (2, 0)


async def test_what_is_shown_to_this_task_alone_is_all_held_when_who_shows_it_stops_waiting(
    unsigned: Feed, counts: Counts
) -> None:
    alone = Feed(2, TOY, SOURCE_SPEC._replace(exclusive=True))
    scene = IntakeScene(counts, outbox_bytes=2)
    shown = [say(f"{number}", "hall") for number in range(4)]
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(scene.show(*shown, source=alone), 0.1)
    assert await scene.forwarded() == shown


async def test_what_is_shown_to_this_task_alone_waits_outside_a_full_outbox_and_is_held_when_the_task_ends(
    unsigned: Feed, counts: Counts
) -> None:
    """Or each of many connections would hold a block more."""
    alone = Feed(2, TOY, SOURCE_SPEC._replace(exclusive=True))
    scene = IntakeScene(counts, outbox_bytes=2)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(scene.show(say("0", "hall"), source=alone), 0.1)
    shown = [say(f"{number}", "hall") for number in range(1, 4)]
    waiting = [asyncio.create_task(scene.show(one, source=alone)) for one in shown]
    await asyncio.sleep(0.05)
    assert len(scene.outbox) == 1
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert await scene.forwarded() == [say("0", "hall"), *shown]
