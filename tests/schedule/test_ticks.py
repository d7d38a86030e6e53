"""What one minute remembers of those before it."""

import pytest

from schedule.ticks import begin
from tests.schedule.conftest import AT

pytestmark = pytest.mark.usefixtures("account")


def test_the_first_minute_of_all_has_nothing_to_make_up_for() -> None:
    assert begin(AT) == AT - 1


@pytest.mark.parametrize("left_out", [0, 1, 5_000])
def test_minutes_that_were_left_out_are_made_up_for_once(left_out: int) -> None:
    begin(AT - left_out - 1)
    assert begin(AT) == AT - left_out - 1
    assert begin(AT + 1) == AT


def test_a_minute_that_comes_again_makes_up_for_the_same() -> None:
    begin(AT - 10)
    assert begin(AT) == begin(AT) == AT - 10


@pytest.mark.parametrize("later", [1, 60])
def test_a_minute_that_comes_too_late_is_that_minute_alone(later: int) -> None:
    begin(AT + later)
    assert begin(AT) == AT - 1
    assert begin(AT + later + 1) == AT + later


def test_what_was_made_up_for_is_repeated_although_the_next_minutes_have_begun() -> None:
    begin(AT - 4)
    assert begin(AT) == AT - 4
    assert [begin(AT + 1), begin(AT + 2)] == [AT, AT + 1]
    assert begin(AT) == AT - 4
