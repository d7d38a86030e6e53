import pytest

from ingest.filter.rule_changes import LONGEST_STEP_MS, REMEMBERED_MS, RuleChanges

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


def test_whose_rule_for_any_of_the_keys_changed_is_named_once(changes: RuleChanges) -> None:
    for key, name in ((1, "b"), (1, "a"), (2, "b"), (3, "c")):
        changes.add(key, name)
    assert changes.lately([1, 2]) == ["a", "b"]
    assert changes.lately([4]) == []


def test_only_changes_after_the_given_one_count(changes: RuleChanges) -> None:
    changes.add(1, "a")
    known = changes.count
    changes.add(1, "b")
    assert changes.since(known, [1]) == ["b"]
    assert changes.since(changes.count, [1]) == []


def pass_time(changes: RuleChanges, clock: Clock, milliseconds: int, *, seen_through: int | None = None) -> None:
    """Let the event loop turn."""
    for _ in range(0, milliseconds, LONGEST_STEP_MS):
        clock.now += LONGEST_STEP_MS
        changes.forget(changes.count if seen_through is None else seen_through)


def test_a_change_is_remembered_for_its_time(changes: RuleChanges, clock: Clock) -> None:
    changes.add(1, "a")
    pass_time(changes, clock, REMEMBERED_MS - LONGEST_STEP_MS)
    changes.add(1, "b")
    assert changes.lately([1]) == ["a", "b"]
    pass_time(changes, clock, LONGEST_STEP_MS)
    assert changes.lately([1]) == ["b"]
    pass_time(changes, clock, REMEMBERED_MS)
    assert (changes.lately([1]), len(changes), changes.count) == ([], 0, 2)


def test_a_pause_of_the_process_counts_as_a_moment(changes: RuleChanges, clock: Clock) -> None:
    changes.add(1, "a")
    clock.now += 10 * REMEMBERED_MS
    changes.forget(changes.count)
    assert changes.lately([1]) == ["a"]


def test_what_somebody_has_yet_to_see_is_kept_but_is_not_late_news(changes: RuleChanges, clock: Clock) -> None:
    changes.add(1, "a")
    changes.add(1, "b")
    pass_time(changes, clock, REMEMBERED_MS, seen_through=1)
    assert (changes.since(0, [1]), changes.lately([1])) == (["b"], [])


def test_beyond_its_bound_the_oldest_change_is_forgotten(changes: RuleChanges) -> None:
    for number in range(MOST + 1):
        changes.add(number % 2, str(number))
    assert len(changes) == MOST
    assert changes.lately([0, 1]) == ["1", "2", "3", "4", "5"]
