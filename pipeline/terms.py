"""What is judged by, how the command line says it, and what `reconcile` says of it beside its differences."""

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any

import pyarrow as pa

from pipeline.period import HOUR_MS

TERMS, SECRET, UNREAD_ENVELOPES = "terms", "secret", "large"
JUDGED = (TERMS, SECRET, UNREAD_ENVELOPES)
"""Tables in the commit of the differences.

Of the notifications in `SECRET`, a secret condition says what was right; the envelopes in `UNREAD_ENVELOPES` are too
large for a message, and were not read for want of `--oversize`.
"""
_TERMS = pa.schema([
    ("grace", pa.int64()), ("late", pa.int64()), ("lookback", pa.int64()), ("oversize", pa.string()),
])  # fmt: skip
_SECRET = pa.schema([("network", pa.string()), ("notifications", pa.int64())])
_UNREAD_ENVELOPES = pa.schema([("network", pa.string()), ("envelopes", pa.int64())])
_OPTIONS = {
    "grace": (
        "--grace-seconds",
        1_000,
        "so close to a change of rules or an expiry, either decision is right; of limits, at least a quarter of an hour",
    ),
    "late": ("--late-seconds", 1_000, "a later delivery is a difference"),
    "lookback": ("--lookback-hours", HOUR_MS, "how far back to read decisions for claims that no snapshot has"),
}
"""For each of the terms: its option, the option's unit in milliseconds, and its help."""

DEPLOYED_MS = 15 * 60_000
"""So long around a change of limits two versions of match decide: a canary takes ten minutes (`infra/canary.py`)."""


@dataclass(frozen=True)
class Terms:
    """What to judge by; spans are milliseconds.

    `grace`: so close to a change of rules, or to the expiry of an envelope or a claim, either decision is right, since
    clocks differ and changes reach ingest late. `late`: a delivery that took longer is a difference. `lookback` is how
    far back decisions are read for their claims, if the day before has no snapshot of them.
    """

    grace: int = 15_000
    late: int = 60_000
    lookback: int = 24 * HOUR_MS

    @property
    def grace_of_limits(self) -> int:
        """So close to a change of limits either decision is right."""
        return max(self.grace, DEPLOYED_MS)

    def options(self, *names: str) -> list[str]:
        """The words of the command line that say those of `names`, or of all, which are not as by default."""
        values = {name: getattr(self, name) for name in names or _OPTIONS}
        others = {name: value for name, value in values.items() if value != getattr(DEFAULT, name)}
        words = ((option, str(others[name] // unit)) for name, (option, unit, _) in _OPTIONS.items() if name in others)
        return list(chain.from_iterable(words))


DEFAULT = Terms()


def add_options(job: ArgumentParser, names: Sequence[str] = tuple(_OPTIONS)) -> None:
    """The options for those of `names`."""
    for name in names:
        option, unit, text = _OPTIONS[name]
        default, metavar = getattr(DEFAULT, name) // unit, option.rpartition("-")[2].upper()
        help_ = f"{text}; default: %(default)s"
        job.add_argument(option, dest=name, metavar=metavar, type=int, default=default, help=help_)


def terms_of(options: Namespace) -> Terms:
    """As the command line says; by default what it has no option for."""
    given = {name: unit * getattr(options, name) for name, (_, unit, _) in _OPTIONS.items() if hasattr(options, name)}
    return Terms(**given)


def tables_of(
    terms: Terms, oversize: str | None, secret: Mapping[str, int], large: Mapping[str, int]
) -> dict[str, pa.Table]:
    """`secret` and `large` count by network; `oversize` is where large envelopes were read, if they were."""
    counts = [{"network": network, "notifications": count} for network, count in secret.items()]
    unread = [{"network": network, "envelopes": count} for network, count in large.items()]
    return {
        TERMS: pa.Table.from_pylist([{**asdict(terms), "oversize": oversize}], _TERMS),
        SECRET: pa.Table.from_pylist(counts, _SECRET),
        UNREAD_ENVELOPES: pa.Table.from_pylist(unread, _UNREAD_ENVELOPES),
    }


def judged_by(tables: Mapping[str, Sequence[Mapping[str, Any]]]) -> tuple[Terms, str | None]:
    """The terms, and where large envelopes were read; the defaults if there is no reconciliation."""
    for row in tables.get(TERMS, ()):
        return Terms(row["grace"], row["late"], row["lookback"]), row["oversize"]
    return DEFAULT, None
