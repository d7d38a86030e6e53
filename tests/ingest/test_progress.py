"""What a leader lets its standby let go of; each number is a time."""

import pytest

from ingest.lease.progress import DeliveryProgress

KEPT = 60


class Leader:
    """Its clock, when the envelopes were observed that it holds, and its one source."""

    def __init__(self) -> None:
        self.now = 0
        self.held: list[int] = []
        self.progress = DeliveryProgress(
            oldest_held=lambda: min(self.held, default=None), kept_ms=KEPT, clock=lambda: self.now
        )
        self.source = self.progress.add_source()

    def replays(self, at: int) -> None:
        self.now = at
        self.source.replayed()

    def is_shown(self, at: int, *, answered: int | None = None) -> None:
        """`answered`: when it asked the question to which its source has answered by now."""
        self.now = at
        self.source.shown_live()
        self.source.answered(at if answered is None else answered)

    @property
    def delivered_through(self) -> int:
        return self.progress.delivered_through


@pytest.fixture
def leader() -> Leader:
    return Leader()


def test_nothing_is_delivered_before_a_replay_is_over(leader: Leader) -> None:
    leader.now = 100
    assert leader.delivered_through == 0
    leader.replays(at=110)
    assert leader.delivered_through == 110


def test_what_is_held_is_not_delivered(leader: Leader) -> None:
    leader.replays(at=100)
    leader.held = [120, 130]
    leader.is_shown(at=130)
    assert leader.delivered_through == 120
    leader.held = []
    assert leader.delivered_through == 130


def test_time_stands_still_while_no_source_is_there(leader: Leader, monkeypatch: pytest.MonkeyPatch) -> None:
    leader.replays(at=100)
    leader.is_shown(at=130)
    assert leader.delivered_through == 130
    monkeypatch.setattr("ingest.lease.progress._AWAITED_SECONDS", -1.0)
    leader.source.lost()
    leader.now = 1000
    assert leader.delivered_through == 130


def test_in_silence_time_goes_on_until_the_standby_has_let_go_of_what_was_before_it(leader: Leader) -> None:
    leader.replays(at=100)
    leader.is_shown(at=130)
    leader.now = 150
    leader.source.answered(150)
    assert leader.delivered_through == 150
    leader.now = 1000
    leader.source.answered(1000)
    assert leader.delivered_through == 130 + KEPT


def test_what_lies_unread_in_a_socket_was_not_delivered(leader: Leader) -> None:
    """A statement from 130 is only now read, and more of them wait behind it."""
    leader.replays(at=100)
    leader.is_shown(at=1000, answered=120)
    assert leader.delivered_through == 120


def test_what_a_replay_brought_late_was_not_delivered_before_it_has_left(leader: Leader) -> None:
    """The standby was shown it live, any time since 130."""
    leader.replays(at=100)
    leader.is_shown(at=130)
    leader.held = [1000]
    leader.replays(at=1010)
    leader.is_shown(at=1020)
    assert leader.delivered_through == 130
    leader.held = [1015]
    assert leader.delivered_through == 1015


def test_a_second_replay_does_not_hide_what_the_first_one_brought(leader: Leader) -> None:
    leader.replays(at=100)
    leader.held = [1000]
    leader.replays(at=1010)
    leader.replays(at=1020)
    assert leader.delivered_through == 100


def test_a_source_that_is_lost_holds_time_back_for_a_while(leader: Leader) -> None:
    other = leader.progress.add_source()
    leader.replays(at=100)
    other.replayed()
    other.lost()
    leader.is_shown(at=130)
    assert leader.delivered_through == 100
