from hypothesis import given
from hypothesis import strategies as st

from ingest.filter.fingerprints import of_envelope
from ingest.lease.shards import SHARDS, Shards, owners_of

names = st.frozensets(st.uuids().map(str), min_size=1, max_size=6)


@given(names, st.binary(min_size=32, max_size=32))
def test_each_envelope_is_one_task_s_own(tasks: frozenset[str], envelope_id: bytes) -> None:
    fingerprint = of_envelope(envelope_id, b"\x01")
    each = [Shards(task) for task in tasks]
    for shards in each:
        shards.divide(tasks)
    assert [shards.owns(fingerprint) for shards in each].count(True) == 1
    assert sum(shards.owned for shards in each) == SHARDS


@given(names)
def test_when_a_task_ends_only_its_shards_move(tasks: frozenset[str]) -> None:
    gone = min(tasks)
    before, after = owners_of(tasks), owners_of(tasks - {gone})
    assert [owner for owner in before if owner != gone] == [
        new for old, new in zip(before, after, strict=True) if old != gone
    ]


def test_the_shards_are_divided_about_evenly() -> None:
    owners = owners_of(frozenset({"one", "two", "three"}))
    assert min(map(owners.count, ("one", "two", "three"))) > SHARDS // 5


def test_one_task_alone_owns_all_and_saves_what_was_handled() -> None:
    shards = Shards("me")
    shards.divide(["me"])
    assert (shards.owned, shards.records) == (SHARDS, True)


def test_nobody_owns_anything_while_nobody_is_at_work() -> None:
    shards = Shards("me")
    assert (shards.owned, shards.records, shards.owns(1)) == (0, False, False)
