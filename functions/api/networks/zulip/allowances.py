"""Allowances a minute, of which an instance counts a share by itself: what is seldom used up costs few writes.

    an instance's first share of an allowance    is free
    beyond                                       it takes from the table, which counts for all instances, a share at a time

So in a minute at least the allowance passes, and at most one share more for each instance.
"""

from collections.abc import Mapping
from concurrent.futures import Executor

from api import quotas
from api.quotas import Rate

SHARE = 10
"""A share is this part of an allowance."""
MINUTE = 60
"""Seconds."""


class Allowances:
    """Of one instance of the router."""

    def __init__(self) -> None:
        self._minute = 0
        self._left: dict[str, int] = {}

    def take(self, name: str, limit: int, now: int, amount: int = 1) -> int | None:
        """As `quotas.take`, of an allowance of `limit` a minute."""
        missing = self._missing(name, limit, now, amount)
        if missing and (wait := quotas.take(name, Rate(limit, MINUTE), now, missing)):
            return wait
        self._left[name] += missing - amount
        return None

    def refused(self, amounts: Mapping[str, int], limit: int, now: int, executor: Executor) -> set[str]:
        """Those of these names that have not so much left, of an allowance of `limit` a minute each; the others use it."""
        missing = {name: self._missing(name, limit, now, amount) for name, amount in amounts.items()}
        asked = [name for name, amount in missing.items() if amount]
        waits = executor.map(lambda name: quotas.take(name, Rate(limit, MINUTE), now, missing[name]), asked)
        refused = {name for name, wait in zip(asked, waits, strict=True) if wait}
        for name in amounts.keys() - refused:
            self._left[name] += missing[name] - amounts[name]
        return refused

    def _missing(self, name: str, limit: int, now: int, amount: int) -> int:
        """What has to be taken from the table first: nothing, or a share at least."""
        minute, share = now // 1000 // MINUTE, limit // SHARE
        if minute != self._minute:
            self._minute, self._left = minute, {}
        left = self._left.setdefault(name, share)
        return max(share, amount - left) if amount > left else 0
