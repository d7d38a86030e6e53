"""What `reconcile` leaves beside its differences, in the same commit: what it judged by, and what it could not judge."""

from collections.abc import Mapping
from dataclasses import asdict

import pyarrow as pa

from pipeline.report.summary import Tables
from pipeline.terms import DEFAULT, Terms

TERMS, SECRET = "terms", "secret"
JUDGED = (TERMS, SECRET)
"""The names of the tables. Of the notifications in `SECRET`, a secret condition alone says what was right."""
_TERMS = pa.schema([
    ("grace", pa.int64()), ("late", pa.int64()), ("lookback", pa.int64()), ("oversize", pa.string()),
])  # fmt: skip
_SECRET = pa.schema([("network", pa.string()), ("notifications", pa.int64())])


def tables_of(terms: Terms, oversize: str | None, secret: Mapping[str, int]) -> dict[str, pa.Table]:
    """`secret` counts the notifications by network; `oversize` is where large envelopes were read, if they were."""
    counts = [{"network": network, "notifications": count} for network, count in secret.items()]
    return {
        TERMS: pa.Table.from_pylist([{**asdict(terms), "oversize": oversize}], _TERMS),
        SECRET: pa.Table.from_pylist(counts, _SECRET),
    }


def judged_by(tables: Tables) -> tuple[Terms, str | None]:
    """The terms, and where large envelopes were read; the defaults if there is no reconciliation."""
    for row in tables.get(TERMS, ()):
        return Terms(row["grace"], row["late"], row["lookback"]), row["oversize"]
    return DEFAULT, None
