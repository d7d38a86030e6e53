"""What docs/cost.md says of WalletConnect's notifications: no more than is measured, and what follows from it."""

from pathlib import Path

import pytest

from tests.ledger.amounts import AMOUNT, dearer
from tests.ledger.end_to_end import deployed_stages
from tests.ledger.walletconnect import AMOUNTS_TABLE, MEASURED_TIMES, SubscriberAmounts, bill_table, dollars, measure

PAGE = (Path(__file__).parents[2] / "docs" / "cost.md").read_text()
SLACK = {"sent": 1.1}
"""Lengths differ a little, with the numbers that are in them."""
AIM = 1.60
"""Dollars a million, at most."""


@pytest.fixture(scope="module")
def documented() -> SubscriberAmounts:
    return AMOUNTS_TABLE.read(PAGE)[AMOUNT]


def test_no_notification_costs_more_than_the_page_says(documented: SubscriberAmounts) -> None:
    with deployed_stages() as stages:
        measured = measure(stages, rounds=2)
    assert not dearer(measured, documented, times=MEASURED_TIMES, slack=SLACK)


def test_the_page_states_what_a_million_notifications_cost(documented: SubscriberAmounts) -> None:
    assert bill_table(documented) in PAGE
    assert dollars(documented)["**all in**"] <= AIM
