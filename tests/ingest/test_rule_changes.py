import pytest

from ingest.rule_changes import REMEMBERED_MS, RuleChanges

NOW = 1_700_000_000_000
MOST = 5


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def changes(clock: Clock) -> RuleChanges:
    return RuleChanges(MOST, clock)


def test_whose_rule_for_any_of_the_pairs_changed_is_named_once(changes: RuleChanges) -> None:
    for pair, name in ((1, "b"), (1, "a"), (2, "b"), (3, "c")):
        changes.add(pair, name)
    assert changes.of([1, 2]) == ["a", "b"]
    assert changes.of([4]) == []


def test_only_changes_after_the_given_one_count(changes: RuleChanges) -> None:
    changes.add(1, "a")
    known = changes.count
    changes.add(1, "b")
    assert changes.of([1], after=known) == ["b"]
    assert changes.of([1], after=changes.count) == []


def test_a_change_is_remembered_for_its_time(changes: RuleChanges, clock: Clock) -> None:
    changes.add(1, "a")
    clock.now += REMEMBERED_MS - 1
    changes.add(1, "b")
    assert changes.of([1]) == ["a", "b"]
    clock.now += 1
    assert changes.of([1]) == ["b"]
    clock.now += REMEMBERED_MS
    assert (changes.of([1]), len(changes), changes.count) == ([], 0, 2)


def test_beyond_its_bound_the_oldest_change_is_forgotten(changes: RuleChanges) -> None:
    for number in range(MOST + 1):
        changes.add(number % 2, str(number))
    assert len(changes) == MOST
    assert changes.of([0, 1]) == ["1", "2", "3", "4", "5"]
