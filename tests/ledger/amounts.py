"""What the ledgers of wake-ups and of Zulip share: measured amounts are tuples with a field for each."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

ROUNDING = 0.0005
"""The pages have three digits."""


def most[Amounts: NamedTuple](found: Sequence[Amounts], times: Collection[str]) -> Amounts:
    """The most of each count, the least of each time, which other work only delays."""
    kind = type(found[0])
    return kind(*((min if name in times else max)(getattr(one, name) for one in found) for name in kind._fields))


def dearer[Amounts: NamedTuple](
    measured: Amounts, documented: Amounts, *, times: Collection[str], slack: Mapping[str, float]
) -> dict[str, tuple[float, float]]:
    """What is more than documented, beside that. Times depend on the machine, and are not compared."""
    return {
        name: (amount, limit)
        for name, amount, limit in zip(measured._fields, measured, documented, strict=True)
        if name not in times and amount > limit * slack.get(name, 1) + ROUNDING
    }
