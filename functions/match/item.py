"""An envelope on its way through a batch, as each stage hands it to the next.

    Item ──match──▶ MatchedItem ──admit──▶ AdmittedItem ──send──▶ Handled

At each stage it may end early: as `Handled`, or by a `Failure`, for which the queue delivers its message again.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple
from uuid import UUID

from clarion.channels import is_call
from clarion.decisions import EnvelopeDecision, NotificationDecision, Purpose
from clarion.messages import (
    MatchMessage,
    PageMessage,
    PushMessage,
    Recipient,
    RemainderMessage,
    RepetitionMessage,
    SecondLookMessage,
    Span,
)
from clarion.networks import Envelope
from match.admission import AdmissionResult, Notification
from match.fan_out import EVERYTHING, FannedOut
from match.matching import Match
from match.rule_reader import Question

type Results = Sequence[tuple[Notification, AdmissionResult]]


class Item(NamedTuple):
    """A message whose envelope is verified."""

    message: MatchMessage
    envelope: Envelope

    @property
    def span(self) -> Span:
        return self.message.span if isinstance(self.message, PageMessage) else EVERYTHING

    @property
    def look_id(self) -> UUID | None:
        return self.message.look_id if isinstance(self.message, SecondLookMessage | RemainderMessage) else None

    @property
    def repeat_id(self) -> UUID | None:
        of_repetition = RepetitionMessage | PageMessage | RemainderMessage
        return self.message.repeat_id if isinstance(self.message, of_repetition) else None

    @property
    def named(self) -> Collection[str]:
        """Subscriptions to be matched by the tables themselves: the index may not show their rules yet, or need not."""
        return self.message.changed if isinstance(self.message, FannedOut) else self.message.subscription_ids

    def remainder(self, subscription_ids: Iterable[str]) -> RemainderMessage:
        """What leaves these subscriptions to a message of their own."""
        return RemainderMessage(
            **self.message.observation,
            subscription_ids=tuple(sorted(subscription_ids)),
            look_id=self.look_id,
            repeat_id=self.repeat_id,
        )

    def questions(self) -> dict[bytes, Question]:
        """What to ask the rules' index for each key, unless the message names all subscriptions that it is for."""
        if not isinstance(self.message, FannedOut):
            return {}
        span = self.message.span if isinstance(self.message, PageMessage) else None
        return {key: Question(key, span) for key in self.envelope.keys}


class MatchedItem(NamedTuple):
    """Who wants it, of the subscriptions that were looked at; `successors` are the messages for all others.

    Without a `decision`, its envelope is decided elsewhere: by the look before it, or by another message of its fan-out.
    `left_out` are subscriptions of which a row can't be read, each with the reason.
    """

    item: Item
    decision: EnvelopeDecision | None
    matches: Sequence[Match]
    successors: Sequence[PageMessage | RemainderMessage]
    left_out: Mapping[str, str]

    def notifications(self) -> Iterator[Notification]:
        message, envelope = self.item.message, self.item.envelope
        for match in self.matches:
            yield Notification(
                envelope.network,
                message.receipt,
                message.observed_at,
                envelope.id,
                envelope.sender,
                envelope.expires_at,
                match,
                self.item.look_id,
            )


class AdmittedItem(NamedTuple):
    """What was decided on each notification. `continuations` are the messages for what is left to do.

    `numbers` are those of the items that were recorded in their subscriptions' rows (`clarion.newest`); `late` are the
    subscriptions that get a push when their limit is over, for what it held back.
    """

    item: Item
    decision: EnvelopeDecision | None
    results: Results
    continuations: Sequence[MatchMessage]
    left_out: Mapping[str, str]
    numbers: Mapping[str, int] = MappingProxyType({})
    late: Collection[str] = ()

    @classmethod
    def of(cls, matched: MatchedItem, results: Results) -> "AdmittedItem":
        """A second look, or a repetition, says nothing of what has been decided before."""
        decision = matched.decision
        if matched.item.look_id or matched.item.repeat_id:
            results = [one for one in results if one[0].match.wanted.pushes]
        if matched.item.look_id:
            results = [one for one in results if one[1].decision is not NotificationDecision.DUPLICATE]
            decision = EnvelopeDecision.MATCHED if results else None
        return cls(matched.item, decision, results, matched.successors, matched.left_out)

    def pushes(self) -> Iterator[PushMessage]:
        """What was queued; of a repetition, which is about the age of calls, the calls alone. And what comes late."""
        calls_alone = self.item.repeat_id is not None
        for notification, result in self.results:
            match = notification.match
            of_use = not calls_alone or is_call(match.subscriber.channel, match.wanted)
            if of_use and result.decision is NotificationDecision.QUEUED:
                yield self._push(match)
            elif notification.subscription_id in self.late:
                yield self._push(match).model_copy(update={"purpose": Purpose.REFRESH})

    def without(self, unsent: Collection[str]) -> "AdmittedItem":
        """The same, but the pushes for these subscriptions are left to a message of their own."""
        if not unsent:
            return self
        results = [one for one in self.results if one[0].subscription_id not in unsent]
        continuations = [*self.continuations, self.item.remainder(unsent)]
        return self._replace(results=results, continuations=continuations, late={*self.late}.difference(unsent))

    def handled(self) -> "Handled":
        return Handled(self.item.message, self.item.envelope, self.decision, None, self.results, self.left_out)

    def _push(self, match: Match) -> PushMessage:
        subscriber = match.subscriber
        subscription_id, number = subscriber.subscription_id, self.numbers.get(subscriber.subscription_id)
        recipient = Recipient(UUID(subscription_id), subscriber.client_id, subscriber.channel, number)
        return PushMessage.of(self.item.message, self.item.envelope, match.key, match.wanted, recipient)


class Handled(NamedTuple):
    """What is to be reported of a message that is done with. Fields are as in `MatchedItem` and `AdmittedItem`."""

    message: MatchMessage
    envelope: Envelope | None = None
    decision: EnvelopeDecision | None = None
    reason: str | None = None
    results: Results = ()
    left_out: Mapping[str, str] = MappingProxyType({})
