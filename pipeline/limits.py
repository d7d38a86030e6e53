"""Which limits the deployment had, and when: what match loaded at each of its workers' starts, by the lake.

A network of which the lake has nothing is judged by its own default, and what came before the first known start by the
limits of that start.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import itemgetter, or_
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F

from clarion.limiter import SUBSCRIPTION_CAP, Limit
from clarion.networks import NETWORKS, network
from pipeline.known import known
from pipeline.lake import EventLake
from pipeline.period import FOREVER
from pipeline.schemas import EventKind


class LimitSpan(NamedTuple):
    """The limits of a network from `since` up to but without `until`. Without `limit` there is none for a pair."""

    since: int
    until: int
    limit: Limit | None
    cap: Limit

    def is_near(self, at: int, grace: int) -> bool:
        return self.since <= at + grace and at - grace < self.until


@dataclass(frozen=True)
class PairLimits:
    """The limits of a pair over time; `grace` as in `LimitHistory`."""

    spans: Sequence[LimitSpan]
    grace: int = 0
    newest_first: bool = False

    @property
    def least(self) -> int | None:
        """So many pass in any case; None if there never was a limit."""
        return min((span.limit.count for span in self.spans if span.limit), default=None)

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


def limit_history(lake: EventLake, since: int, now: int, grace: int = 0) -> LimitHistory:
    """What is known of the limits from `since` on; what is earlier is judged by the first of them."""
    loaded = known(lake, EventKind.LIMITS, since, now).where(F.col("at") < now)
    rows = sorted(changes(loaded).collect(), key=itemgetter("at"))
    loaded_spans = {name: tuple(_spans([row for row in rows if row["network"] == name])) for name in NETWORKS}
    return LimitHistory({name: spans or (default_span(name),) for name, spans in loaded_spans.items()}, grace)


def default_span(name: str) -> LimitSpan:
    return LimitSpan(0, FOREVER, network(name).limit, SUBSCRIPTION_CAP)


def changes(loaded: DataFrame) -> DataFrame:
    """Of the lake's kind `limits`, the first line of each network and those that say something else than the one before."""
    values = F.struct(*(name for name in loaded.columns if name not in {"at", "network"}))
    before = F.lag(values).over(Window.partitionBy("network").orderBy("at"))
    marked = loaded.withColumn("same", values.eqNullSafe(before))
    return marked.where(~F.col("same")).drop("same")


def _spans(rows: Sequence[Row]) -> Iterator[LimitSpan]:
    """Of one network's changes, in order."""
    begins = [0, *(row["at"] for row in rows[1:]), FOREVER]
    for row, (since, until) in zip(rows, pairwise(begins), strict=False):
        limit = None if row["count"] is None else Limit(row["count"], row["window"], row["cooldown"])
        yield LimitSpan(since, until, limit, Limit(row["cap"], row["cap_window"], 0))


def _later(until: int, grace: int) -> int:
    """The last instant that is near a span, without overflowing."""
    return until if until == FOREVER else until + grace - 1
