"""Which limits the deployment had, and when: what match loaded at each of its workers' starts, by the lake."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import itemgetter, or_
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from clarion.limiter import Limit
from clarion.networks import NETWORKS
from pipeline.in_force.known import known_files
from pipeline.in_force.limit_spans import LimitSpan, spans_of
from pipeline.lake.commits import LakeView
from pipeline.lake.schemas import SCHEMAS, EventKind
from pipeline.lake.small_tables import read_rows
from pipeline.period import FOREVER


@dataclass(frozen=True)
class PairLimits:
    """The limits of a pair over time; `grace` as in `LimitHistory`."""

    spans: Sequence[LimitSpan]
    grace: int = 0
    newest_first: bool = False

    @property
    def widest(self) -> Limit | None:
        limits = [span.limit for span in self.spans if span.limit]
        return max(limits, key=lambda limit: limit.window, default=None)

    def near(self, at: int) -> list[Limit | None]:
        """The limits that may have been in force at a time: more than one only next to a change."""
        if len(self.spans) == 1:
            return [self.spans[0].limit]
        near = list(dict.fromkeys(span.limit for span in self.spans if span.is_near(at, self.grace)))
        return near[::-1] if self.newest_first else near


@dataclass(frozen=True)
class LimitHistory:
    """The spans of each network, which together are all of time.

    `grace` is in milliseconds: so close to a change, a decision by either limit is right.
    """

    spans: Mapping[str, Sequence[LimitSpan]]
    grace: int = 0

    @property
    def reach(self) -> int:
        """Milliseconds after which what was decided has no bearing on any limit."""
        spans = [span for of_network in self.spans.values() for span in of_network]
        limits = [span.limit for span in spans if span.limit]
        longest = [*(limit.cooldown for limit in limits), *(span.cap.window for span in spans)]
        return max((limit.window for limit in limits), default=0) + max(longest)

    @property
    def widest_window(self) -> int:
        """Milliseconds, of any limit there was: a pair's or a subscription's."""
        return max(limit.window for limit in self._all)

    @property
    def least_count(self) -> int:
        """So many decisions have to come within a window that any limit may matter."""
        return min(limit.count for limit in self._all)

    @property
    def _all(self) -> list[Limit]:
        spans = [span for of_network in self.spans.values() for span in of_network]
        return [limit for span in spans for limit in (span.limit, span.cap) if limit]

    @property
    def caps(self) -> set[Limit]:
        return {span.cap for of_network in self.spans.values() for span in of_network}

    def of_pair(self, name: str, sender: bytes | None) -> PairLimits:
        """Whatever is without a sender has no limit for a pair."""
        spans = self.spans[name]
        return PairLimits(spans if sender is not None else [span._replace(limit=None) for span in spans], self.grace)

    def at(self, name: str, instant: int) -> LimitSpan:
        return next(span for span in self.spans[name] if span.is_near(instant, 0))

    def has_cap(self, cap: Limit) -> Column:
        """For rows with `network` and `at`: whether this cap was in force then, or nearly."""
        near = (
            (F.col("network") == name) & F.col("at").between(span.since - self.grace, _later(span.until, self.grace))
            for name, spans in self.spans.items()
            for span in spans
            if span.cap == cap
        )
        return reduce(or_, near, F.lit(False))


def limit_history(view: LakeView, since: int, now: int, grace: int = 0) -> LimitHistory:
    """What is known of the limits from `since` on; what is earlier is judged by the first of them.

    Each worker of match has a line for each network: they are few enough to be read without Spark.
    """
    files = known_files(view, EventKind.LIMITS, since, now)
    loaded = read_rows(view.root, files, to_arrow_schema(SCHEMAS[EventKind.LIMITS]))
    lines = sorted((line for line in loaded if line["at"] < now), key=itemgetter("at"))
    of_networks = {name: [line for line in lines if line["network"] == name] for name in NETWORKS}
    return LimitHistory({name: spans_of(name, _changes(some)) for name, some in of_networks.items()}, grace)


def _changes(lines: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Of one network's lines in order, the first, and those that say something else than the one before."""
    yield from lines[:1]
    yield from (line for before, line in pairwise(lines) if {**before, "at": 0} != {**line, "at": 0})


def _later(until: int, grace: int) -> int:
    """The last instant that is near a span, without overflowing."""
    return until if until == FOREVER else until + grace - 1
