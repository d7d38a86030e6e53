"""One observation of an envelope, for itself and for one subscription: what there is to judge it by."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from clarion.decisions import FINAL, EnvelopeDecision, NotificationDecision, Wanted
from clarion.events import EnvelopeDecided, EnvelopeObserved, NotificationDecided, PushTried
from clarion.limiter import LATENESS
from clarion.networks import Envelope, Malformed, Rule, network
from clarion.subscription_events import SubscriptionChanged
from pipeline.columns import file_name
from pipeline.explain.in_force import RuleSpan
from pipeline.in_force.limits import LimitSpan
from pipeline.terms import Terms


@dataclass(frozen=True)
class ObservedReceipt:
    """One receipt: the envelope as it was observed, as match decided it, and as its bytes say.

    `flaw` is the decision that the bytes alone lead to; without `envelope` and `flaw` the bytes are not there.
    """

    receipt: UUID
    network: str
    observed_at: int
    decided: tuple[EnvelopeDecided, ...]
    envelope: Envelope | None
    flaw: EnvelopeDecision | None

    @classmethod
    def of(
        cls, observed: EnvelopeObserved | None, decided: Sequence[EnvelopeDecided], raw: bytes | None
    ) -> "ObservedReceipt":
        """Of one of which something is known at least: `observed`, or what was `decided`."""
        in_order = tuple(sorted(decided, key=lambda one: one.at))
        known = observed or in_order[0]
        envelope, flaw = read(known.network, raw)
        return cls(known.receipt, known.network, known.observed_at, in_order, envelope, flaw)

    @property
    def first_at(self) -> int:
        return self.decided[0].at if self.decided else self.observed_at

    @property
    def last_at(self) -> int:
        return self.decided[-1].at if self.decided else self.observed_at

    @property
    def decision(self) -> EnvelopeDecision | None:
        return self.decided[-1].decision if self.decided else None

    @property
    def envelope_id(self) -> bytes | None:
        """None of bytes that are no envelope."""
        known = (one.envelope_id for one in self.decided)
        return self.envelope.id if self.envelope else next(known, None)

    @property
    def sender(self) -> bytes | None:
        return self.envelope.sender if self.envelope else next((one.sender for one in self.decided), None)

    @property
    def has_bytes(self) -> bool:
        return self.envelope is not None or self.flaw is not None

    def expired(self, at: int) -> bool:
        return self.envelope is not None and self.envelope.expires_at * 1000 <= at


class PossibleClaim(NamedTuple):
    """What may be a claim of one receipt on an envelope for a subscription: a decision about it.

    Without one it should have been queued, and was lost: then no later receipt is missing as well.
    """

    envelope_id: bytes
    subscription_id: UUID
    receipt: UUID
    decision: NotificationDecision | None
    at: int

    @classmethod
    def of_row(cls, row: dict[str, Any]) -> "PossibleClaim":
        who = UUID(row["subscription_id"]), UUID(row["receipt"])
        return cls(row["envelope_id"], *who, NotificationDecision(row["decision"]), row[file_name("at")])

    @classmethod
    def of(cls, one: NotificationDecided) -> "PossibleClaim":
        return cls(one.envelope_id or b"", one.subscription_id, one.receipt, one.decision, one.at)


@dataclass(frozen=True)
class Notified:
    """What there is to judge one observation for one subscription by.

    `decision` is what was decided, if anything; `claims` are the decisions about the same envelope for the same
    subscription under other receipts; `earlier` are those of the pair of sender and client before it, in order;
    `near` are those of its subscription. It was decided by the rules up to `until`. `lost` are those of
    the pair that should have been queued before it, and of which there is no decision. `ended_elsewhere` says that one of those claims was pushed. `limits` are those that may have been in force.
    """

    observation: ObservedReceipt
    rules: Sequence[RuleSpan]
    decision: NotificationDecided | None
    claims: Sequence[PossibleClaim]
    earlier: Sequence[NotificationDecided]
    near: Sequence[NotificationDecided]
    pushes: Sequence[PushTried]
    limits: Sequence[LimitSpan]
    replayed: bool = False
    ended_elsewhere: bool = False
    until: int = 0
    lost: Sequence["Notified"] = ()

    @property
    def found(self) -> NotificationDecision | None:
        return self.decision.decision if self.decision else None

    @property
    def at(self) -> int:
        """The time that the limits judge it by."""
        if self.decision and self.decision.judged_at is not None:
            return self.decision.judged_at
        return max(self.observation.observed_at, self.observation.last_at - LATENESS)

    @property
    def subscription_id(self) -> UUID:
        return self._known.subscription_id

    @property
    def client_id(self) -> bytes:
        return self._known.client_id

    @property
    def _known(self) -> NotificationDecided | SubscriptionChanged:
        return self.decision or self.rules[0].subscription

    @property
    def decided_at(self) -> int:
        return self.decision.at if self.decision else self.observation.last_at

    @property
    def sender(self) -> bytes | None:
        return self.decision.sender if self.decision else self.observation.sender

    @property
    def envelope_id(self) -> bytes:
        return self.observation.envelope_id or b""


class RuleAnswers(NamedTuple):
    """How the rules of one subscription want an envelope.

    `answers` are what the networks' functions may say; more than one if a secret decides. `certain` says that a rule
    which pushes, or may, was surely in force.
    """

    answers: frozenset[Wanted]
    certain: bool

    @property
    def pushes(self) -> bool:
        return bool(self.answers) and all(answer.pushes for answer in self.answers)

    @property
    def may_push(self) -> bool:
        return any(answer.pushes for answer in self.answers)

    @property
    def refusals(self) -> Collection[str]:
        """The decisions that may be right instead of a push."""
        return [str(answer) for answer in sorted(self.answers, key=lambda one: one.rank) if not answer.pushes]


def is_final(push: PushTried) -> bool:
    """Whether it ended with this attempt, as `pipeline.reconciliation.doubt` has it."""
    return push.decision in FINAL and not push.given_up


def read(name: str, raw: bytes | None) -> tuple[Envelope | None, EnvelopeDecision | None]:
    """What an envelope's bytes say, and what is wrong with them, whenever they are looked at."""
    if raw is None:
        return None, None
    try:
        envelope = network(name).decode(raw)
    except Malformed:
        return None, EnvelopeDecision.MALFORMED
    return envelope, network(name).verify(envelope)


def answers_of(observation: ObservedReceipt, rules: Sequence[RuleSpan], terms: Terms, until: int = 0) -> RuleAnswers:
    """Of several rules the most urgent answer counts; one that surely pushes makes the others' secrets irrelevant.

    They are those that were in force up to `until`, if that is later than the decision on the envelope.
    """
    envelope, first, last = observation.envelope, observation.first_at, max(observation.last_at, until)
    if envelope is None:
        return RuleAnswers(frozenset(), certain=False)
    near = [span for span in rules if span.touches(first, last, terms.grace)]
    answered = [(span.covers(first, last, terms.grace), _answers(envelope, span, first)) for span in near]
    pushing = [(certain, answers) for certain, answers in answered if any(answer.pushes for answer in answers)]
    sure = [answers for certain, answers in pushing if certain and all(answer.pushes for answer in answers)]
    if sure:
        best = min((answer for answers in sure for answer in answers), key=lambda answer: answer.rank)
        return RuleAnswers(frozenset([best]), certain=True)
    every = frozenset(answer for _, answers in pushing or answered for answer in answers)
    return RuleAnswers(every, certain=any(certain for certain, _ in pushing))


def _answers(envelope: Envelope, span: RuleSpan, at: int) -> Collection[Wanted]:
    shown_by = network(envelope.network)
    if span.rule.condition_digest is not None:
        return shown_by.may_want(envelope)
    return [shown_by.wants(envelope, Rule(span.rule.key, span.rule.condition or b""), at)]
