"""Watches the subscriptions: a node drops a slow reader without a word, and may fall behind its peers."""

import asyncio
import random
import time
from collections.abc import Callable, Sequence

from ingest.sources.statements.node import Node, NodeSubscription, State

FEWEST = 20
"""Live statements in a window below which no node is judged by another."""

SLOW_SECONDS = 3.0
"""If reading is so far behind, it may have overrun the 128 events that a node keeps for a subscriber."""

CROWDED_SECONDS = 600.0
"""The age at which a subscription is renewed while too many statements are remembered: a replay shows which to forget."""


class SubscriptionWatch:
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
        self._before: dict[Node, tuple[NodeSubscription, int]] = {}

    async def forever(self) -> None:
        while True:
            await asyncio.sleep(self._window * random.uniform(0.9, 1.1))  # noqa: S311 - jitter
            self.look()

    def look(self) -> None:
        now = self._clock()
        shown = self._shown_in_window()
        best = max(shown.values(), default=0)
        live = {node: node.subscription for node in self._nodes if node.subscription and node.state is State.LIVE}
        renewed = [node for node, one in live.items() if self._is_doubtful(node, one, now, best, shown.get(node))]
        oldest = min(live, key=lambda node: live[node].began, default=None)
        if oldest and oldest not in renewed and now - live[oldest].began > self._longest:
            oldest.renew("old", may_have_missed=False)
        self._before = {node: (one, one.live) for node, one in live.items()}

    @property
    def _longest(self) -> float:
        return min(CROWDED_SECONDS, self._oldest) if self._crowded() else self._oldest

    def _shown_in_window(self) -> dict[Node, int]:
        """Live statements since the last look, for those nodes that had caught up before it and are still subscribed."""
        return {
            node: subscription.live - live
            for node, (subscription, live) in self._before.items()
            if node.subscription is subscription
        }

    def _is_doubtful(
        self, node: Node, subscription: NodeSubscription, now: float, best: int, shown: int | None
    ) -> bool:
        """Renew it if so."""
        behind = shown is not None and best >= FEWEST and shown * 2 < best
        slow = subscription.session.longest_wait > SLOW_SECONDS
        if (behind or slow) and self._has_no_respite(node, now):
            node.renew("behind" if behind else "slow")
            return True
        if subscription.live:
            self._quiet[node] = self._shortest_quiet
        if now - subscription.last_shown_at > self._quiet[node]:
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
