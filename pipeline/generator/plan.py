"""What to make, and the dice: everything follows from the seed, except for the signatures, which are randomised."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from clarion.limiter import Limit
from clarion.networks import STATEMENTS
from pipeline.columns import EventKind
from pipeline.in_force.limits import LimitSpan, default_span
from pipeline.period import DAY_MS, HOUR_MS, Period

DICE = 10_000
NETWORK = STATEMENTS
"""Whose statements are made up; each other network's part is a module of its own."""

type Keep = Callable[[str, DataFrame], DataFrame]
"""Writes a step down by its name, and reads it back."""


class Made(NamedTuple):
    """A network's part of the day: the rows of each kind, but for `network`, and what a reconciliation should find."""

    network: str
    kinds: dict[EventKind, DataFrame]
    answers: DataFrame


@dataclass(frozen=True)
class Faults:
    """Shares are of 10,000. The outage is a span of the day, as fractions: what was observed in it was never decided.

    `lost` were queued but never tried; `undecided` matched but never decided for one subscription; `limited`,
    `misjudged`: dropped, by a limit that wasn't reached or as badly signed (or not wanted, where nothing is signed)
    though they weren't; `late`: delivered minutes later; `outstayed`: dropped by a claim that had ended. Pushed though
    they should not have been were `forged` statements, statements for rules that were `outlived`, `repeated`
    duplicates, `unwanted` reactions, and, if `overrun`, one notification of each flood.
    """

    outage: tuple[float, float] = (0, 0)
    lost: int = 0
    undecided: int = 0
    limited: int = 0
    misjudged: int = 0
    late: int = 0
    forged: int = 0
    outlived: int = 0
    repeated: int = 0
    unwanted: int = 0
    outstayed: int = 0
    overrun: bool = False


NO_FAULTS = Faults()
SOME_OF_EACH = Faults(
    outage=(0.60, 0.62),
    lost=20,
    undecided=20,
    limited=20,
    misjudged=20,
    late=20,
    forged=500,
    outlived=500,
    repeated=1_000,
    unwanted=500,
    outstayed=5_000,
    overrun=True,
)


@dataclass(frozen=True)
class Plan:
    """`start` is a full hour in UNIX milliseconds; statements and other networks' envelopes come from then on, for `hours`.

    `messages` are those of other networks. `earlier` statements come besides, which were shown first up to a month
    before. Of the receipts, `delayed` of 10,000 have their outcomes in the lake days later. `limits` are those that the
    deployment has for statements all the time.
    """

    start: int
    statements: int
    rules: int
    messages: int = 0
    hours: int = 24
    earlier: int = 0
    delayed: int = 0
    floods: int = 3
    seed: int = 1
    faults: Faults = field(default=NO_FAULTS)
    limits: LimitSpan = field(default_factory=lambda: default_span(NETWORK))

    @property
    def limit(self) -> Limit:
        if not self.limits.limit:
            raise ValueError("the network has no limit")
        return self.limits.limit

    @cached_property
    def senders(self) -> int:
        return max(30, self.rules // 5)

    @cached_property
    def strangers(self) -> int:
        """Senders that no rule names."""
        return max(10, self.statements // 20)

    @cached_property
    def clients(self) -> int:
        return max(4 * self.floods, self.rules // 6)

    @property
    def span(self) -> int:
        return self.hours * HOUR_MS

    @property
    def begun(self) -> int:
        """When people had their first rules."""
        return self.start - (_HISTORY_MS if self.earlier else DAY_MS)

    @property
    def period(self) -> Period:
        return Period(self.start, self.start + self.span)

    def moment(self, fraction: Column | float) -> Column:
        """A time of the day, from 0 (its start) to 1."""
        return (F.lit(self.start) + F.lit(self.span) * fraction).cast("long")

    def dice(self, game: str, *what: str) -> Column:
        """A throw from 0 to 9,999 for each `what`, in a game of its own."""
        return F.pmod(F.xxhash64(F.lit(f"{self.seed}/{game}"), *(F.col(name) for name in what)), F.lit(DICE))

    def chance(self, game: str, *what: str) -> Column:
        """A number from 0 up to but without 1."""
        fine = F.pmod(F.xxhash64(F.lit(f"{self.seed}/{game}"), *(F.col(name) for name in what)), F.lit(1 << 40))
        return fine / float(1 << 40)

    def key(self, kind: str, *what: str) -> Column:
        """32 bytes."""
        return F.unhex(F.sha2(F.concat_ws("/", F.lit(f"{self.seed}/{kind}"), *what), 256))

    def uuid(self, kind: str, *what: str) -> Column:
        digits = F.md5(F.concat_ws("/", F.lit(f"{self.seed}/{kind}"), *what))
        parts = [F.substr(digits, F.lit(start), F.lit(size)) for start, size in _UUID_PARTS]
        return F.concat_ws("-", *parts)


_HISTORY_MS = 40 * DAY_MS
_UUID_PARTS = ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))
