"""Who is at work, as each task sees it. Times are of a clock that all share here."""

import pytest
from pynamodb.exceptions import PutError, ScanError

from clarion.tables import Lease
from ingest.lease.leases import Leases

SECONDS = 8.0
NOW = 1_700_000_000_000


class Clock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds

    def milliseconds(self) -> int:
        return NOW + int(self.seconds * 1000)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("ingest.lease.leases.now_ms", clock.milliseconds)
    return clock


class Tasks:
    """Several, each of which renews its lease four times in its time unless it is away."""

    def __init__(self, clock: Clock, *names: str) -> None:
        self._clock = clock
        self.each = {name: Leases(name, SECONDS, clock) for name in names}
        self.away: set[str] = set()
        self.unused: set[str] = set()
        self.delivered = dict.fromkeys(names, 7)

    def go_on(self, periods: int = 3) -> None:
        for _ in range(periods):
            self._clock.seconds += SECONDS / 4
            for name, leases in self.each.items():
                if name not in self.away:
                    leases.renew(self.delivered[name], useful=name not in self.unused)

    def as_seen_by(self, name: str) -> list[str]:
        return sorted(self.each[name].tasks)


@pytest.fixture
def tasks(tables: None, clock: Clock) -> Tasks:
    tasks = Tasks(clock, "one", "two", "three")
    tasks.go_on()
    return tasks


def test_all_see_all_that_are_at_work(tasks: Tasks) -> None:
    assert {tuple(tasks.as_seen_by(name)) for name in tasks.each} == {("one", "three", "two")}


def test_one_that_is_silent_for_the_time_of_a_lease_is_not_at_work_any_more(tasks: Tasks) -> None:
    tasks.away.add("one")
    tasks.go_on(3)
    assert tasks.as_seen_by("two") == ["one", "three", "two"]
    tasks.go_on(2)
    assert tasks.as_seen_by("two") == tasks.as_seen_by("three") == ["three", "two"]


def test_one_that_was_paused_is_at_work_for_itself_and_soon_again_for_the_others(tasks: Tasks) -> None:
    tasks.away.add("one")
    tasks.go_on(20)
    assert "one" in tasks.as_seen_by("one")
    tasks.away.clear()
    tasks.go_on(2)
    assert {tuple(tasks.as_seen_by(name)) for name in tasks.each} == {("one", "three", "two")}


def test_one_that_ends_is_not_waited_for(tasks: Tasks) -> None:
    tasks.each["one"].release(9)
    tasks.away.add("one")
    tasks.go_on(1)
    assert tasks.as_seen_by("two") == ["three", "two"]
    assert tasks.each["two"].delivered_through("one") == 9


def test_a_crashed_task_s_row_counts_for_nothing_at_a_start(tables: None, clock: Clock) -> None:
    Lease("crashed", version=clock.milliseconds() - 60_000, delivered_through=5, ttl=2**31).save()
    started = Leases("started", SECONDS, clock)
    started.renew(0, useful=True)
    assert list(started.tasks) == ["started"]


def test_through_when_all_was_delivered_is_said_by_those_that_were_at_work_last(tasks: Tasks, clock: Clock) -> None:
    tasks.away.add("one")
    tasks.go_on(8)
    tasks.delivered |= {"two": 50, "three": 40}
    tasks.go_on(1)
    started = Leases("started", SECONDS, clock)
    started.renew(0, useful=False)
    assert started.all_delivered_through == 40


def test_one_that_is_still_shown_a_replay_leaves_the_work_to_the_others(tasks: Tasks, clock: Clock) -> None:
    tasks.each["late"] = Leases("late", SECONDS, clock)
    tasks.each["late"].renew(0, useful=False)  # as before it is connected
    tasks.delivered["late"] = 0
    tasks.go_on(8)
    assert tasks.as_seen_by("late") == tasks.as_seen_by("one") == ["one", "three", "two"]
    tasks.delivered["late"] = 1
    tasks.go_on(2)
    assert tasks.as_seen_by("late") == tasks.as_seen_by("one") == ["late", "one", "three", "two"]


def test_one_that_is_still_shown_a_replay_works_if_nobody_else_does(tasks: Tasks, clock: Clock) -> None:
    tasks.each["late"] = Leases("late", SECONDS, clock)
    tasks.each["late"].renew(0, useful=False)
    tasks.delivered["late"] = 0
    tasks.go_on(2)
    tasks.away = {"one", "two", "three"}
    tasks.go_on(5)
    assert tasks.as_seen_by("late") == ["late"]


def test_one_that_has_just_crashed_is_waited_for_by_its_successor(tables: None, clock: Clock) -> None:
    Lease("crashed", version=clock.milliseconds() - 1_000, delivered_through=5, ttl=2**31).save()
    tasks = Tasks(clock, "started")
    tasks.delivered["started"] = 0
    tasks.go_on(4)
    assert tasks.as_seen_by("started") == ["crashed"]
    tasks.go_on(1)
    assert tasks.as_seen_by("started") == ["started"]


def test_one_without_nodes_leaves_after_two_leases_and_comes_back_with_them(tasks: Tasks) -> None:
    tasks.unused.add("one")
    tasks.go_on(7)
    assert tasks.as_seen_by("two") == ["one", "three", "two"]
    tasks.go_on(2)
    assert tasks.as_seen_by("one") == tasks.as_seen_by("two") == ["three", "two"]
    tasks.unused.clear()
    tasks.go_on(2)
    assert tasks.as_seen_by("one") == tasks.as_seen_by("two") == ["one", "three", "two"]


def test_while_the_table_cannot_be_reached_each_works_for_all(tasks: Tasks, clock: Clock) -> None:
    Lease.delete_table()
    clock.seconds += SECONDS
    for leases in tasks.each.values():
        with pytest.raises((PutError, ScanError)):
            leases.renew(7, useful=True)
    assert [tasks.as_seen_by(name) for name in tasks.each] == [["one"], ["two"], ["three"]]


def test_a_row_of_a_task_that_is_no_more_is_removed_in_time(tasks: Tasks, clock: Clock) -> None:
    assert {int(row.ttl) - clock.milliseconds() // 1000 for row in Lease.scan()} == {86_400}
