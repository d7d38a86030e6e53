"""How a task's watermark advances; each number is a time."""

import pytest

from ingest.lease.progress import DeliveryProgress

KEPT = 60


class Forwarder:
    """Its clock, when the envelopes were observed that it holds, and its one source."""

    def __init__(self) -> None:
        self.now = 0
        self.held: list[int] = []
        self.progress = DeliveryProgress(
            oldest_held=lambda: min(self.held, default=None), kept_ms=KEPT, clock=lambda: self.now
        )
        self.source = self.progress.add_source("statements")

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
def forwarder() -> Forwarder:
    return Forwarder()


def test_nothing_is_delivered_before_a_replay_is_over(forwarder: Forwarder) -> None:
    forwarder.now = 100
    assert forwarder.delivered_through == 0
    forwarder.replays(at=110)
    assert forwarder.delivered_through == 110


def test_what_is_held_is_not_delivered(forwarder: Forwarder) -> None:
    forwarder.replays(at=100)
    forwarder.held = [120, 130]
    forwarder.is_shown(at=130)
    assert forwarder.delivered_through == 120
    forwarder.held = []
    assert forwarder.delivered_through == 130


def test_the_watermark_does_not_advance_without_a_source(forwarder: Forwarder, monkeypatch: pytest.MonkeyPatch) -> None:
    forwarder.replays(at=100)
    forwarder.is_shown(at=130)
    assert forwarder.delivered_through == 130
    monkeypatch.setattr("ingest.lease.progress._AWAITED_SECONDS", -1.0)
    forwarder.source.lost()
    forwarder.now = 1000
    assert forwarder.delivered_through == 130


def test_in_silence_the_watermark_advances_until_the_others_have_let_go_of_what_was_before_it(
    forwarder: Forwarder,
) -> None:
    forwarder.replays(at=100)
    forwarder.is_shown(at=130)
    forwarder.now = 150
    forwarder.source.answered(150)
    assert forwarder.delivered_through == 150
    forwarder.now = 1000
    forwarder.source.answered(1000)
    assert forwarder.delivered_through == 130 + KEPT


def test_what_lies_unread_in_a_socket_was_not_delivered(forwarder: Forwarder) -> None:
    """A statement from 130 is only now read, and more of them wait behind it."""
    forwarder.replays(at=100)
    forwarder.is_shown(at=1000, answered=120)
    assert forwarder.delivered_through == 120


def test_what_a_replay_brought_late_was_not_delivered_before_it_has_left(forwarder: Forwarder) -> None:
    """The others were shown it live, any time since 130."""
    forwarder.replays(at=100)
    forwarder.is_shown(at=130)
    forwarder.held = [1000]
    forwarder.replays(at=1010)
    forwarder.is_shown(at=1020)
    assert forwarder.delivered_through == 130
    forwarder.held = [1015]
    assert forwarder.delivered_through == 1015


def test_a_second_replay_does_not_hide_what_the_first_one_brought(forwarder: Forwarder) -> None:
    forwarder.replays(at=100)
    forwarder.held = [1000]
    forwarder.replays(at=1010)
    forwarder.replays(at=1020)
    assert forwarder.delivered_through == 100


def test_a_source_that_is_lost_holds_the_watermark_for_a_while(forwarder: Forwarder) -> None:
    other = forwarder.progress.add_source("statements")
    forwarder.replays(at=100)
    other.replayed()
    other.lost()
    forwarder.is_shown(at=130)
    assert forwarder.delivered_through == 100


def test_a_gap_in_a_network_without_replay_holds_the_watermark_until_others_have_what_fell_into_it(
    forwarder: Forwarder,
) -> None:
    one, other = (forwarder.progress.add_source("xmtp") for _ in range(2))
    forwarder.now = 100
    for source in (forwarder.source, one, other):
        source.replayed()
    one.lost()
    one.resumed()
    assert forwarder.delivered_through == 100
    one.lost()
    other.lost()
    forwarder.now = 130
    one.resumed()
    other.resumed()
    forwarder.source.replayed()
    assert forwarder.progress.has_gap
    assert forwarder.delivered_through == 100
    forwarder.progress.clear_gap()
    assert forwarder.delivered_through == 130
