"""Which limits a network had, and when: what match loaded at each of its workers' starts, by the lake."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from typing import Any, NamedTuple

from clarion.limiter import SUBSCRIPTION_CAP, Limit
from clarion.networks import network
from pipeline.period import FOREVER


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
        """The least number of decisions within a window for which any limit may matter."""
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


def spans_of(name: str, starts: Iterable[Mapping[str, Any]]) -> tuple[LimitSpan, ...]:
    """All of time, by a network's lines of the kind `limits`.

    What came before the first known start is judged by that, and a network of which nothing is known by its own default.
    """
    in_order = sorted(starts, key=itemgetter("at"))
    begins = [0, *(start["at"] for start in in_order[1:]), FOREVER]
    spans = zip(pairwise(begins), in_order, strict=False)
    return tuple(LimitSpan(*span, *_limits(start)) for span, start in spans) or (default_span(name),)


def default_span(name: str) -> LimitSpan:
    return LimitSpan(0, FOREVER, network(name).limit, SUBSCRIPTION_CAP)


def _limits(start: Mapping[str, Any]) -> tuple[Limit | None, Limit]:
    parts = start["count"], start["window"], start["cooldown"]
    return None if None in parts else Limit(*parts), Limit(start["cap"], start["cap_window"], 0)
