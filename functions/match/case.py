"""A statement in a batch, and what has been found out about it so far."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from clarion.channels import is_call
from clarion.decisions import NotificationDecision, Wanted, EnvelopeDecision
from clarion.messages import PushMessage, EnvelopeMessage
from clarion.networks.statements.codec import Statement
from clarion.networks.statements.payload import MAX_DATA_SIZE
from match.admission import Notification, Ruling
from match.fan_out import EVERYTHING, Page
from match.faults import Fault, Unreadable
from match.lookups import Question
from match.matching import Match
from match.outbox import Letter
from match.verdict import Rejected, Verified


@dataclass(slots=True)
class Case:
    """It ends with a `decision`, or with a `fault`, for which the queue brings it again, or with neither.

    The last is one that is decided elsewhere: by the look before it, or by another message of its fan-out.
    `left_out` are subscriptions of which a row can't be read, each with the reason.
    """

    message_id: str
    message: EnvelopeMessage
    verdict: Verified | Rejected | None = None
    decision: EnvelopeDecision | None = None
    matches: Sequence[Match] = ()
    rulings: list[tuple[Notification, Ruling]] = field(default_factory=list)
    onward: list[Letter] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    fault: str | None = None

    @property
    def verified(self) -> Verified:
        if not isinstance(self.verdict, Verified):
            raise TypeError("no sender has been verified")
        return self.verdict

    @property
    def statement(self) -> Statement | None:
        return self.verdict.statement if self.verdict else None

    @property
    def reason(self) -> str | None:
        return self.verdict.reason if isinstance(self.verdict, Rejected) else None

    @property
    def topics(self) -> list[bytes]:
        """Each once, in the statement's order."""
        return list(dict.fromkeys(self.verified.statement.topics))

    def questions(self) -> dict[bytes, Question]:
        """What to ask the rules' index for each topic; who knows the subscriptions has no use for it."""
        if self.message.look_id or self.message.unsent:
            return {}
        sender, span = self.verified.sender, self.message.span
        return {topic: Question(sender + topic, span) for topic in self.topics}

    def changed(self, page: Page) -> set[str]:
        """Those of `page` that the index can't tell of, or need not: their rules were written lately, or matched before."""
        span = self.message.span or EVERYTHING
        until = span.until if page.ends_at is None else page.ends_at
        return {name for name in self.message.unsent or self.message.changed if span.after < name <= until}

    def readable[Value](self, found: Mapping[str, Value | Fault]) -> dict[str, Value | Fault]:
        """Go on without what can't be read of some subscriptions, but not without what AWS did not answer."""
        flaws = {name: flaw.reason for name, flaw in found.items() if isinstance(flaw, Unreadable)}
        self.left_out |= flaws
        return {name: value for name, value in found.items() if name not in flaws}

    def notifications(self) -> Iterator[Notification]:
        statement, envelope_id, sender = self.verified
        for match in self.matches:
            yield Notification(
                self.message.receipt,
                self.message.observed_at,
                envelope_id,
                sender,
                statement.expires_at,
                match,
                self.message.look_id,
            )

    def rule(self, notification: Notification, ruling: Ruling) -> None:
        """Take note of a ruling. A second look says nothing of what an earlier look has decided."""
        if self.message.look_id:
            if ruling.decision is NotificationDecision.DUPLICATE:
                return
            self.decision = EnvelopeDecision.MATCHED
        self.rulings.append((notification, ruling))

    def without(self, unsent: Collection[str]) -> EnvelopeMessage:
        """Leave the pushes for these subscriptions to another message, which this returns."""
        self.rulings = [one for one in self.rulings if one[0].subscription_id not in unsent]
        return self.message.model_copy(update={"unsent": tuple(sorted(unsent))})

    def pushes(self) -> Iterator[PushMessage]:
        """What was queued; of a repetition, which is about the age of calls, the calls alone."""
        for notification, ruling in self.rulings:
            if ruling.decision is NotificationDecision.QUEUED and (
                not self.message.repeat_id or _is_call(notification)
            ):
                yield self._push(notification)

    def _push(self, notification: Notification) -> PushMessage:
        data = self.verified.statement.data
        truncated = data is not None and len(data) > MAX_DATA_SIZE
        receiver, topic, wanted = notification.match
        return PushMessage(
            receipt=notification.receipt,
            observed_at=self.message.observed_at,
            envelope_id=notification.envelope_id,
            subscription_id=UUID(receiver.subscription_id),
            client_id=receiver.client_id,
            channel=receiver.channel,
            wanted=wanted,
            sender=notification.sender,
            topic=topic,
            data=None if truncated else data,
            truncated=truncated,
            replayed_since=self.message.replayed_since,
            expires_at=notification.expires_at,
        )


def _is_call(notification: Notification) -> bool:
    receiver, _, wanted = notification.match
    return is_call(receiver.channel, wanted_as_call=wanted is Wanted.CALL)
