"""One statement store node, followed for as long as the task runs."""

import asyncio
import logging
import random
import time
from urllib.parse import urlsplit

from clarion.metrics import Metric
from ingest.clock import now_ms
from ingest.counts import Counts
from ingest.initial_replay import InitialReplay
from ingest.intake import Intake
from ingest.progress import Progress
from ingest.protocol import NodeFault, NodeLost, Origin, Shown
from ingest.session import Patience, Session, subscribe
from ingest.source import Source

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 60.0
_FAULTY_PAUSE = 10.0
"""A node that breaks the protocol is left alone for longer than one that has merely gone."""
_STEADY_SECONDS = 60.0
_AWAITED_SECONDS = 180.0
"""How long a lost node holds the leader's time: twice the longest pause before it is tried again."""
_RESYNC_SECONDS = 600.0
"""For how long a node that shows too little is taken to be told by its peers what it has lost."""

log = logging.getLogger(__name__)


class Node:
    """What is known of the node: `session` is None while there is none.

    `*_since` and `*_at` are seconds of `time.monotonic`, `*_through` is in UNIX milliseconds.
    """

    def __init__(  # noqa: PLR0913 - each by name
        self,
        *,
        url: str,
        number: int,
        intake: Intake,
        progress: Progress,
        initial_replay: InitialReplay,
        counts: Counts,
        expected: int,
        patience: Patience,
        live_through: int,
    ) -> None:
        """`number` is from 1 on; `expected` is how many statements a complete replay should show, as far as we know.

        `live_through`: when the task that led before was last live; 0 if that is unknown.
        """
        self._url = url
        self._source = Source(number)
        self.name = _without_secrets(url)
        self.session: Session | None = None
        self.subscribed_at = 0.0
        self.last_shown_at = 0.0
        self.incomplete_since: float | None = time.monotonic()
        """Since when it has owed us a complete replay; None if it doesn't."""
        self.live = 0
        """How many live statements it has shown since the subscription."""
        self.complete_since = float("-inf")
        """When the subscription began whose replay was the last to be complete, and believable."""
        self.replayed_once = False
        self._small_replays_since: float | None = None
        """Since when its replays have been too small to be believed."""
        self._shown_through = 0
        """As of its last complete replay, or of the end of its last session if that was later."""
        self._away_since: float | None = self.incomplete_since
        """Since when it has been lost or replaying; None while it shows what is new."""
        self._live_through = live_through
        """By then it had shown all that was new; 0 if that is unknown. No other node's word counts."""
        self._may_have_missed = False
        """Whether this subscription is renewed because the node may have dropped it without a word."""
        self._intake = intake
        self._progress = progress
        self._counts = counts
        self._initial_replay = initial_replay
        self._replay = initial_replay.begin(initial=True)
        self._expected = expected
        self._patience = patience
        self._limit: asyncio.Timeout | None = None

    @property
    def shown_through(self) -> int | None:
        """UNIX milliseconds: what it had shown by then was taken in. None if it has been lost, or replaying, for long.

        Until then, what it would have shown is still to come, and perhaps from nobody else.
        """
        if self._away_since is not None and time.monotonic() - self._away_since > _AWAITED_SECONDS:
            return None
        return max(self._shown_through, (self.session and self.session.shown_through) or 0)

    def absent(self, seconds: float) -> bool:
        """Whether it has owed us a complete replay for so long that it isn't waited for."""
        return self.incomplete_since is not None and time.monotonic() - self.incomplete_since >= seconds

    async def follow(self) -> None:
        """Subscribe, again and again. Whatever fails is logged and counted, and nothing is raised but a cancellation."""
        pause = _FIRST_PAUSE
        while True:
            began = time.monotonic()
            least = await self._subscribe_once()
            if least is None:
                continue
            steady = time.monotonic() - began > _STEADY_SECONDS
            pause = least if steady else max(pause, least)
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - jitter
            pause = min(_LONGEST_PAUSE, pause * 2)

    def renew(self, reason: str, *, may_have_missed: bool = True) -> None:
        """Subscribe anew: the replay brings what the subscription `may_have_missed`."""
        if self._limit and self.session:
            self._may_have_missed = may_have_missed
            log.info("node renewed", extra={"node": self.name, "reason": reason})
            self._limit.reschedule(asyncio.get_running_loop().time())

    async def _subscribe_once(self) -> float | None:
        """Return for how long to leave the node alone, None if the subscription is to be renewed."""
        try:
            async with asyncio.timeout(None) as self._limit:
                await self._listen()
        except NodeFault as fault:
            self._counts[Metric.NODE_FAULTS] += 1
            log.warning("node lost", extra={"node": self.name, "reason": str(fault)}, exc_info=fault.__cause__)
            return _FIRST_PAUSE if isinstance(fault, NodeLost) else _FAULTY_PAUSE
        except Exception as error:
            if isinstance(error, TimeoutError) and self._limit and self._limit.expired():
                return None
            # All that the node can cause is a `NodeFault`, so this is a bug. It must not stop the other nodes.
            self._counts[Metric.INTERNAL_ERRORS] += 1
            log.exception("internal error", extra={"node": self.name})
            return _FAULTY_PAUSE
        raise AssertionError("a subscription ends by an exception")

    async def _listen(self) -> None:
        # Once it has shown all that stood at the start, what it replays has come since it was last live.
        self._replay = self._initial_replay.begin(initial=not self.replayed_once, since=self._live_through)
        self._source.reset()
        async with subscribe(self._url, self._patience) as session:
            self.session = session
            self._may_have_missed = False
            self.subscribed_at = self.last_shown_at = time.monotonic()
            self.live = 0
            log.info("node subscribed", extra={"node": self.name})
            try:
                while True:
                    await self._take(session, await session.next())
            finally:
                if not self._may_have_missed:
                    self._live_through = max(self._live_through, session.shown_through or 0)
                self._shown_through = self.shown_through or self._shown_through
                self._away_since = self._away_since or time.monotonic()
                self.session = None
                self.incomplete_since = self.incomplete_since or time.monotonic()

    async def _take(self, session: Session, shown: Shown) -> None:
        self.last_shown_at = time.monotonic()
        caught_up = not (session.replaying or shown.replay_done)
        live = caught_up or shown.origin is Origin.LIVE
        self.live += len(shown.statements) if live else 0
        if caught_up:
            self._progress.shown_live()
            self._live_through = now_ms()
        await self._intake.take(shown, self._source, None if live else self._replay)
        if shown.replay_done:
            self._progress.replayed()
            self._live_through = self._shown_through = now_ms()
            self._away_since = None
            self._complete_replay(session, announced=shown.origin is Origin.REPLAY)

    def _complete_replay(self, session: Session, *, announced: bool) -> None:
        """Believe a replay to be complete if the node says so, and if it isn't less than half of what it was.

        A node that lost its store shows next to nothing until its peers have told it everything again, however often
        it is asked meanwhile.
        """
        log.info("node replayed", extra={"node": self.name, "statements": session.replayed})
        self.replayed_once = True
        self._initial_replay.complete(self._source.number, self._replay)
        if not announced:
            return
        if session.replayed * 2 < self._expected and not self._replays_small_for(_RESYNC_SECONDS):
            return
        self.complete_since = self.subscribed_at
        self.incomplete_since = self._small_replays_since = None
        self._expected = session.replayed

    def _replays_small_for(self, seconds: float) -> bool:
        now = time.monotonic()
        self._small_replays_since = self._small_replays_since or now
        return now - self._small_replays_since > seconds


def _without_secrets(url: str) -> str:
    """Leave out user, path and query, in which operators of nodes have their API keys."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
