"""Finding events in committed files and in the stream's lines."""

import tracemalloc
from pathlib import Path
from uuid import UUID

import pytest

from clarion.events import EnvelopeDecided, EnvelopeObserved, PushTried
from pipeline.explain.request import ExplainRequest, explain
from pipeline.lake.lookup import Lookup
from pipeline.period import DAY_MS, HOUR_MS, Period
from tests.pipeline.small_lake import PHONE, START, SmallLake, Way

AROUND = Period(START - DAY_MS, START + DAY_MS)
WAYS = [Way(START + number, number) for number in range(20)]


@pytest.fixture
def lake(tmp_path: Path) -> SmallLake:
    return SmallLake(tmp_path / "lake")


@pytest.fixture(params=["commit", "stream", "stream, and nothing is kept"])
def lookup(request: pytest.FixtureRequest, lake: SmallLake) -> Lookup:
    """What was found is the same, compacted or not."""
    write, _, nothing_kept = request.param.partition(", ")
    getattr(lake, write)(*(event for way in WAYS for event in way.delivered()))
    return Lookup(lake.root, 0) if nothing_kept else Lookup(lake.root)


def test_one_of_many_is_found_with_all_that_it_says(lookup: Lookup) -> None:
    (found,) = lookup.find(EnvelopeObserved, "receipt", {WAYS[7].receipt}, AROUND)
    assert (found.raw, found.observed_at, found.network) == (WAYS[7].raw, WAYS[7].began, "statements")


@pytest.mark.parametrize("many", [1, 8, 15])
def test_several_are_found_at_once(lookup: Lookup, many: int) -> None:
    ids = {way.envelope_id for way in WAYS[:many]}
    found = lookup.find(PushTried, "envelope_id", ids, AROUND)
    assert {one.envelope_id for one in found} == ids
    assert len(found) == many


def test_what_is_not_there_or_not_asked_for_is_not_found(lookup: Lookup) -> None:
    assert lookup.find(PushTried, "receipt", {UUID(int=5)}, AROUND) == []
    assert lookup.find(PushTried, "receipt", [], AROUND) == []
    assert lookup.find(PushTried, "receipt", {WAYS[0].receipt}, Period(START + HOUR_MS, START + DAY_MS)) == []


def test_envelopes_are_found_by_their_keys(lookup: Lookup) -> None:
    assert set(lookup.observed_naming({WAYS[0].key}, AROUND)) == {way.receipt for way in WAYS}
    assert set(lookup.observed_naming({b"another"}, AROUND)) == set()


def test_receipts_are_those_of_all(lookup: Lookup) -> None:
    assert sorted(lookup.receipts(EnvelopeDecided, AROUND)) == sorted(str(way.receipt) for way in WAYS)


def test_lines_that_are_not_compacted_take_no_more_memory_than_is_given_for_them(lake: SmallLake) -> None:
    """What doesn't fit goes to the disk."""
    pushes = [way.push() for way in WAYS] * 500
    for _ in range(4):
        lake.stream(*pushes)
    size = 4 * sum(len(push.to_line()) for push in pushes)

    def peak(kept_bytes: int) -> int:
        lookup = Lookup(lake.root, kept_bytes)
        tracemalloc.start()
        assert lookup.find(PushTried, "receipt", {UUID(int=5)}, AROUND) == []
        assert lookup.find(PushTried, "receipt", {UUID(int=6)}, AROUND) == []
        highest = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return highest

    assert peak(0) < size / 4
    assert size / 4 < peak(size // 2) < 3 * size / 4
    assert peak(2 * size) > size


@pytest.mark.parametrize("kept_bytes", [0, 1_000, 1 << 20])
def test_a_file_that_is_not_compacted_is_read_once_whatever_is_asked_for(lake: SmallLake, kept_bytes: int) -> None:
    path = Path(lake.root) / lake.stream(*(event for way in WAYS for event in way.delivered()))
    lookup = Lookup(lake.root, kept_bytes)
    assert len(lookup.find(PushTried, "receipt", {WAYS[7].receipt}, AROUND)) == 1
    path.write_bytes(b"")
    for way in WAYS:
        assert [one.raw for one in lookup.find(EnvelopeObserved, "receipt", {way.receipt}, AROUND)] == [way.raw]
    assert lookup.damaged == []


def test_a_line_that_is_there_twice_is_found_once(lake: SmallLake) -> None:
    push = WAYS[0].push()
    lake.commit(push)
    lake.stream(push, push)
    assert Lookup(lake.root).find(PushTried, "subscription_id", {PHONE}, AROUND) == [push]


def test_of_a_damaged_file_the_beginning_is_read_and_the_file_is_named(lake: SmallLake) -> None:
    push = WAYS[0].push()
    path = lake.stream(push, *(way.push() for way in WAYS))
    target = Path(lake.root) / path
    target.write_bytes(target.read_bytes()[:-9])
    lookup = Lookup(lake.root)
    assert push in lookup.find(PushTried, "subscription_id", {PHONE}, AROUND)
    assert lookup.damaged == [path]


def test_lines_that_nobody_can_read_are_counted_if_they_hold_what_is_looked_for(lake: SmallLake) -> None:
    class NewerPush(PushTried):
        version: int = 2  # type: ignore[assignment] # as a newer Clarion may have it

    push = WAYS[0].push()
    lake.stream(NewerPush(**dict(push) | {"version": 2}), at=START)
    lookup = Lookup(lake.root)
    assert lookup.find(PushTried, "receipt", {push.receipt}, AROUND) == []
    assert lookup.find(PushTried, "subscription_id", {push.subscription_id}, AROUND) == []
    assert "1 lines about it can't be read" in lookup.doubts(AROUND)


def test_a_line_of_a_network_that_nobody_knows_is_unreadable_and_ends_nothing(lake: SmallLake) -> None:
    way = Way(number=77)
    lake.stream(*(event.model_copy(update={"network": "unknown"}) for event in way.delivered()))
    lookup = Lookup(lake.root)
    assert explain(lookup, ExplainRequest(way.receipt, AROUND)).receipts == []
    assert len(lookup.unreadable) == 2, "the observation, and its decision"


def test_what_a_later_release_has_committed_with_a_word_that_is_new_is_unreadable_and_ends_nothing(
    lake: SmallLake,
) -> None:
    class NewerPush(PushTried):
        decision: str  # type: ignore[assignment] # as a newer Clarion may have it

    way = Way(number=78)
    newer = NewerPush(**dict(way.push()) | {"decision": "teleported"})
    lake.commit(*way.delivered()[:3], newer, at=START)
    lookup = Lookup(lake.root)
    assert lookup.find(PushTried, "receipt", {way.receipt}, AROUND) == []
    assert len(lookup.unreadable) == 1
    assert len(explain(lookup, ExplainRequest(way.receipt, AROUND)).receipts) == 1
    assert "1 lines about it can't be read" in lookup.doubts(AROUND)
