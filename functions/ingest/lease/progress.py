"""The task's watermark: all that its sources showed before `delivered_through` has been delivered.

Once it passes what other tasks hold of this task's shards, they let go of that. It does not advance

- for three minutes after a source is lost: that source may have shown the others what this task is shown by none.
  After that it advances by the sources that are left, if any are;
- during a replay, until what it brought has been delivered: the others may hold that since long before;
- after a gap in a network without replay, until this task has left: what came while none of the network's sources was
  connected was shown to others alone, and they take it in as it leaves.

A live source says how far it has shown; what lies unread in a node's socket counts as not shown. A node that answers
may have dropped its subscription without an error. So while no source shows anything, the watermark advances for only
as long as the others hold things anyway: by then they have let go of what they were shown before the silence.

    sources ──▶ SourceProgress ──▶ DeliveryProgress ──▶ lease
                                        │
                              what is held: outboxes, unmatched
"""

import time
from collections.abc import Callable

from clarion.clock import now_ms

_AWAITED_SECONDS = 180.0
"""How long a lost source holds the watermark: twice the longest pause before a node is tried again."""


class SourceProgress:
    """How far one source has shown what it has; its source says so. Times are UNIX milliseconds."""

    def __init__(self, whole: "DeliveryProgress", network: str) -> None:
        self._whole = whole
        self.network = network
        self._shown_through = 0
        self._away_since: float | None = time.monotonic()
        """Since when it has been lost or replaying; None while it shows what is new."""

    @property
    def shown_through(self) -> int | None:
        """What it had shown by then was taken in. None if it has been lost, or replaying, for long.

        Until then, what it would have shown is still to come, and perhaps from nobody else.
        """
        if self._away_since is not None and time.monotonic() - self._away_since > _AWAITED_SECONDS:
            return None
        return self._shown_through

    def shown_live(self) -> None:
        """It goes on showing, after its replay."""
        self._whole.shown_live()

    def answered(self, shown_through: int) -> None:
        """What it had shown by then was taken in."""
        self._shown_through = max(self._shown_through, shown_through)

    def replayed(self) -> None:
        """It has shown all that it holds, and that is in hand."""
        self._whole.replayed()
        self._shown_through = self._whole.clock()
        self._away_since = None

    def resumed(self) -> None:
        """As `replayed`, of one that replays nothing."""
        if self.is_alone:
            self._whole.record_gap()
        self.replayed()

    @property
    def is_away(self) -> bool:
        return self._away_since is not None

    @property
    def is_alone(self) -> bool:
        """Whether no other source of its network is there, so that nobody shows what this one doesn't."""
        return not self._whole.has_another(self)

    def lost(self) -> None:
        self._away_since = self._away_since or time.monotonic()


class DeliveryProgress:
    """Of the whole task, over all sources; times are UNIX milliseconds."""

    def __init__(
        self, *, oldest_held: Callable[[], int | None], kept_ms: int, clock: Callable[[], int] = now_ms
    ) -> None:
        """`oldest_held`: when the oldest envelope in hand was observed. `kept_ms`: how long others keep what they saw."""
        self._oldest_held = oldest_held
        self._kept_ms = kept_ms
        self.clock = clock
        self._sources: list[SourceProgress] = []
        self._shown_through = 0
        self._live_at = 0
        self._replayed_at = 0
        self._delivered_before_replay = 0
        self._gap_after: int | None = None
        """Through when was delivered before the gap; None without one."""

    def add_source(self, network: str) -> SourceProgress:
        source = SourceProgress(self, network)
        self._sources.append(source)
        return source

    def has_another(self, source: SourceProgress) -> bool:
        """Whether another source of the same network is there."""
        others = (other for other in self._sources if other is not source)
        return any(other.network == source.network and not other.is_away for other in others)

    @property
    def has_gap(self) -> bool:
        """Whether others may have been shown what this task was not."""
        return self._gap_after is not None

    def record_gap(self) -> None:
        self._gap_after = self.delivered_through

    def clear_gap(self) -> None:
        """To be called once this task has left, so that others take in what fell into the gap, or if there are none."""
        self._gap_after = None

    @property
    def delivered_through(self) -> int:
        if self._gap_after is not None:
            return self._gap_after
        answered = [source.shown_through for source in self._sources if source.shown_through is not None]
        if answered:
            self._shown_through = max(self._shown_through, min(*answered, self._live_at + self._kept_ms))
        oldest = self._oldest_held()
        if oldest is None:
            return self._shown_through
        return min(oldest, self._shown_through if oldest > self._replayed_at else self._delivered_before_replay)

    def shown_live(self) -> None:
        self._live_at = self.clock()

    def replayed(self) -> None:
        """To be called before the source counts as having shown through now."""
        self._delivered_before_replay = self.delivered_through
        self._replayed_at = self._live_at = self.clock()
