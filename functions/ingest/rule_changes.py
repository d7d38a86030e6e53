"""Which subscriptions' rules changed lately: the index that match reads may not show it yet."""

from collections import deque
from collections.abc import Callable, Iterable

from ingest.clock import now_ms
from ingest.fingerprints import Fingerprint

REMEMBERED_MS = 15_000
"""From when the stream showed a change. The index lags behind its table by less, and so does match behind ingest.

It is longer than a statement may get a second look, see `forwarded`, unless the table's stream lags behind.
"""
MOST = 100_000
"""Changes; each takes some 250 bytes. Beyond it the oldest are forgotten early."""


class RuleChanges:
    """Rules that were written, by pair of sender and topic. `count` is how many there ever were: it numbers them."""

    def __init__(self, most: int = MOST, clock: Callable[[], int] = now_ms) -> None:
        self._most = most
        self._clock = clock
        self._in_order: deque[tuple[int, Fingerprint]] = deque()
        self._by_pair: dict[Fingerprint, deque[tuple[int, str]]] = {}
        self.count = 0

    def __len__(self) -> int:
        return len(self._in_order)

    def add(self, pair: Fingerprint, subscription_id: str) -> None:
        self.count += 1
        self._in_order.append((self._clock(), pair))
        self._by_pair.setdefault(pair, deque()).append((self.count, subscription_id))
        if len(self._in_order) > self._most:
            self._forget_oldest()

    def of(self, pairs: Iterable[Fingerprint], after: int = 0) -> list[str]:
        """The subscriptions that had a rule written for one of `pairs`, by a change numbered higher than `after`."""
        oldest = self._clock() - REMEMBERED_MS
        while self._in_order and self._in_order[0][0] <= oldest:
            self._forget_oldest()
        found = (change for pair in pairs for change in self._by_pair.get(pair, ()))
        return sorted({subscription_id for number, subscription_id in found if number > after})

    def _forget_oldest(self) -> None:
        _, pair = self._in_order.popleft()
        of_pair = self._by_pair[pair]
        of_pair.popleft()
        if not of_pair:
            del self._by_pair[pair]
