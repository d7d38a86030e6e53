"""Watches the subscriptions: a node drops a slow reader without a word, and may fall behind its peers."""

import asyncio
import random
import time
from collections.abc import Callable, Sequence

from ingest.node import Node

FEWEST = 20
"""Live statements in a window below which no node is judged by another."""


CROWDED_SECONDS = 600.0
"""The age at which a subscription is renewed while too many statements are remembered: a replay tells which to forget."""


class Watch:
    """Renews a subscription that is old or quiet, or that showed less than half of what another did in a window."""

    def __init__(
        self, nodes: Sequence[Node], crowded: Callable[[], bool], *, window: float, oldest: float, quiet: float
    ) -> None:
        """Seconds: between two looks, the age at which a subscription is renewed anyway, and the silence after which it is doubted."""
        self._nodes = nodes
        self._crowded = crowded
        self._window = window
        self._oldest = oldest
        self._quiet = dict.fromkeys(nodes, quiet)
        self._shortest_quiet = quiet
        self._before: dict[Node, tuple[float, int]] = {}

    async def forever(self) -> None:
        while True:
            await asyncio.sleep(self._window * random.uniform(0.9, 1.1))  # noqa: S311 - jitter
            self.look()

    def look(self) -> None:
        now = time.monotonic()
        shown = self._shown_in_window()
        best = max(shown.values(), default=0)
        for node in self._nodes:
            if reason := self._doubt(node, now, best, shown.get(node)):
                node.renew(reason)
        self._before = {node: (node.subscribed_at, node.live) for node in self._nodes if node.session}

    def _shown_in_window(self) -> dict[Node, int]:
        """Live statements since the last look, for those nodes that have been subscribed since before it."""
        return {
            node: node.live - live
            for node, (subscribed_at, live) in self._before.items()
            if node.session and node.subscribed_at == subscribed_at
        }

    def _doubt(self, node: Node, now: float, best: int, shown: int | None) -> str | None:
        if not node.session or node.session.remaining:
            return None
        if now - node.subscribed_at > (min(CROWDED_SECONDS, self._oldest) if self._crowded() else self._oldest):
            return "old"
        if shown is not None and best >= FEWEST and shown * 2 < best:
            return "behind"
        if node.live:
            self._quiet[node] = self._shortest_quiet
        if now - node.last_shown_at > self._quiet[node]:
            # Where nothing happens, asking ever more often would only replay the same again.
            self._quiet[node] = min(self._oldest, self._quiet[node] * 2)
            return "quiet"
        return None
