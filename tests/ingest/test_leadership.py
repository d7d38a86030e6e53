from collections.abc import Iterator
from typing import Any

import pytest
from pynamodb.exceptions import PutError

from clarion.tables import Lease
from ingest.lease.leadership import Leadership

SECONDS = 8.0


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def pair(tables: None, clock: Clock) -> Iterator[tuple[Leadership, Leadership]]:
    """A leader and its standby."""
    leader, standby = Leadership("one", SECONDS, clock), Leadership("other", SECONDS, clock)
    leader.renew(0)
    standby.renew(0)
    yield leader, standby
    assert not (leader.held and standby.held)


type Pair = tuple[Leadership, Leadership]


def test_one_of_two_leads(pair: Pair) -> None:
    leader, standby = pair
    assert (leader.held, standby.held) == (True, False)


def test_a_leader_that_renews_goes_on_leading(pair: Pair, clock: Clock) -> None:
    leader, standby = pair
    for _ in range(20):
        clock.now += SECONDS / 4
        leader.renew(0)
        standby.renew(0)
    assert (leader.held, standby.held, leader.tenure) == (True, False, 1)


def test_a_standby_takes_over_within_fifteen_seconds_and_never_while_the_leader_leads(pair: Pair, clock: Clock) -> None:
    leader, standby = pair
    waited = 0.0
    while not standby.held:
        clock.now += SECONDS / 4
        waited += SECONDS / 4
        standby.renew(0)
        assert not (leader.held and standby.held)
    assert waited <= 15 - SECONDS / 4
    assert standby.tenure > leader.tenure


def test_a_leader_that_was_paused_notices_before_it_asks(pair: Pair, clock: Clock) -> None:
    leader, _ = pair
    clock.now += SECONDS
    assert not leader.held


def test_a_leader_that_lost_its_lease_stands_by(pair: Pair, clock: Clock) -> None:
    leader, standby = pair
    clock.now += SECONDS
    standby.renew(0)
    leader.renew(0)
    assert (leader.held, standby.held) == (False, True)


def test_a_leader_that_was_paused_but_not_replaced_leads_again_in_a_new_tenure(pair: Pair, clock: Clock) -> None:
    leader, _ = pair
    clock.now += 100 * SECONDS
    leader.renew(0)
    assert leader.held
    assert leader.tenure == 2


def test_a_lease_that_is_given_back_is_taken_at_once(pair: Pair) -> None:
    leader, standby = pair
    leader.release(7)
    standby.renew(0)
    assert (leader.held, standby.held, standby.delivered_through) == (False, True, 7)


def test_a_standby_gives_nothing_back(pair: Pair) -> None:
    leader, standby = pair
    standby.release(7)
    leader.renew(0)
    assert (leader.held, standby.held) == (True, False)


def test_a_standby_knows_what_its_leader_has_passed_on(pair: Pair) -> None:
    leader, standby = pair
    leader.renew(1_700_000_000_000)
    standby.renew(0)
    assert standby.delivered_through == 1_700_000_000_000


class Counting(Leadership):
    """Counts its readings of the row."""

    readings = 0

    def _read(self) -> Lease | None:
        self.readings += 1
        return super()._read()


def test_a_leader_reads_the_row_only_before_it_leads(tables: None, clock: Clock) -> None:
    leader = Counting("one", SECONDS, clock)
    for _ in range(5):
        leader.renew(0)
        clock.now += SECONDS / 4
    leader.release(7)
    assert (leader.readings, int(Lease.get("ingest").version)) == (1, 6)


def test_a_leader_that_was_replaced_while_paused_finds_out_by_its_first_write(pair: Pair, clock: Clock) -> None:
    leader, standby = pair
    clock.now += SECONDS
    standby.renew(0)
    leader.renew(0)
    assert (leader.held, standby.held) == (False, True)
    leader.renew(0)
    assert Lease.get("ingest").holder == "other"


def test_a_leader_whose_write_was_done_but_not_answered_goes_on_leading(
    tables: None, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader = Leadership("one", SECONDS, clock)
    leader.renew(0)

    def save_and_time_out(lease: Lease, **condition: Any) -> None:
        save(lease, **condition)
        raise PutError("no answer")

    save = Lease.save
    with monkeypatch.context() as patch:
        patch.setattr(Lease, "save", save_and_time_out)
        with pytest.raises(PutError):
            leader.renew(0)
    clock.now += SECONDS / 4
    leader.renew(0)
    assert (leader.held, leader.tenure) == (True, 1)


def test_of_two_that_reach_for_it_at_once_one_gets_it(tables: None, clock: Clock) -> None:
    """Both have read the row before either writes."""

    class Slow(Leadership):
        def _read(self) -> Lease | None:
            row = super()._read()
            other.renew(0)
            return row

    one, other = Slow("one", SECONDS, clock), Leadership("other", SECONDS, clock)
    one.renew(0)
    assert (one.held, other.held) == (False, True)


def test_a_leader_whose_write_was_repeated_because_its_answer_was_late_goes_on_leading(
    tables: None, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def save_twice(lease: Lease, **condition: Any) -> None:
        save(lease, **condition)
        save(lease, **condition)

    leader = Leadership("one", SECONDS, clock)
    leader.renew(0)
    save = Lease.save
    clock.now += SECONDS / 4
    with monkeypatch.context() as patch:
        patch.setattr(Lease, "save", save_twice)
        leader.renew(0)
    clock.now += SECONDS * 3 / 4
    assert (leader.held, leader.tenure, int(Lease.get("ingest").version)) == (True, 1, 2)


def test_a_leader_without_nodes_lets_go_and_a_standby_with_nodes_takes_over_for_good(pair: Pair, clock: Clock) -> None:
    leader, standby = pair
    waited = 0.0
    while not standby.held:
        clock.now += SECONDS / 4
        waited += SECONDS / 4
        leader.renew(7, useful=False)
        standby.renew(0)
        assert not (leader.held and standby.held)
    assert (waited, standby.delivered_through) == (2 * SECONDS, 7)
    tenure = standby.tenure
    for _ in range(40):
        clock.now += SECONDS / 4
        leader.renew(0, useful=False)
        standby.renew(0)
    assert (leader.held, standby.held, standby.tenure) == (False, True, tenure)


def test_a_leader_that_is_soon_connected_again_goes_on_leading(pair: Pair, clock: Clock) -> None:
    leader, standby = pair
    for step in range(40):
        clock.now += SECONDS / 4
        leader.renew(0, useful=step % 8 == 7)
        standby.renew(0)
    assert (leader.held, leader.tenure) == (True, 1)


def test_the_lease_rests_while_nobody_is_connected_and_goes_to_the_first_who_is(pair: Pair, clock: Clock) -> None:
    leader, standby = pair
    for _ in range(40):
        clock.now += SECONDS / 4
        leader.renew(0, useful=False)
        standby.renew(0, useful=False)
    row = Lease.get("ingest")
    assert (leader.held, standby.held, row.holder) == (False, False, "")
    assert int(row.version) <= 10  # nobody has written since it was let go
    standby.renew(0)
    leader.renew(0)
    assert (leader.held, standby.held) == (False, True)


def test_of_a_dead_leader_and_a_standby_without_nodes_none_leads(pair: Pair, clock: Clock) -> None:
    leader, standby = pair
    for _ in range(40):
        clock.now += SECONDS / 4
        standby.renew(0, useful=False)
    assert (leader.held, standby.held) == (False, False)
    standby.renew(0)
    assert standby.held
