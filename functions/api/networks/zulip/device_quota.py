"""How many devices a server may have, counted as seldom as the limit allows: each count reads the server's whole index."""

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from clarion.tables import Subscription

SHARE = 10
"""A server's devices are counted again once an instance has registered this part of what was left."""
FULL_SECONDS = 60
"""Until the devices of a server that has them all are counted again."""


@dataclass
class DeviceAllowance:
    """How many devices a server had `left` when they were counted, and how many this instance has registered since.

    `counted_at` is in seconds.
    """

    left: int
    counted_at: float
    used: int = 0

    def is_current(self, now_s: float) -> bool:
        if self.left:
            return self.used < max(1, self.left // SHARE)
        return now_s < self.counted_at + FULL_SECONDS


class DeviceQuota:
    """Of one instance of the router. An index lags behind its table, so that registrations at once may be a few too many."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._allowances: dict[tuple[bytes, int], DeviceAllowance] = {}

    def allows_another(self, client_id: bytes, most: int) -> bool:
        """Whether a server that may have `most` devices may register one more, which is then counted as registered."""
        allowance = self._allowances.get((client_id, most))
        if allowance is None or not allowance.is_current(self._clock()):
            left = most - Subscription.by_client.count(client_id, limit=most)
            allowance = self._allowances[client_id, most] = DeviceAllowance(left, self._clock())
        allowance.used += 1
        return allowance.left > 0
