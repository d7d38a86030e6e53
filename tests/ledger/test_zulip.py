"""What docs/cost.md says of Zulip's pushes: no more than is measured, and what follows from it."""

from pathlib import Path

import pytest

from tests.ledger.amounts import AMOUNT, dearer
from tests.ledger.end_to_end import deployed_stages
from tests.ledger.zulip import AMOUNTS_TABLE, MEASURED_TIMES, NotifyAmounts, bill_table, dollars, measure

PAGE = (Path(__file__).parents[2] / "docs" / "cost.md").read_text()
SLACK = {"logged": 1.1, "sent": 1.1}
"""Lengths differ a little, with the numbers that are in them and what a connection says for itself."""
AIM = 0.90
"""Dollars a million, at most."""


@pytest.fixture(scope="module")
def documented() -> NotifyAmounts:
    return AMOUNTS_TABLE.read(PAGE)[AMOUNT]


def test_no_push_costs_more_than_the_page_says(documented: NotifyAmounts) -> None:
    with deployed_stages() as stages:
        measured = measure(stages, rounds=2)
    assert not dearer(measured, documented, times=MEASURED_TIMES, slack=SLACK)


def test_the_page_states_what_a_million_pushes_cost(documented: NotifyAmounts) -> None:
    assert bill_table(documented) in PAGE
    assert dollars(documented)["**all in**"] <= AIM
