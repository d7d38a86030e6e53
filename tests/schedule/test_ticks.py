"""What one minute remembers of those before it."""

import pytest

from schedule.ticks import begin
from tests.schedule.conftest import AT, Account


def test_the_first_minute_of_all_has_nothing_to_make_up_for(account: Account) -> None:
    assert begin(account.connection, AT) == AT - 1


@pytest.mark.parametrize("left_out", [0, 1, 5_000])
def test_minutes_that_were_left_out_are_made_up_for_once(account: Account, left_out: int) -> None:
    begin(account.connection, AT - left_out - 1)
    assert begin(account.connection, AT) == AT - left_out - 1
    assert begin(account.connection, AT + 1) == AT


@pytest.mark.parametrize("later", [0, 1, 60])
def test_a_minute_that_comes_again_or_too_late_is_that_minute_alone(account: Account, later: int) -> None:
    begin(account.connection, AT + later)
    assert begin(account.connection, AT) == AT - 1
    assert begin(account.connection, AT + later + 1) == AT + later
