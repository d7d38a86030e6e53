"""From when to when a network had which limits, by what the lake says of the starts of match's workers."""

from collections.abc import Iterable, Mapping
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
