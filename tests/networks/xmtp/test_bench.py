from bench.figures import best_microseconds
from bench.own_messages import check, check_bare


def test_whether_a_message_is_ones_own_takes_little_more_than_its_three_hmacs() -> None:
    """Beside one another on the same machine, however busy it is: ten microseconds are 2.2 of these on a quiet one."""
    assert best_microseconds(check(), turns=500) <= 2.2 * best_microseconds(check_bare, turns=500)
