"""A month of a million pushes a day: all that is billed, of which each figure has one source."""

import re
from collections.abc import Mapping
from enum import Enum
from pathlib import Path

from infra.environments import PROD
from pipeline.prices import BACKUP_BYTE_MONTH, S3_BYTE_MONTH, TABLE_BYTE_MONTH
from tests.ledger.bill import ALONE, IN_TENS, STREAM, Amounts, Pace, at_rate, dollars

OPERATIONS = Path(__file__).parents[2] / "docs" / "operations.md"
DAYS = 30
PUSHES = 1_000_000
"""A day."""
PUSHES_A_SECOND = PUSHES / 86_400
LAKE_BYTES, CLAIM_BYTES = 800, 265
"""Of a push, zipped; and of its claim. By hand: docs/cost.md, "What is billed by the month"."""
MONTH_DAYS = 730 / 24
CLAIM_DAYS = 30
"""At most."""
MONTH_TABLE = "dollars a month, at a million pushes a day"


class Storage(Enum):
    """What a push leaves: bytes, for how many days, at so many dollars a million bytes and month."""

    LAKE = (LAKE_BYTES, PROD.lake_days, S3_BYTE_MONTH)
    CLAIMS = (CLAIM_BYTES, CLAIM_DAYS, TABLE_BYTE_MONTH + BACKUP_BYTE_MONTH)

    @property
    def dollars(self) -> float:
        """For a million pushes, until all they left is gone."""
        size, days, price = self.value
        return size * price * days / MONTH_DAYS


def month_table(measured: Mapping[str, Amounts]) -> str:
    """Spread evenly over the day, and as if each travelled with nine others."""
    of_pushes = [_of_pushes(measured, pace) for pace in (ALONE, IN_TENS)]
    same = {
        "an idle deployment": _stated(r"\| \*\*together\*\* \|  \| \*\*([\d.]+)\*\*"),
        "CloudFront and its firewall": _stated(r"\| CloudFront in front of the API[^\n]*\| ([\d.]+) \|\n"),
        f"the lake, once it has its {PROD.lake_days} days": _millions() * Storage.LAKE.dollars,
        f"claims, once they have their {CLAIM_DAYS} days": _millions() * Storage.CLAIMS.dollars,
    }
    rows = [(name, [each[name] for each in of_pushes]) for name in of_pushes[0]]
    rows += [(name, [each, each]) for name, each in same.items()]
    totals = [sum(round(each, 2) for each in column) for column in zip(*(figures for _, figures in rows), strict=True)]
    lines = [f"| {MONTH_TABLE} | spread evenly | in tens |", "|---|--:|--:|"]
    lines += [f"| {name} | {evenly:.2f} | {tens:.2f} |" for name, (evenly, tens) in rows]
    return "\n".join([*lines, f"| **together** | **{totals[0]:.2f}** | **{totals[1]:.2f}** |"])


def _of_pushes(measured: Mapping[str, Amounts], pace: Pace) -> dict[str, float]:
    billed = dollars(pace, at_rate(pace, measured[pace.name], PUSHES_A_SECOND))
    stream = _millions() * billed.pop(STREAM)
    return {f"{_millions()} million pushes": _millions() * sum(billed.values()), STREAM: stream}


def _millions() -> int:
    return DAYS * PUSHES // 1_000_000


def _stated(pattern: str) -> float:
    """By the operator's page, which a test holds against the templates."""
    found = re.search(pattern, OPERATIONS.read_text())
    assert found, pattern
    return float(found[1])
