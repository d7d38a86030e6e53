"""What the report reckons with is what docs/cost.md says, which the ledger holds to what the code does."""

from pathlib import Path

import pytest

from clarion.decisions import EnvelopeDecision, NotificationDecision, PushDecision
from pipeline.report.tables import PER_DECISION, Units

PAGE = Path(__file__).parents[2] / "docs" / "cost.md"
RECORD = Units(records=1).dollars
QUEUED = ("envelope/matched", "notification/queued", "push/delivered")


def ledger() -> dict[str, list[float]]:
    """By path: read units, write units, SQS sends, dollars a million."""
    rows = PAGE.read_text().split("|---|--:|--:|--:|--:|\n")[1].split("\n\n")[0].splitlines()
    cells = (row.strip("| ").split(" | ") for row in rows)
    return {name: [float(figure) for figure in figures] for name, *figures in cells}


@pytest.mark.parametrize(
    ("path", "decisions"),
    [
        ("forged, malformed, expired", ("envelope/bad_signature",)),
        ("unmatched", ("envelope/unmatched",)),
        ("in cooldown", ("envelope/matched", "notification/rate_limited")),
        ("duplicate", ("envelope/matched", "notification/duplicate")),
        ("delivered to one, pair new to the worker", QUEUED),
    ],
)
def test_a_decision_costs_what_the_ledger_says(path: str, decisions: tuple[str, ...]) -> None:
    reads, writes, sent, _ = (sum(units) for units in zip(*(PER_DECISION[name] for name in decisions), strict=True))
    dollars = sum(PER_DECISION[name].dollars for name in decisions)
    of_dispatch = RECORD if decisions == QUEUED else 0  # the ledger is match's, and dispatch's read
    assert [reads, writes, sent, dollars - of_dispatch] == pytest.approx(ledger()[path], abs=0.0051)


def test_every_decision_has_its_price() -> None:
    stages = {"envelope": EnvelopeDecision, "notification": NotificationDecision, "push": PushDecision}
    assert set(PER_DECISION) == {f"{stage}/{decision}" for stage, words in stages.items() for decision in words}
