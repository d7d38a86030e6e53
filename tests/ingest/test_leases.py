"""Who is at work, as each task sees it. Times are of a clock that all share here."""

import pytest
from pynamodb.exceptions import PutError, ScanError

from clarion.tables import Lease
from ingest.lease.leases import Leases
from ingest.wiring import AwsClients

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
        self.networks = dict.fromkeys(names, 1)
        self.gaps: set[str] = set()
        self.delivered = dict.fromkeys(names, 7)

    def advance(self, periods: int = 3) -> None:
        for _ in range(periods):
            self._clock.seconds += SECONDS / 4
            for name, leases in self.each.items():
                if name not in self.away:
                    leases.renew(self.delivered[name], networks=self.networks.get(name, 1), has_gap=name in self.gaps)

    def as_seen_by(self, name: str) -> list[str]:
        return sorted(self.each[name].tasks)


@pytest.fixture
def tasks(tables: None, clock: Clock) -> Tasks:
    tasks = Tasks(clock, "one", "two", "three")
    tasks.advance()
    return tasks


def test_all_see_all_that_are_at_work(tasks: Tasks) -> None:
    assert {tuple(tasks.as_seen_by(name)) for name in tasks.each} == {("one", "three", "two")}


def test_one_that_is_silent_for_the_time_of_a_lease_is_not_at_work_any_more(tasks: Tasks) -> None:
    tasks.away.add("one")
    tasks.advance(3)
    assert tasks.as_seen_by("two") == ["one", "three", "two"]
    tasks.advance(2)
    assert tasks.as_seen_by("two") == tasks.as_seen_by("three") == ["three", "two"]


def test_one_that_was_paused_is_at_work_for_itself_and_soon_again_for_the_others(tasks: Tasks) -> None:
    tasks.away.add("one")
    tasks.advance(20)
    assert "one" in tasks.as_seen_by("one")
    tasks.away.clear()
    tasks.advance(2)
    assert {tuple(tasks.as_seen_by(name)) for name in tasks.each} == {("one", "three", "two")}


def test_one_that_ends_is_not_waited_for(tasks: Tasks) -> None:
    tasks.each["one"].release(9)
    tasks.away.add("one")
    tasks.advance(1)
    assert tasks.as_seen_by("two") == ["three", "two"]
    assert tasks.each["two"].delivered_through("one") == 9


def test_a_crashed_task_s_row_counts_for_nothing_at_a_start(tables: None, clock: Clock) -> None:
    Lease("crashed", version=clock.milliseconds() - 60_000, delivered_through=5, ttl=2**31).save()
    started = Leases("started", SECONDS, clock)
    started.renew(0, networks=1)
    assert list(started.tasks) == ["started"]


def test_through_when_all_was_delivered_is_said_by_those_that_were_at_work_last(tasks: Tasks, clock: Clock) -> None:
    tasks.away.add("one")
    tasks.advance(8)
    tasks.delivered |= {"two": 50, "three": 40}
    tasks.advance(1)
    started = Leases("started", SECONDS, clock)
    started.renew(0, networks=0)
    assert started.all_delivered_through == 40


def test_one_that_is_still_shown_a_replay_leaves_the_work_to_the_others(tasks: Tasks, clock: Clock) -> None:
    tasks.each["late"] = Leases("late", SECONDS, clock)
    tasks.each["late"].renew(0, networks=0)  # as before it is connected
    tasks.delivered["late"] = 0
    tasks.advance(8)
    assert tasks.as_seen_by("late") == tasks.as_seen_by("one") == ["one", "three", "two"]
    tasks.delivered["late"] = 1
    tasks.advance(2)
    assert tasks.as_seen_by("late") == tasks.as_seen_by("one") == ["late", "one", "three", "two"]


def test_one_that_is_still_shown_a_replay_works_if_nobody_else_does(tasks: Tasks, clock: Clock) -> None:
    tasks.each["late"] = Leases("late", SECONDS, clock)
    tasks.each["late"].renew(0, networks=0)
    tasks.delivered["late"] = 0
    tasks.advance(2)
    tasks.away = {"one", "two", "three"}
    tasks.advance(5)
    assert tasks.as_seen_by("late") == ["late"]


def test_one_that_has_just_crashed_is_waited_for_by_its_successor(tables: None, clock: Clock) -> None:
    Lease("crashed", version=clock.milliseconds() - 1_000, delivered_through=5, ttl=2**31).save()
    tasks = Tasks(clock, "started")
    tasks.delivered["started"] = 0
    tasks.advance(4)
    assert tasks.as_seen_by("started") == ["crashed"]
    tasks.advance(1)
    assert tasks.as_seen_by("started") == ["started"]


def test_one_without_nodes_leaves_after_two_leases_and_comes_back_when_it_has_delivered_their_replay(
    tasks: Tasks,
) -> None:
    tasks.networks["one"] = 0
    tasks.advance(7)
    assert tasks.as_seen_by("two") == ["one", "three", "two"]
    tasks.advance(2)
    assert tasks.as_seen_by("one") == tasks.as_seen_by("two") == ["three", "two"]
    tasks.networks["one"] = 1
    tasks.advance(8)
    assert tasks.as_seen_by("one") == tasks.as_seen_by("two") == ["three", "two"]
    tasks.delivered["one"] += 1
    tasks.advance(2)
    assert tasks.as_seen_by("one") == tasks.as_seen_by("two") == ["one", "three", "two"]


def test_one_that_is_cut_off_from_a_network_leaves_it_to_those_that_are_not(tasks: Tasks) -> None:
    tasks.networks |= {"two": 2, "three": 2}
    tasks.advance(10)
    assert {tuple(tasks.as_seen_by(name)) for name in tasks.each} == {("three", "two")}


def test_a_network_that_nobody_is_connected_to_keeps_nobody_from_the_others(tasks: Tasks) -> None:
    tasks.networks |= dict.fromkeys(tasks.each, 2)
    tasks.advance(2)
    tasks.networks |= dict.fromkeys(tasks.each, 1)
    tasks.advance(10)
    assert {tuple(tasks.as_seen_by(name)) for name in tasks.each} == {("one", "three", "two")}


def test_one_with_a_gap_leaves_at_once_and_until_all_have_seen_it(tasks: Tasks) -> None:
    tasks.gaps.add("one")
    tasks.advance(1)
    tasks.gaps.clear()
    tasks.delivered["one"] += 1
    tasks.advance(3)
    assert {tuple(tasks.as_seen_by(name)) for name in tasks.each} == {("three", "two")}
    assert tasks.each["two"].delivered_through("one") == 7
    tasks.advance(2)
    assert {tuple(tasks.as_seen_by(name)) for name in tasks.each} == {("one", "three", "two")}


def test_one_whose_leaving_could_not_be_written_is_still_at_work(tasks: Tasks, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Lease.Meta, "table_name", "gone")
        with pytest.raises(PutError):
            tasks.each["one"].release(9)
    assert tasks.as_seen_by("one") == ["one", "three", "two"]


def test_one_alone_with_a_gap_stays(tables: None, clock: Clock) -> None:
    tasks = Tasks(clock, "alone")
    tasks.advance(1)
    tasks.gaps.add("alone")
    tasks.advance(1)
    assert tasks.as_seen_by("alone") == ["alone"]


def test_what_one_has_delivered_whose_clock_is_ahead_is_not_in_the_future(tables: None, clock: Clock) -> None:
    now = clock.milliseconds()
    Lease("ahead", version=now + 3_600_000, delivered_through=now + 3_600_000 - 5, ttl=2**31).save()
    Lease("behind", version=now - 1_000, delivered_through=now - 1_005, ttl=2**31).save()
    leases = Leases("me", SECONDS, clock)
    leases.renew(0, networks=0)
    assert [leases.delivered_through(name) for name in ("ahead", "behind")] == [now - 5, now - 1_005]


def test_a_lease_of_the_version_before_counts_while_it_is_renewed(tables: None, clock: Clock, sdk: AwsClients) -> None:
    leases = Leases("me", SECONDS, clock)
    for version in (41, 42):
        sdk.dynamodb.put_item(
            TableName="test-leases",
            Item={
                "name": {"S": "ingest"},
                "holder": {"S": "somebody"},
                "version": {"N": str(version)},
                "delivered_through": {"N": "7"},
            },
        )
        leases.renew(0, networks=0)
        clock.seconds += 1
    assert (list(leases.tasks), leases.delivered_through("ingest"), leases.all_delivered_through) == (["ingest"], 7, 7)
    clock.seconds += SECONDS
    assert list(leases.tasks) == []


def test_while_the_table_cannot_be_reached_each_works_for_all(tasks: Tasks, clock: Clock) -> None:
    Lease.delete_table()
    clock.seconds += SECONDS
    for leases in tasks.each.values():
        with pytest.raises((PutError, ScanError)):
            leases.renew(7, networks=1)
    assert [tasks.as_seen_by(name) for name in tasks.each] == [["one"], ["two"], ["three"]]


def test_a_row_of_a_task_that_is_no_more_is_removed_in_time(tasks: Tasks, clock: Clock) -> None:
    assert {int(row.ttl) - clock.milliseconds() // 1000 for row in Lease.scan()} == {86_400}
