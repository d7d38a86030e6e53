"""Which subscriptions' rules changed lately: the index that match reads may not show it yet.

    the stream shows a change ── 15 s of the event loop's time, and all who wait for it have seen it ──▶ forgotten

While the event loop stands still, nobody sees a change. So a pause of any length counts as a moment here.
"""

from collections import deque
from collections.abc import Callable, Iterable

from clarion.clock import now_ms
from ingest.filter.fingerprints import Fingerprint

REMEMBERED_MS = 15_000
"""From when the stream showed a change. The index lags behind its table by less, and so does match behind ingest."""
LONGEST_STEP_MS = 1_000
"""As so much counts whatever passes between two calls of `forget`."""
MOST = 100_000
"""Changes; each takes some 300 bytes. Beyond it the oldest are forgotten early."""


class RuleChanges:
    """Rules that were written, by their keys. `count` is how many there ever were: it numbers them."""

    def __init__(self, most: int = MOST, clock: Callable[[], int] = now_ms) -> None:
        self._most = most
        self._clock = clock
        self._asked_at = clock()
        self._time = 0
        """In milliseconds, as far as the event loop was turning."""
        self._in_order: deque[tuple[int, int, Fingerprint]] = deque()
        """Number, time, key."""
        self._by_key: dict[Fingerprint, deque[tuple[int, int, str]]] = {}
        """Number, time, subscription."""
        self.count = 0

    def __len__(self) -> int:
        return len(self._in_order)

    def add(self, key: Fingerprint, subscription_id: str) -> None:
        self.count += 1
        self._in_order.append((self.count, self._time, key))
        self._by_key.setdefault(key, deque()).append((self.count, self._time, subscription_id))
        if len(self._in_order) > self._most:
            self._forget_oldest()

    def lately(self, keys: Iterable[Fingerprint]) -> list[str]:
        """The subscriptions that had a rule written for one of `keys` within the time that is remembered."""
        if not self._by_key:  # as nearly always, and this is the hot path
            return []
        after = self._time - REMEMBERED_MS
        found = (change for key in keys for change in self._by_key.get(key, ()))
        return sorted({subscription_id for _, time, subscription_id in found if time > after})

    def since(self, number: int, keys: Iterable[Fingerprint]) -> list[str]:
        """The subscriptions that had a rule written for one of `keys` by a change numbered higher, however long ago."""
        found = (change for key in keys for change in self._by_key.get(key, ()))
        return sorted({subscription_id for change, _, subscription_id in found if change > number})

    def forget(self, seen_through: int) -> None:
        """Forget what is old, of what is numbered up to `seen_through`. To be called often: by it, time passes here."""
        now = self._clock()
        self._time += min(max(0, now - self._asked_at), LONGEST_STEP_MS)
        self._asked_at = now
        while self._in_order:
            number, time, _ = self._in_order[0]
            if number > seen_through or time > self._time - REMEMBERED_MS:
                return
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        _, _, key = self._in_order.popleft()
        of_key = self._by_key[key]
        of_key.popleft()
        if not of_key:
            del self._by_key[key]
