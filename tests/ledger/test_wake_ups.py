"""What docs/cost.md says of wake-ups: no more than is measured, and what follows from it."""

from pathlib import Path

import pytest

from infra.environments import PROD
from pipeline.prices import SCHEDULER, WRITE_UNIT
from tests.ledger.amounts import AMOUNT, dearer
from tests.ledger.end_to_end import deployed_stages
from tests.ledger.wake_ups import (
    AMOUNTS_TABLE,
    DISPATCHED,
    MEASURED_TIMES,
    MILLIONS,
    WakeUpAmounts,
    bill_table,
    dispatch_ms,
    measure,
)

PAGE = (Path(__file__).parents[2] / "docs" / "cost.md").read_text()
SLACK = {"sent": 1.1}
"""What a connection says for itself differs a little."""


@pytest.fixture(scope="module")
def documented() -> WakeUpAmounts:
    return AMOUNTS_TABLE.read(PAGE)[AMOUNT]


def test_no_wake_up_costs_more_than_the_page_says(documented: WakeUpAmounts) -> None:
    with deployed_stages() as stages:
        measured = measure(stages, rounds=1)
    assert not dearer(measured, documented, times=MEASURED_TIMES, slack=SLACK)


def test_the_page_states_what_a_million_subscribers_cost(documented: WakeUpAmounts) -> None:
    assert bill_table(documented) in PAGE


@pytest.mark.parametrize(
    ("instead", "price"), [("EventBridge Scheduler", SCHEDULER), ("rows sorted by when they are due", WRITE_UNIT)]
)
def test_the_page_states_what_the_alternatives_cost(instead: str, price: float) -> None:
    [row] = [line for line in PAGE.splitlines() if line.startswith(f"| {instead}")]
    assert row.endswith(f"| {MILLIONS * price:,.2f} |")


def test_the_page_states_how_fast_a_minutes_are_dispatched(documented: WakeUpAmounts) -> None:
    at_once, seconds = PROD.dispatch.of_held.concurrency, dispatch_ms(documented) / 1000
    assert f"At {seconds:.2f} s for a hundred, production's {at_once} at once" in " ".join(PAGE.split())
    assert f"{at_once * DISPATCHED / seconds // 100 * 100:,.0f} a second of each channel" in " ".join(PAGE.split())
