"""What docs/cost.md says of wake-ups: reckoned from the ledger's row, the prices and what is deployed."""

import re
from pathlib import Path

import pytest

from infra.environments import PROD
from pipeline.prices import (
    FIREHOSE_BYTE,
    FIREHOSE_RECORD_BYTES,
    GIGABYTE_SECOND,
    INVOCATION,
    READ_UNIT,
    SCHEDULER,
    SQS_REQUEST,
    WRITE_UNIT,
)
from tests.match.ledger import DISPATCH_READ, WOKEN, read_table

PAGE = (Path(__file__).parents[2] / "docs" / "cost.md").read_text()
MILLIONS = 1_000_000 * (30 * 1440 // 20) / 1_000_000
"""Of wake-ups in a month."""
SLOT_READ = 0.0165
"""Units that a wake-up takes of its slot's, as `tests.match.ledger.woken` measures."""
CPU_S, DISPATCH_S = 150e-6, 0.6
BATCH = 10
"""Messages of one request to SQS."""
INVOKED = PROD.dispatch.of_held.batch
EVENT_RECORDS = 9
"""Of 5 KB, for the events of an invocation."""


def stated(section: str) -> list[float]:
    """The last column of the table below a header."""
    table = PAGE.partition(f"| {section} | dollars a month |\n")[2].partition("\n\n")[0]
    return [
        float(figure.replace(",", "")) for figure in re.findall(r"\| \**([\d,]+\.\d\d)\** \|$", table, re.MULTILINE)
    ]


def test_the_page_states_what_a_million_subscribers_cost() -> None:
    own = [
        SLOT_READ * READ_UNIT,
        SQS_REQUEST / BATCH,
        CPU_S * PROD.schedule.memory_mb / 1024 * GIGABYTE_SECOND,
    ]
    dispatch = [
        DISPATCH_READ * READ_UNIT,
        2 * SQS_REQUEST / BATCH,
        (INVOCATION + DISPATCH_S * PROD.dispatch.size.memory_mb / 1024 * GIGABYTE_SECOND) / INVOKED,
        EVENT_RECORDS * FIREHOSE_RECORD_BYTES * FIREHOSE_BYTE / INVOKED,
    ]
    figures = [*own, sum(own), *dispatch, sum(own) + sum(dispatch)]
    assert stated("for a million subscribers") == [round(MILLIONS * each, 2) for each in figures]


def test_the_page_states_what_the_alternatives_cost() -> None:
    assert stated("instead of fixed slots") == [round(MILLIONS * each, 2) for each in (SCHEDULER, WRITE_UNIT)]


def test_a_slot_takes_as_many_units_as_the_ledger_says() -> None:
    row = read_table(PAGE)[f"woken, of {WOKEN:,} in a minute, each"]
    assert row.reads == pytest.approx(DISPATCH_READ + SLOT_READ, abs=0.005)
    assert (row.writes, row.sent) == (0, 1 / BATCH)


def test_the_page_states_how_fast_a_minutes_are_sent() -> None:
    at_once = PROD.dispatch.of_held.concurrency
    assert f"production's {at_once} at once" in PAGE
    assert f"{at_once * INVOKED / DISPATCH_S // 100 * 100:,.0f} a second of each channel" in PAGE
