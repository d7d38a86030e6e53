"""No pace may cost more than docs/cost.md says."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ledger.bill import (
    ALONE,
    AMOUNTS_TABLE,
    PACES,
    Amounts,
    Pace,
    all_in,
    at_rate,
    batch_at,
    bill_table,
    floor,
    last_line,
    memory_table,
)
from tests.ledger.end_to_end import EndToEnd, deployed_stages
from tests.ledger.month import PUSHES_A_SECOND, Storage, month_table
from tests.ledger.stopwatch import PROVIDER_WAIT, WAITS
from tests.ledger.whole_bill import MEASURED_TIMES, measure, naive

PAGE = (Path(__file__).parents[2] / "docs" / "cost.md").read_text()
FLOWING = " ".join(PAGE.split())
SLACK = {"logged": 1.1, "sent": 1.1}
"""Lengths differ a little, with the numbers that are in them and what a connection says for itself. The rest is rounded."""


@pytest.fixture(scope="module")
def stages() -> Iterator[EndToEnd]:
    with deployed_stages() as stages:
        yield stages


@pytest.fixture(scope="module")
def documented() -> dict[str, Amounts]:
    return AMOUNTS_TABLE.read(PAGE)


@pytest.mark.parametrize("pace", PACES, ids=lambda pace: pace.name)
def test_no_pace_costs_more_than_the_page_says(stages: EndToEnd, documented: dict[str, Amounts], pace: Pace) -> None:
    measured, limits = measure(stages, pace, rounds=3), documented[pace.name]
    dearer = {
        name: (getattr(measured, name), getattr(limits, name))
        for name in set(Amounts._fields) - MEASURED_TIMES
        if getattr(measured, name) > getattr(limits, name) * SLACK.get(name, 1.001)
    }
    assert not dearer


def test_the_page_adds_up(documented: dict[str, Amounts]) -> None:
    assert bill_table(documented) in PAGE
    assert last_line(documented) in PAGE


def test_the_page_states_a_month_of_a_million_a_day(documented: dict[str, Amounts]) -> None:
    assert month_table(documented) in PAGE
    lake, claims = Storage.LAKE.dollars, Storage.CLAIMS.dollars
    assert f"that is ${lake:.2f} a million" in FLOWING
    assert f"which is ${claims:.2f}" in FLOWING


def test_the_page_says_how_many_share_a_batch() -> None:
    shared = (f"{batch_at(pace):.2g}" for pace in (PUSHES_A_SECOND, 100, 450))
    assert "{} at 11.6 a second, {} at 100, {} from 450 on".format(*shared) in FLOWING


def test_the_page_says_what_pushes_cost_that_come_spread_evenly(documented: dict[str, Amounts]) -> None:
    evenly = at_rate(ALONE, documented[ALONE.name], PUSHES_A_SECOND)
    assert f"that makes ${all_in(ALONE, evenly):.2f} a million" in FLOWING


def test_the_page_says_what_time_costs(documented: dict[str, Amounts]) -> None:
    assert memory_table(documented) in PAGE
    assert (
        f"DynamoDB {WAITS['dynamodb']} ms, SQS {WAITS['sqs']}, Firehose {WAITS['firehose']}, a provider {PROVIDER_WAIT}"
    ) in FLOWING


def test_the_page_says_what_no_pace_can_do_without(documented: dict[str, Amounts]) -> None:
    alone, tens, one_pair = (floor(pace, documented[pace.name]) for pace in PACES)
    assert f"${alone:.2f} alone, ${tens:.2f} in tens and ${one_pair:.2f} for ten of one pair" in FLOWING


def test_the_naive_design_is_billed_by_the_units_that_the_page_states(documented: dict[str, Amounts]) -> None:
    alone = documented[PACES[0].name]
    billed = naive(alone, alone)
    for label, units in (("read units, with dispatch's", billed.reads), ("write units", billed.writes)):
        [row] = [line for line in PAGE.splitlines() if re.match(rf"\| {label} \|( [\d.]+ \|){{3}}$", line)]
        assert row.endswith(f"| {units:.2f} |")


def test_a_table_is_read_as_it_was_written(documented: dict[str, Amounts]) -> None:
    assert AMOUNTS_TABLE.text(documented.values()) in PAGE
