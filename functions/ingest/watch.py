"""Watches the subscriptions: a node drops a slow reader without a word, and may fall behind its peers."""

import asyncio
import random
import time
from collections.abc import Callable, Sequence

from ingest.node import Node

FEWEST = 20
"""Live statements in a window below which no node is judged by another."""

SLOW_SECONDS = 3.0
"""If reading is so far behind, it may have overrun the 128 events that a node keeps for a subscriber."""

CROWDED_SECONDS = 600.0
"""The age at which a subscription is renewed while too many statements are remembered: a replay tells which to forget."""


class Watch:
    """Renews a subscription that is old, quiet or was read slowly, or that showed less than half of what another did.

    A renewal costs a replay. So one at a time is renewed for its age alone; and whoever is doubted again is given twice
    as long, since a silent network makes all nodes look quiet, and one that makes things up makes the others look slow.
    """

    def __init__(  # noqa: PLR0913 - each by name
        self,
        nodes: Sequence[Node],
        crowded: Callable[[], bool],
        *,
        window: float,
        oldest: float,
        quiet: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Seconds: between two looks, the age at which a subscription is renewed anyway, and the silence after which it is doubted."""
        self._nodes = nodes
        self._crowded = crowded
        self._window = window
        self._oldest = oldest
        self._quiet = dict.fromkeys(nodes, quiet)
        self._shortest_quiet = quiet
        self._respite = dict.fromkeys(nodes, window)
        self._doubted_at = dict.fromkeys(nodes, float("-inf"))
        self._clock = clock
        self._before: dict[Node, tuple[float, int]] = {}

    async def forever(self) -> None:
        while True:
            await asyncio.sleep(self._window * random.uniform(0.9, 1.1))  # noqa: S311 - jitter
            self.look()

    def look(self) -> None:
        now = self._clock()
        shown = self._shown_in_window()
        best = max(shown.values(), default=0)
        caught_up = [node for node in self._nodes if node.session and not node.session.replaying]
        renewed = [node for node in caught_up if self._is_doubtful(node, now, best, shown.get(node))]
        oldest = min(caught_up, key=lambda node: node.subscribed_at, default=None)
        if oldest and oldest not in renewed and now - oldest.subscribed_at > self._longest:
            oldest.renew("old", may_have_missed=False)
        self._before = {node: (node.subscribed_at, node.live) for node in caught_up}

    @property
    def _longest(self) -> float:
        return min(CROWDED_SECONDS, self._oldest) if self._crowded() else self._oldest

    def _shown_in_window(self) -> dict[Node, int]:
        """Live statements since the last look, for those nodes that had caught up before it and are still subscribed."""
        return {
            node: node.live - live
            for node, (subscribed_at, live) in self._before.items()
            if node.session and node.subscribed_at == subscribed_at
        }

    def _is_doubtful(self, node: Node, now: float, best: int, shown: int | None) -> bool:
        """Renew it if so."""
        behind = shown is not None and best >= FEWEST and shown * 2 < best
        slow = node.session is not None and node.session.longest_wait > SLOW_SECONDS
        if (behind or slow) and self._has_no_respite(node, now):
            node.renew("behind" if behind else "slow")
            return True
        if node.live:
            self._quiet[node] = self._shortest_quiet
        if now - node.last_shown_at > self._quiet[node]:
            self._quiet[node] = min(self._oldest, self._quiet[node] * 2)
            node.renew("quiet")
            return True
        return False

    def _has_no_respite(self, node: Node, now: float) -> bool:
        since = now - self._doubted_at[node]
        if since < self._respite[node]:
            return False
        forgiven = since > self._oldest
        self._respite[node] = self._window if forgiven else min(self._oldest, self._respite[node] * 2)
        self._doubted_at[node] = now
        return True
