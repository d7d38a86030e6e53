"""What a leader tells its standby to let go of; each number is a time."""

import pytest

from ingest.progress import Progress


class Leader:
    """Its clock, and when the statements were observed that it holds."""

    def __init__(self) -> None:
        self.now = 0
        self.held: list[int] = []
        self.progress = Progress(lambda: min(self.held, default=None), lambda: self.now)

    def replays(self, at: int) -> None:
        self.now = at
        self.progress.replayed()

    def is_shown(self, at: int) -> None:
        self.now = at
        self.progress.shown_live()

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


def test_time_stands_still_while_no_node_shows_anything(leader: Leader) -> None:
    leader.replays(at=100)
    leader.is_shown(at=130)
    leader.now = 1000
    assert leader.delivered_through == 130


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
