"""The topics that one connection subscribes to: all there are, then those that are added, but for those that have ended.

The table's index has them by when they were added or ended. What the relay refuses, topic by topic, is asked for again with
each reading. However many topics there are, no more of them are held at once than are asked for at once.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import batched

from clarion.clock import now_ms
from clarion.faults import AWS_ERRORS, describe
from clarion.networks.walletconnect.relay import (
    MOST_TOPICS,
    SUBSCRIBE,
    UNSUBSCRIBE,
    RelayClient,
    RelayFault,
    refused_topics,
)
from clarion.networks.walletconnect.topics import ended_since, topics_since
from ingest.sources import SourceFault
from ingest.sources.walletconnect.session import RelaySession

_OVERLAP_MS = 60_000
"""So long may a topic take from its `added_at` into the index, clocks that differ included."""
_AT_ONCE = 8
"""Requests: the relay answers each when all of its topics are subscribed to."""

log = logging.getLogger(__name__)


class TopicSubscriptions:
    def __init__(self, session: RelaySession, client: RelayClient) -> None:
        self._session = session
        self._client = client
        self._since = 0
        self._added: set[str] = set()
        self._ended: set[str] = set()
        """Those that the next reading finds again."""
        self._refused: set[str] = set()

    async def subscribe(self) -> bool:
        """To what has been added since the last time. False if that can't be read. Raise `SourceFault`."""
        began, refused, self._refused = now_ms(), self._refused, set()
        await self._ask(refused)
        try:
            added = await self._for_new(topics_since(self._since), self._added, self._ask)
            ended = await self._for_new(ended_since(self._since), self._ended, self._leave)
        except AWS_ERRORS as error:
            log.warning("topics not read", extra={"error": describe(error)})
            return False
        self._since, self._added, self._ended = began - _OVERLAP_MS, added, ended
        return True

    async def _for_new(
        self, topics: Iterator[str], known: set[str], act: Callable[[Iterable[str]], Awaitable[None]]
    ) -> set[str]:
        """Those of them that the next reading finds again."""
        pages, found = batched(topics, _AT_ONCE * MOST_TOPICS, strict=False), set[str]()
        while page := await asyncio.to_thread(next, pages, ()):
            await act([topic for topic in page if topic not in known])
            if self._since:
                found.update(page)
        return found

    async def _leave(self, topics: Iterable[str]) -> None:
        self._refused.difference_update(topics)
        for batch in batched(topics, MOST_TOPICS, strict=False):
            await self._session.ask(UNSUBSCRIBE, {"subscriptions": [*map(self._client.subscription_to, batch)]})

    async def _ask(self, topics: Iterable[str]) -> None:
        batches = batched(sorted(topics), MOST_TOPICS, strict=False)
        for refused in await asyncio.gather(*map(self._ask_for, batches)):
            if refused:
                log.warning("topics refused", extra={"count": len(refused)})
            self._refused.update(refused)

    async def _ask_for(self, topics: Sequence[str]) -> list[str]:
        """Those that are refused."""
        try:
            return refused_topics(topics, await self._session.ask(SUBSCRIBE, {"topics": topics}))
        except RelayFault as fault:
            raise SourceFault(str(fault)) from None
