"""What docs/cost.md says of SimpleX's messages: no more than is measured, and what follows from it."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from infra.alarms import NEWEST_LEDGER
from tests.ledger.amounts import dearer
from tests.ledger.end_to_end import deployed_stages
from tests.ledger.simplex import AMOUNTS_TABLE, MEASURED_TIMES, MessageAmounts, bill_table, measure

PAGE = (Path(__file__).parents[2] / "docs" / "cost.md").read_text()
SLACK = {"sent": 1.1, "streamed": 1.0, "logged": 1.05}
"""Lengths differ a little, with the numbers that are in them."""


@pytest.fixture(scope="module")
def documented() -> Mapping[str, MessageAmounts]:
    return AMOUNTS_TABLE.read(PAGE)


def test_no_message_costs_more_than_the_page_says(documented: Mapping[str, MessageAmounts]) -> None:
    with deployed_stages() as stages:
        measured = measure(stages, rounds=1)
    found = {name: dearer(one, documented[name], times=MEASURED_TIMES, slack=SLACK) for name, one in measured.items()}
    assert not {name: more for name, more in found.items() if more}


def test_the_page_states_what_a_million_messages_cost(documented: Mapping[str, MessageAmounts]) -> None:
    assert bill_table(documented) in PAGE


def test_what_a_limit_holds_back_costs_no_write(documented: Mapping[str, MessageAmounts]) -> None:
    assert documented["held back"].writes == documented["to nobody"].writes == 0


def test_the_alarm_goes_by_the_dearest_message(documented: Mapping[str, MessageAmounts]) -> None:
    assert max(one.writes for one in documented.values()) == NEWEST_LEDGER
