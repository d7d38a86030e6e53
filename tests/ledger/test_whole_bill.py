"""No pace may cost more than docs/cost.md says."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ledger.journey import Journey, journeying
from tests.ledger.whole_bill import (
    MEASURED_TIMES,
    PACES,
    Amounts,
    Pace,
    amounts_table,
    dollars_table,
    last_line,
    measure,
    read_amounts,
)

PAGE = (Path(__file__).parents[2] / "docs" / "cost.md").read_text()
SLACK = 1.02
"""Lengths differ a little with the numbers that are in them."""


@pytest.fixture(scope="module")
def journey() -> Iterator[Journey]:
    with journeying() as journey:
        yield journey


@pytest.fixture(scope="module")
def documented() -> dict[str, Amounts]:
    return read_amounts(PAGE)


@pytest.mark.parametrize("pace", PACES, ids=lambda pace: pace.name)
def test_no_pace_costs_more_than_the_page_says(journey: Journey, documented: dict[str, Amounts], pace: Pace) -> None:
    measured, limits = measure(journey, pace, rounds=1), documented[pace.name]
    dearer = {
        name: (getattr(measured, name), getattr(limits, name))
        for name in set(Amounts._fields) - MEASURED_TIMES
        if getattr(measured, name) > getattr(limits, name) * SLACK
    }
    assert not dearer


def test_the_page_adds_up(documented: dict[str, Amounts]) -> None:
    assert dollars_table(documented) in PAGE
    assert last_line(documented) in PAGE


def test_a_table_is_read_as_it_was_written(documented: dict[str, Amounts]) -> None:
    assert amounts_table(documented) in PAGE
