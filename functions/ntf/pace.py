"""How often something may be done."""

from dataclasses import dataclass


@dataclass(slots=True)
class Pace:
    """At most `burst` at once, and then `per_second`. Times are in seconds, of any clock that never goes back."""

    per_second: float
    burst: int
    _whole_at: float = 0.0
    """When the whole burst is there again."""

    def until(self, now: float, count: int = 1) -> float:
        """Seconds until the last of the next `count` may go."""
        tolerance = (self.burst - 1) / self.per_second
        return max(0.0, max(self._whole_at, now) + (count - 1) / self.per_second - tolerance - now)

    def spend(self, now: float, count: int = 1) -> None:
        self._whole_at = max(self._whole_at, now) + count / self.per_second

    def take(self, now: float) -> bool:
        """Whether the next one may go now; it is counted if so."""
        return take_all((self,), now)


def take_all(paces: tuple[Pace, ...], now: float) -> bool:
    """Whether the next one may go now by each of them; it is counted by all if so, and else by none."""
    may_go = not any(pace.until(now) for pace in paces)
    if may_go:
        for pace in paces:
            pace.spend(now)
    return may_go
