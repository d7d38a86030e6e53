"""Spans of time, and the hours that the lake is divided by: across the ends of days, months and years."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.arguments import parse
from pipeline.explain.trail import days_back
from pipeline.lake.snapshots import day_of, snapshot_name
from pipeline.period import DAY_MS, EVER, HOUR_MS, Period, hour_path, hour_runs, hour_start, instant_text
from pipeline.report.about import About
from pipeline.report.layout import full_hours

INSTANTS = st.integers(1_500_000_000_000, 2_500_000_000_000)
PERIODS = st.builds(lambda start, length: Period(start, start + length), INSTANTS, st.integers(1, 5 * DAY_MS))


def at(*when: int) -> int:
    return int(datetime(*when, tzinfo=UTC).timestamp() * 1000)  # type: ignore[misc,arg-type] # year, month, day, hour


@pytest.mark.parametrize(
    ("last", "first"),
    [
        ((2026, 11, 30, 23), (2026, 12, 1, 0)),
        ((2026, 12, 31, 23), (2027, 1, 1, 0)),
        ((2028, 2, 28, 23), (2028, 2, 29, 0)),
        ((2027, 2, 28, 23), (2027, 3, 1, 0)),
    ],
)
def test_hours_go_on_across_months_and_years(last: tuple[int, ...], first: tuple[int, ...]) -> None:
    across = Period(at(*last), at(*first) + HOUR_MS)
    hours = [f"{year}-{month:02}-{day:02}/{hour:02}" for year, month, day, hour in (last, first)]
    assert list(across.hours()) == hours
    assert all(across.has_hour(hour) for hour in hours)
    assert [across.has_day(hour[:10]) for hour in hours] == [True, True]
    assert not across.has_hour(hour_path(across.end))


@given(PERIODS)
def test_a_period_has_the_hours_that_it_lists_and_no_others(period: Period) -> None:
    listed = list(period.hours())
    around = Period(period.start - 2 * HOUR_MS, period.end + 2 * HOUR_MS)
    assert [hour for hour in around.hours() if period.has_hour(hour)] == listed
    assert {hour[:10] for hour in around.hours() if period.has_day(hour[:10])} == {hour[:10] for hour in listed}
    assert full_hours(period) == [hour_start(hour) for hour in listed]


@given(PERIODS)
def test_the_end_of_a_period_is_not_in_it(period: Period) -> None:
    full = Period(period.start, period.end // HOUR_MS * HOUR_MS + HOUR_MS)
    assert not full.has_hour(hour_path(full.end))
    assert full.has_hour(hour_path(full.end - 1))


@given(INSTANTS, INSTANTS)
def test_hours_sort_like_time(one: int, other: int) -> None:
    if one // HOUR_MS < other // HOUR_MS:
        assert hour_path(one) < hour_path(other)


@given(INSTANTS)
def test_every_hour_is_ever(instant: int) -> None:
    assert EVER.has_hour(hour_path(instant))
    assert EVER.has_day(hour_path(instant)[:10])


@given(PERIODS)
def test_days_back_are_the_whole_period_the_youngest_first(period: Period) -> None:
    days = list(days_back(period))
    assert days[0].end == period.end
    assert days[-1].start == period.start
    assert [day.start for day in days[:-1]] == [day.end for day in days[1:]]
    assert all(day.start // DAY_MS == (day.end - 1) // DAY_MS for day in days)


@pytest.mark.parametrize(
    ("day", "name"),
    [((2026, 3, 1), "2026-03-01"), ((2028, 2, 29), "2028-02-29"), ((2026, 12, 31), "2026-12-31")],
)
def test_a_days_snapshot_has_its_date_at_any_time_of_the_day(day: tuple[int, ...], name: str) -> None:
    for instant in (at(*day), at(*day) + DAY_MS - 1):
        assert snapshot_name("rules", day_of(instant)) == f"snapshots/rules/day={name}"


@given(PERIODS)
def test_a_period_in_a_command_is_read_as_it_was(period: Period) -> None:
    words = About(period=period, lake="/var/lake", now=0, made=0).replay().split()
    assert parse(words[1:]).period == period


def test_a_period_is_written_to_the_second() -> None:
    assert str(Period(at(2026, 12, 31), at(2027, 1, 1))) == "2026-12-31 00:00:00 to 2027-01-01 00:00:00"
    assert instant_text(at(2026, 12, 31) + 999) == "2026-12-31 00:00:00"


def test_hours_one_after_the_other_are_one_text() -> None:
    hours = [hour_path(at(2026, 11, 20, 21) + number * HOUR_MS) for number in (0, 2, 3, 5, 6, 7)]
    assert list(hour_runs(hours)) == ["2026-11-20/21", "2026-11-20/23 to 2026-11-21/00", "2026-11-21/02 to 04"]
    assert list(hour_runs(hours[:0])) == []
