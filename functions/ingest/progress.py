"""How far this task has passed on what the nodes show: what a standby holds from before, it may let go of.

- live: each statement proves that everything until now was shown.
- silent or lost: time stands still, for the standby may be shown what this task is not.
- replaying: likewise. What the replay brings may be long known to the standby, so at its end time goes on only when
  all that came with it has left.
"""

from collections.abc import Callable

from ingest.clock import now_ms


class Progress:
    """Of the whole task, over all nodes; times are UNIX milliseconds."""

    def __init__(self, oldest_held: Callable[[], int | None], clock: Callable[[], int] = now_ms) -> None:
        """`oldest_held` tells when the oldest statement that is still in hand was observed."""
        self._oldest_held = oldest_held
        self._clock = clock
        self._shown_through = 0
        self._replayed_at = 0
        self._delivered_before_replay = 0
        self.replayed_once = False

    @property
    def delivered_through(self) -> int:
        oldest = self._oldest_held()
        if oldest is None:
            return self._shown_through
        return min(oldest, self._shown_through if oldest > self._replayed_at else self._delivered_before_replay)

    def shown_live(self) -> None:
        """Note that a node whose replay is over goes on, before what it shows is in hand."""
        self._shown_through = self._clock()

    def replayed(self) -> None:
        """Note that a node has shown all that it holds, once that is in hand."""
        self._delivered_before_replay = self.delivered_through
        self._replayed_at = self._shown_through = self._clock()
        self.replayed_once = True
