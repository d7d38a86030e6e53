"""What docs/cost.md says of WalletConnect's notifications: no more than is measured, and what follows from it."""

from pathlib import Path

import pytest

from tests.ledger.amounts import dearer
from tests.ledger.end_to_end import deployed_stages
from tests.ledger.walletconnect import MEASURED_TIMES, SubscriberAmounts, dollars, dollars_table, measure, read_amounts

PAGE = (Path(__file__).parents[2] / "docs" / "cost.md").read_text()
SLACK = {"sent": 1.1}
"""Lengths differ a little, with the numbers that are in them."""
AIM = 1.60
"""Dollars a million, at most."""


@pytest.fixture(scope="module")
def documented() -> SubscriberAmounts:
    return read_amounts(PAGE)


def test_no_notification_costs_more_than_the_page_says(documented: SubscriberAmounts) -> None:
    with deployed_stages() as stages:
        measured = measure(stages, rounds=2)
    assert not dearer(measured, documented, times=MEASURED_TIMES, slack=SLACK)


def test_the_page_states_what_a_million_notifications_cost(documented: SubscriberAmounts) -> None:
    assert dollars_table(documented) in PAGE
    assert dollars(documented)["**all in**"] <= AIM
