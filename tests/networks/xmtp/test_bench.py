from bench.figures import best_microseconds
from bench.own_messages import MOST_MICROSECONDS, check


def test_whether_a_message_is_ones_own_takes_a_subscriber_ten_microseconds_at_most() -> None:
    assert best_microseconds(check(), turns=500) <= MOST_MICROSECONDS
