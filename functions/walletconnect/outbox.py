"""What leaves the worker: messages for the relay, envelopes for match, events for the lake."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from clarion import sqs
from clarion.command_queue import MayPassError
from clarion.event_log import EventLog
from clarion.events import EnvelopeObserved
from clarion.messages import EnvelopeMessage
from clarion.networks.walletconnect.needs import MAILBOXES_FULL, PUBLISHES_FAILED
from clarion.networks.walletconnect.relay import Publication
from clarion.networks.walletconnect.relay_publisher import PublishOutcome
from clarion.sqs import SqsMessage

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

RELAY_FAILED = "the relay does not take it"


class MessagePublisher(Protocol):
    """`RelayPublisher`, or a test's own."""

    def publish(self, publications: Sequence[Publication]) -> list[PublishOutcome]: ...


class NotSent(MayPassError):  # noqa: N818 - it says what was met
    """The relay or the queue may take later what it did not take now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyOutbox:
    """`counts` are those of one invocation, by metric."""

    relay: MessagePublisher
    sqs: "SQSClient"
    envelopes_queue_url: str
    events: EventLog
    counts: Counter[str] = field(default_factory=Counter)

    def publish(self, *publications: Publication) -> None:
        """All of them, or raise `NotSent`: then all are to be published again."""
        if not all(self.try_publish(publications)):
            raise NotSent(RELAY_FAILED)

    def try_publish(self, publications: Sequence[Publication]) -> list[bool]:
        """Of each, whether it is done with. What the relay will never take is."""
        outcomes = self.relay.publish(publications) if publications else []
        counted = Counter(outcomes)
        self.counts[PUBLISHES_FAILED] += counted[PublishOutcome.REFUSED] + counted[PublishOutcome.FAILED]
        self.counts[MAILBOXES_FULL] += counted[PublishOutcome.MAILBOX_FULL]
        return [outcome is not PublishOutcome.FAILED for outcome in outcomes]

    def forward(self, envelopes: Sequence[EnvelopeMessage]) -> None:
        """To match, and note it. Raises `NotSent`."""
        messages = [SqsMessage(one.to_json()) for one in envelopes]
        refusals = [refusal for refusal in sqs.send(self.sqs, self.envelopes_queue_url, messages) if refusal]
        if refusals:
            raise NotSent(refusals[0])
        for one in envelopes:
            self.events.add(EnvelopeObserved.of(one, one.observed_at))
