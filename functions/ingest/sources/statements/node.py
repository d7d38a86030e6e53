"""One statement store node, followed for as long as the task runs.

    ┌──────┐ subscribed ┌───────────┐ the replay has ended ┌──────┐
    │ AWAY │───────────▶│ REPLAYING │─────────────────────▶│ LIVE │
    └──────┘            └───────────┘                      └──────┘
       ▲  ▲ renewed: at once  │                                │ renewed: at once
       │  └───────────────────┴────────────────────────────────┤
       └── lost, or a fault: see `ingest.sources.following` ───┘

- AWAY: there is no `NodeSubscription`. A lost one holds the task's watermark, see `ingest.lease.progress`.
- REPLAYING: what it shows is as old as the time since it was last live, unless it says itself that it is live.
- LIVE: what it shows is new. It is asked every few seconds how far it has shown: `Session`.
"""

import asyncio
import logging
import time
from enum import Enum
from urllib.parse import urlsplit

from clarion.clock import now_ms
from ingest.downstream import Downstream
from ingest.memory.initial_replay import Replay
from ingest.sources.following import follow_with_backoff
from ingest.sources.replays import Replays
from ingest.sources.statements.protocol import Origin, Shown
from ingest.sources.statements.session import NodeTimeouts, Session, subscribe

log = logging.getLogger(__name__)


class State(Enum):
    AWAY = "away"
    REPLAYING = "replaying"
    LIVE = "live"


class NodeSubscription:
    """One connection's, from its beginning to its end; times are those of `time.monotonic`."""

    def __init__(self, session: Session, replay: Replay) -> None:
        self.session = session
        self.replay = replay
        self.began = self.last_shown_at = time.monotonic()
        self.live = 0
        """How many live statements it has shown."""
        self.may_have_missed = False
        """Whether it is renewed because the node may have dropped it without a word."""
        self.limit = asyncio.timeout(None)
        """Runs out when it is to be renewed."""


class Node:
    def __init__(self, *, url: str, downstream: Downstream, timeouts: NodeTimeouts) -> None:
        self._url = url
        self._downstream = downstream
        self._timeouts = timeouts
        self.name = _without_secrets(url)
        self.subscription: NodeSubscription | None = None
        self.replays = Replays(downstream.expected)
        self._live_through = downstream.live_through
        """UNIX milliseconds. By then it had shown all that was new; 0 if that is unknown. No other node's word counts."""

    @property
    def state(self) -> State:
        if self.subscription is None:
            return State.AWAY
        return State.REPLAYING if self.subscription.session.replaying else State.LIVE

    @property
    def connected(self) -> bool:
        return self.state is not State.AWAY

    @property
    def remaining(self) -> int:
        return self.subscription.session.remaining if self.subscription else 0

    async def follow(self) -> None:
        """Subscribe, again and again. Whatever fails is logged and counted, and nothing is raised but a cancellation."""
        await follow_with_backoff(self.name, self._downstream, self._listen)

    def renew(self, reason: str, *, may_have_missed: bool = True) -> None:
        """Subscribe anew: the replay brings what the subscription `may_have_missed`."""
        if self.subscription:
            log.info("node renewed", extra={"node": self.name, "reason": reason})
            self.subscription.may_have_missed = may_have_missed
            self.subscription.limit.reschedule(asyncio.get_running_loop().time())

    async def _listen(self) -> None:
        """Take what it shows until the subscription is renewed. Raise `SourceFault`."""
        # Once it has shown all that it held at the start, what it replays has come since it was last live.
        replay = self._downstream.begin(initial=not self.replays.any_ended, since=self._live_through)
        async with subscribe(self._url, self._timeouts, self._downstream.progress.answered) as session:
            self.subscription = subscription = NodeSubscription(session, replay)
            log.info("node subscribed", extra={"node": self.name})
            try:
                async with subscription.limit:
                    while True:
                        await self._take(subscription, await session.next())
            except TimeoutError:
                if not subscription.limit.expired():
                    raise
            finally:
                self._leave(subscription)

    async def _take(self, subscription: NodeSubscription, shown: Shown) -> None:
        subscription.last_shown_at = time.monotonic()
        caught_up = not (subscription.session.replaying or shown.replay_done)
        live = caught_up or shown.origin is Origin.LIVE
        if live:
            subscription.live += len(shown.statements)
        if caught_up:
            self._downstream.progress.shown_live()
            self._live_through = now_ms()
        replay = None if live else subscription.replay
        await self._downstream.take(shown.statements, replay, unreadable=shown.unreadable)
        if shown.replay_done:
            self._end_replay(subscription, announced=shown.origin is Origin.REPLAY)

    def _end_replay(self, subscription: NodeSubscription, *, announced: bool) -> None:
        """REPLAYING → LIVE."""
        count = subscription.session.replayed
        self._downstream.progress.replayed()
        self._live_through = now_ms()
        log.info("node replayed", extra={"node": self.name, "statements": count})
        self._downstream.end(subscription.replay)
        self.replays.ended(count, subscribed_at=subscription.began, announced=announced)

    def _leave(self, subscription: NodeSubscription) -> None:
        """REPLAYING or LIVE → AWAY."""
        if not subscription.may_have_missed:
            self._live_through = max(self._live_through, subscription.session.shown_through or 0)
        self._downstream.progress.lost()
        self.replays.lost()
        self.subscription = None


def _without_secrets(url: str) -> str:
    """Leave out user, path and query, in which operators of nodes have their API keys."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
