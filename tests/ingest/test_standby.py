"""What a task holds that is another's to forward. The number of an envelope is its fingerprint, and so its shard."""

import pytest

from clarion.networks import STATEMENTS, Command
from ingest.delivery.outbox import Budget
from ingest.delivery.outgoing import OutgoingCommand
from ingest.lease.shards import Shards
from ingest.memory.initial_replay import Replay
from ingest.memory.standby import ReceivedEnvelope, Reception, Standby
from ingest.sources.feed import Feed
from ingest.sources.statements.source import SOURCE_SPEC

OVERLAP_MS = 60_000
FEEDS = [Feed(number, STATEMENTS, SOURCE_SPEC) for number in (1, 2)]
REPLAY = Replay(None, [], 0)


def envelope(number: int, *, at: int = 0, source: int = 1, replay: Replay | None = None) -> ReceivedEnvelope:
    return ReceivedEnvelope(number, b"raw", Reception(FEEDS[source - 1], at, replay))


@pytest.fixture
def shards() -> Shards:
    shards = Shards("me")
    shards.divide(["another"])
    return shards


def make_standby(shards: Shards, space: int = 100) -> Standby:
    """With space for so many of each source."""
    return Standby(shards, Budget(2 * space * envelope(1).held_size, sources=2), OVERLAP_MS)


def test_it_is_held_until_its_owner_has_delivered_it_and_the_overlap_is_over(shards: Shards) -> None:
    standby = make_standby(shards)
    for number in range(1, 4):
        standby.hold(envelope(number, at=number))
    assert [one.fingerprint for one in standby.take_delivered(lambda _: OVERLAP_MS + 3)] == [1, 2]
    assert len(standby) == 1


def test_each_owner_speaks_for_its_own_shards_alone(shards: Shards) -> None:
    standby = make_standby(shards, space=1000)
    shards.divide(["another", "third"])
    for number in range(256):
        standby.hold(envelope(number, at=1))
    through = {"another": 10 * OVERLAP_MS, "third": 0}
    delivered = {one.fingerprint for one in standby.take_delivered(through.__getitem__)}
    assert delivered == {number for number in range(256) if shards.owners[number] == "another"}


def test_what_came_before_its_shard_moved_is_held_until_its_owner_of_then_has_delivered_it(shards: Shards) -> None:
    standby = make_standby(shards, space=256)
    for number in range(256):
        standby.hold(envelope(number, at=1))
    shards.divide(["another", "joined"])
    assert [*standby.take_delivered({"another": 0, "joined": 10 * OVERLAP_MS}.__getitem__), *standby.take_own()] == []
    assert len([*standby.take_delivered({"another": 10 * OVERLAP_MS, "joined": 0}.__getitem__)]) == 256


def test_what_a_task_has_not_delivered_that_is_gone_is_taken_out_whosever_its_shard_is_now(shards: Shards) -> None:
    standby = make_standby(shards)
    standby.hold(envelope(1, at=1))
    shards.divide(["joined"])
    standby.hold(envelope(2, at=1))
    assert [one.fingerprint for one in standby.take_own()] == [1]
    assert len(standby) == 1


def test_what_comes_while_a_lost_task_s_envelopes_are_taken_out_is_held_once_it_is_back(shards: Shards) -> None:
    standby = make_standby(shards)
    for number in (1, 2):
        standby.hold(envelope(number))
    shards.divide(["third"])
    taken = standby.take_own()
    next(taken)
    shards.divide(["another"])
    standby.hold(envelope(3))
    assert [one.fingerprint for one in taken] == [2]
    assert len(standby) == 1


def test_what_becomes_ours_is_taken_out_and_the_rest_stays(shards: Shards) -> None:
    standby = make_standby(shards, space=256)
    for number in range(256):
        standby.hold(envelope(number))
    shards.divide(["me", "another"])
    taken = [one.fingerprint for one in standby.take_own()]
    assert taken == [number for number in range(256) if shards.owns(number)]
    assert len(standby) == 256 - len(taken)


def test_a_source_that_has_filled_its_share_is_held_no_more_of_and_the_others_are(shards: Shards) -> None:
    standby = make_standby(shards, space=2)
    assert [standby.hold(envelope(number)) for number in range(3)] == [True, True, False]
    assert standby.hold(envelope(3, source=2))


def test_a_crowded_source_has_no_overlap_and_the_others_have(shards: Shards) -> None:
    standby = make_standby(shards, space=4)
    standby.hold(envelope(256, source=2))
    for number in (0, 512):
        standby.hold(envelope(number))
    assert [one.fingerprint for one in standby.take_delivered(lambda _: 1)] == [0]
    assert len(standby) == 2


def test_what_has_left_gives_its_space_back(shards: Shards) -> None:
    standby = make_standby(shards, space=1)
    for number in range(3):
        assert standby.hold(envelope(number))
        assert len([*standby.take_delivered(lambda _: OVERLAP_MS + 1)]) == 1


def test_it_is_held_once_and_as_live_if_any_node_has_shown_it_live(shards: Shards) -> None:
    standby = make_standby(shards)
    shown = envelope(1, at=1, replay=REPLAY)
    assert not standby.show_again(1, shown.reception)
    standby.hold(shown)
    for again in (envelope(1, at=2, source=2), envelope(1, at=3, replay=REPLAY)):
        assert standby.show_again(1, again.reception)
    shards.divide(["me"])
    assert [*standby.take_own()] == [envelope(1, at=1)]


def test_commands_are_held_likewise(shards: Shards) -> None:
    standby = make_standby(shards)
    command = OutgoingCommand(command=Command(STATEMENTS, b"do it"), observed_at=1, source=1)
    assert standby.hold(command)
    shards.divide(["me"])
    assert [*standby.take_own()] == [command]


def test_what_nobody_owns_stays(shards: Shards) -> None:
    standby = make_standby(shards)
    shards.divide([])
    standby.hold(envelope(1))
    assert [*standby.take_delivered(lambda _: 2**60), *standby.take_own()] == []
    assert len(standby) == 1
