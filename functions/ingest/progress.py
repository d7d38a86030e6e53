"""How far this task has passed on what the nodes show: what a standby holds from before, it may let go of.

- live: each node is asked how far it has shown; what lies unread in its socket counts as not shown.
- silent: a node that answers may have dropped our subscription without a word, so time goes on for as long only as the
  standby keeps things anyway. By then it has let go of what it was shown before the silence.
- lost: time stands still for some minutes, even if other nodes are connected, for the standby may be shown by that
  node what this task is shown by none; after that, only if no node is left.
- replaying: likewise. What the replay brings may be long known to the standby, so at its end time goes on only when
  all that came with it has left.
"""

from collections.abc import Callable

from ingest.clock import now_ms


class Progress:
    """Of the whole task, over all nodes; times are UNIX milliseconds."""

    def __init__(
        self,
        *,
        oldest_held: Callable[[], int | None],
        shown_through: Callable[[], int | None],
        kept_ms: int,
        clock: Callable[[], int] = now_ms,
    ) -> None:
        """When the oldest statement in hand was observed; through when all nodes have shown what they had.

        `kept_ms`: for how long a standby keeps what it was shown.
        """
        self._oldest_held = oldest_held
        self._answered_through = shown_through
        self._kept_ms = kept_ms
        self._clock = clock
        self._shown_through = 0
        self._live_at = 0
        self._replayed_at = 0
        self._delivered_before_replay = 0

    @property
    def delivered_through(self) -> int:
        answered = self._answered_through()
        if answered is not None:
            self._shown_through = max(self._shown_through, min(answered, self._live_at + self._kept_ms))
        oldest = self._oldest_held()
        if oldest is None:
            return self._shown_through
        return min(oldest, self._shown_through if oldest > self._replayed_at else self._delivered_before_replay)

    def shown_live(self) -> None:
        """Note that a node whose replay is over goes on showing."""
        self._live_at = self._clock()

    def replayed(self) -> None:
        """Note that a node has shown all that it holds, once that is in hand, and before it counts as shown through now."""
        self._delivered_before_replay = self.delivered_through
        self._replayed_at = self._live_at = self._clock()
