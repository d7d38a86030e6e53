"""One XMTP node, followed for as long as the task runs.

A node replays nothing: what it was shown while we were away, only the other nodes still show. What it shows is new, and
how far it has shown is known by our waiting: while we wait for it, everything that it sent has been taken in.
"""

import asyncio
import logging
import time
from dataclasses import dataclass, field

from clarion.clock import now_ms
from ingest.downstream import Downstream
from ingest.sources import SourceFault, SourceLost
from ingest.sources.following import follow_with_backoff
from ingest.sources.xmtp.budget import ByteBudget
from ingest.sources.xmtp.connection import EnvelopeStream, NodeAddress, subscribe

_CAUGHT_UP_SECONDS = 0.01
"""What lies unread in this process comes sooner than that."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeBounds:
    """`message_bytes`: of one envelope. `bytes_per_second`: of all, on average over some seconds.

    `answer`: the seconds in which a node has to be connected. `quiet`: the silence, in seconds, after which it is asked
    anew; twice as long each time that nothing came, up to `longest_quiet`. While no other node is connected, it is asked
    anew after twice `longest_quiet`.
    """

    message_bytes: int
    bytes_per_second: int
    answer: float
    quiet: float
    longest_quiet: float


@dataclass(slots=True, eq=False)
class _Subscription:
    """`waiting_since` is when the wait for its next envelope began, as `time.monotonic`; None while one is taken in."""

    limit: asyncio.Timeout = field(default_factory=lambda: asyncio.timeout(None))
    """Runs out when it has been silent for too long."""
    waiting_since: float | None = None


class XmtpNode:
    replays = None
    remaining = 0

    def __init__(self, *, name: str, address: NodeAddress, downstream: Downstream, bounds: NodeBounds) -> None:
        self.name = name
        self._address = address
        self._downstream = downstream
        self._bounds = bounds
        self._quiet = bounds.quiet
        self._subscription: _Subscription | None = None

    @property
    def connected(self) -> bool:
        """Whether it has answered the subscription."""
        return not self._downstream.progress.is_away

    async def follow(self) -> None:
        """Subscribe, again and again. Whatever fails is logged and counted, and nothing is raised but a cancellation."""
        await follow_with_backoff(self.name, self._downstream, self._listen)

    def check(self) -> None:
        """To be called every second or so: note how far it has shown, and end a subscription that shows nothing at all."""
        subscription = self._subscription
        if subscription is None or subscription.waiting_since is None:
            return
        waited = time.monotonic() - subscription.waiting_since
        if self.connected and waited >= _CAUGHT_UP_SECONDS:
            self._downstream.progress.answered(now_ms())
        if waited >= self._longest_silence:
            self._end(subscription)

    @property
    def _longest_silence(self) -> float:
        # Nodes fall silent together. Beyond any other's `longest_quiet`, what was asked anew before is back.
        return 2 * self._bounds.longest_quiet if self._downstream.progress.is_alone else self._quiet

    def _end(self, subscription: _Subscription) -> None:
        """It counts as lost at once, so that the node that is checked next is not ended, too."""
        self._downstream.progress.lost()
        self._subscription = None
        subscription.limit.reschedule(asyncio.get_running_loop().time())

    async def _listen(self) -> None:
        """Take what it shows, without end. Raise `SourceFault`."""
        bounds = self._bounds
        async with subscribe(self._address, message_bytes=bounds.message_bytes, seconds=bounds.answer) as stream:
            self._subscription = subscription = _Subscription(waiting_since=time.monotonic())
            try:
                async with subscription.limit:
                    await stream.answered()
                    self._resume()
                    await self._take_all(stream, subscription)
            except TimeoutError:
                if not subscription.limit.expired():
                    raise
                self._quiet = min(bounds.longest_quiet, self._quiet * 2)
                raise SourceLost("silent") from None
            finally:
                self._downstream.progress.lost()
                self._subscription = None

    def _resume(self) -> None:
        self._downstream.feed.reset()
        self._downstream.progress.resumed()
        log.info("node subscribed", extra={"node": self.name})

    async def _take_all(self, stream: EnvelopeStream, subscription: _Subscription) -> None:
        budget, progress = ByteBudget(self._bounds.bytes_per_second), self._downstream.progress
        while True:
            subscription.waiting_since, began = time.monotonic(), now_ms()
            raw = await stream.next()
            if time.monotonic() - subscription.waiting_since >= _CAUGHT_UP_SECONDS:
                progress.answered(began)
            subscription.waiting_since = None
            self._quiet = self._bounds.quiet
            progress.shown_live()
            await self._downstream.take([raw])
            await budget.spend(len(raw))
            if budget.is_exceeded and not progress.is_alone:
                raise SourceFault("more than its budget for long")
