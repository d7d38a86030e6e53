"""One relay, followed for as long as the task runs.

    connected ──▶ subscribed to all topics ──▶ to those that are added, within seconds
        │                                                   │ renewed: at once, with a new token
        └── lost, or a fault: see `ingest.sources.following` ◀┘

A message is acknowledged when the queue of commands has it, so the mailbox keeps what was in hand when a task ended. Each
task that is shown a message passes it on: the relay may have shown it to no other. What wallets do not send is our own, as
the relay has it, and is acknowledged unread.
"""

import asyncio
import logging
import re
from dataclasses import dataclass
from functools import partial
from ssl import SSLContext

from clarion.clock import now_ms
from clarion.decisions import EnvelopeDecision
from clarion.faults import AWS_ERRORS, describe
from clarion.metrics import decided
from clarion.networks.walletconnect.commands import RelayCommand, command_of, message_digest
from clarion.networks.walletconnect.relay import RelayClient, RelayMessage
from clarion.networks.walletconnect.relay_identity import subscriber_key
from clarion.networks.walletconnect.tags import WALLET_TAGS
from ingest.downstream import Downstream
from ingest.sources import SourceLost
from ingest.sources.following import follow_with_backoff, run_together
from ingest.sources.walletconnect.recent_messages import RecentMessages
from ingest.sources.walletconnect.session import RelaySession, connect
from ingest.sources.walletconnect.topic_subscriptions import TopicSubscriptions

_CLOCKS_MS = 5_000
"""How much the relay's clock may be behind ours."""
_MESSAGE_BYTES = 96 * 1024
"""Enough to mark as many notifications as read as one request may name (`acts.MAX_MARKED`)."""
_TOPIC = re.compile(r"[0-9a-f]{64}")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayAddress:
    """A relay, the project that it knows us under, and the authorities that vouch for it; None for the public ones."""

    url: str
    project_id: str
    certificates: SSLContext | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayTimeouts:
    """Seconds. `answer`: to a request. `renew`: the age at which a connection is replaced. `poll`: between two reads."""

    answer: float
    renew: float
    poll: float


class FollowedRelay:
    replays = None
    remaining = 0

    def __init__(self, *, address: RelayAddress, downstream: Downstream, timeouts: RelayTimeouts) -> None:
        self.name = address.url
        self._address = address
        self._downstream = downstream
        self._timeouts = timeouts
        self._client: RelayClient | None = None
        self._recent = RecentMessages()
        self._connected_at = 0
        """In UNIX milliseconds: what was published before waited in the mailbox."""

    @property
    def connected(self) -> bool:
        """Whether it has taken our subscriptions."""
        return not self._downstream.progress.is_away

    async def follow(self) -> None:
        """Connect, again and again. Whatever fails is logged and counted, and nothing is raised but a cancellation."""
        await follow_with_backoff(self.name, self._downstream, self._listen)

    async def _listen(self) -> None:
        """Take what it hands over until the connection is to be renewed. Raise `SourceFault`."""
        limit = asyncio.timeout(self._timeouts.renew)
        self._client = self._client or await self._identify()
        async with connect(self._client, self._address.certificates, self._timeouts.answer) as session:
            self._connected_at = now_ms()
            try:
                async with limit:
                    take = partial(self._take, session)
                    await run_together(
                        session.read_all(take), session.write_all(), self._follow_topics(session, self._client)
                    )
            except TimeoutError:
                if not limit.expired():
                    raise
            finally:
                self._downstream.progress.lost()

    async def _identify(self) -> RelayClient:
        """Raise `SourceLost` if our key can't be read."""
        try:
            key = await asyncio.to_thread(subscriber_key)
        except AWS_ERRORS as error:
            raise SourceLost(describe(error)) from None
        return RelayClient(self._address.url, self._address.project_id, key)

    async def _follow_topics(self, session: RelaySession, client: RelayClient) -> None:
        """Subscribe to all topics, and then to those that are added."""
        subscriptions = TopicSubscriptions(session, client)
        while True:
            began = now_ms()
            if await subscriptions.subscribe():
                self._note_subscribed()
            if self.connected:
                self._downstream.progress.answered(began)
            await asyncio.sleep(self._timeouts.poll)

    def _note_subscribed(self) -> None:
        # No envelope comes by this way, so there is no replay to wait for.
        if not self.connected:
            self._downstream.progress.replayed()
            log.info("relay subscribed", extra={"node": self.name})

    async def _take(self, session: RelaySession, message: RelayMessage) -> None:
        acknowledge = partial(session.acknowledge, message.id)
        if message.tag not in WALLET_TAGS:
            acknowledge()
            return
        if not _is_sound(message):
            self._downstream.counts[decided(EnvelopeDecision.MALFORMED)] += 1
            acknowledge()
            return
        digest = message_digest(message.topic, message.message)
        if self._recent.add(digest, acknowledge):
            await self._downstream.command(command_of(self._command(message)), partial(self._recent.queued, digest))

    def _command(self, message: RelayMessage) -> RelayCommand:
        return RelayCommand(
            topic=message.topic,
            message=message.message,
            tag=message.tag,
            published_at=message.published_at,
            replayed=message.published_at < self._connected_at - _CLOCKS_MS,
        )


def _is_sound(message: RelayMessage) -> bool:
    return _TOPIC.fullmatch(message.topic) is not None and len(message.message) <= _MESSAGE_BYTES
