"""How many devices a server may have, counted as seldom as the limit allows: each count reads the server's whole index."""

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from clarion.tables import Subscription

SHARE = 10
"""A server is counted again once an instance has registered this part of what was left: so may ten of them at once."""
FULL_SECONDS = 60
"""A server with all its devices is counted no sooner again."""


@dataclass
class DeviceAllowance:
    """What a count has left to a server, and how many an instance has registered since. `counted_at` is in seconds."""

    left: int
    counted_at: float
    used: int = 0

    def is_current(self, now: float) -> bool:
        if self.left:
            return self.used < max(1, self.left // SHARE)
        return now < self.counted_at + FULL_SECONDS


class DeviceQuota:
    """Of one instance of the router. Indexes are a moment behind: registrations at once may be a few too many."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._allowances: dict[tuple[bytes, int], DeviceAllowance] = {}

    def take(self, client_id: bytes, most: int) -> bool:
        """Whether a server that may have `most` devices may register one more."""
        allowance = self._allowances.get((client_id, most))
        if allowance is None or not allowance.is_current(self._clock()):
            left = most - Subscription.by_client.count(client_id, limit=most)
            allowance = self._allowances[client_id, most] = DeviceAllowance(left, self._clock())
        allowance.used += 1
        return allowance.left > 0
