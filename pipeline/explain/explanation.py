"""The answer of `explain`, for people as text and for programs as JSON."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from clarion.events import EnvelopeDecided, NotificationDecided, PushTried
from clarion.subscription_events import SubscriptionChanged
from pipeline.explain.cases import Notified, ObservedReceipt
from pipeline.explain.in_force import RuleSpan
from pipeline.explain.judgement import DecisionVerdict
from pipeline.explain.obstacles import clock
from pipeline.period import FOREVER, Period, hour_runs


@dataclass(frozen=True)
class ExplainedStep:
    """Something that happened, at an instant in UNIX milliseconds."""

    at: int
    what: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{clock(self.at)}  {self.what:<18} {self.detail}".rstrip()


@dataclass(frozen=True)
class NotificationAnswer:
    """One observation for one subscription."""

    subscription_id: str
    client_id: str | None
    channel: str | None
    steps: list[ExplainedStep]
    verdict: DecisionVerdict

    @classmethod
    def of(cls, one: Notified, verdict: DecisionVerdict) -> "NotificationAnswer":
        known = one.decision or one.rules[0].subscription
        decided = [_decided(one.decision)] if one.decision else []
        steps = [*decided, *map(_tried, one.pushes)]
        return cls(str(known.subscription_id), known.client_id.hex(), known.channel, steps, verdict)

    def lines(self) -> Iterator[str]:
        yield f"  {self.channel} subscription {self.subscription_id} of client {self.client_id}"
        yield from (f"    {step}" for step in self.steps)
        yield from _verdict(self.verdict, "    ")


@dataclass(frozen=True)
class ReceiptAnswer:
    """One observation, with those for whom it was a notification, or should have been; `left_out` are so many others."""

    receipt: str
    network: str
    envelope_id: str | None
    sender: str | None
    steps: list[ExplainedStep]
    verdict: DecisionVerdict
    notifications: list[NotificationAnswer]
    left_out: int = 0

    @classmethod
    def of(
        cls, seen: ObservedReceipt, verdict: DecisionVerdict, answers: list[NotificationAnswer], show: int
    ) -> "ReceiptAnswer":
        """What is wrong comes first."""
        in_order = sorted(answers, key=lambda answer: not answer.verdict.is_difference)
        steps = [ExplainedStep(seen.observed_at, "observed"), *map(_envelope_decided, seen.decided)]
        envelope_id, sender = (part.hex() if part else None for part in (seen.envelope_id, seen.sender))
        left_out = max(0, len(answers) - show)
        return cls(str(seen.receipt), seen.network, envelope_id, sender, steps, verdict, in_order[:show], left_out)

    def lines(self) -> Iterator[str]:
        sender = f", sender {self.sender}" if self.sender else ""
        yield f"Receipt {self.receipt}: envelope {self.envelope_id or 'unknown'} of {self.network}{sender}"
        yield from (f"  {step}" for step in self.steps)
        yield from _verdict(self.verdict, "  ")
        for one in self.notifications:
            yield ""
            yield from one.lines()
        if self.left_out:
            yield f"  and {self.left_out:,} more subscriptions: --client names one, --show more"


@dataclass(frozen=True)
class SubscriptionLife:
    """A subscription's changes, and its rules with the times at which they were in force."""

    subscription_id: str
    network: str
    channel: str
    steps: list[ExplainedStep]

    def lines(self) -> Iterator[str]:
        yield f"  {self.channel} subscription {self.subscription_id} of {self.network}"
        yield from (f"    {step}" for step in self.steps)


@dataclass(frozen=True)
class Explanation:
    """`what` was `asked` about: an envelope, a receipt, a subscription or a client.

    Both are None if nothing is known of it: then it may be anything, such as one of Apple's tokens. `pending` are the
    hours of which raw lines were read, since no commit has them yet; of `absent` hours the lake has nothing. Only of a
    subscription or a client there are `lives`, and the `quiet` hours in which nothing was observed at all. With
    `doubts` the answer is not sure: they say what of the lake is lost or can't be read that may say otherwise.
    """

    asked: str | None
    what: str | None
    searched: Period
    pending: list[str]
    absent: list[str]
    quiet: list[str] = field(default_factory=list)
    lives: list[SubscriptionLife] = field(default_factory=list)
    receipts: list[ReceiptAnswer] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)

    @property
    def found(self) -> bool:
        """Whether the lake knows of an envelope."""
        return bool(self.receipts)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def lines(self) -> Iterator[str]:
        yield f"{self.what.capitalize()} {self.asked}" if self.what else self._nothing()
        parts: list[SubscriptionLife | ReceiptAnswer] = [*self.lives, *self.receipts]
        for each in parts:
            yield ""
            yield from each.lines()
        yield ""
        yield from self.notes
        if self.what and not self.found:
            yield "0 envelopes concern it in this time."
        if self.doubts:
            yield "This answer is not sure, for not all of the lake could be read:"
        yield from (f"  {doubt}." for doubt in self.doubts)
        yield from self._searched()

    def _nothing(self) -> str:
        return (
            "What can be read of the lake has nothing of it."
            if self.doubts
            else "Nothing of it was found in this time."
        )

    def _searched(self) -> Iterator[str]:
        yield f"Searched what was observed from {self.searched} UTC."
        if self.quiet:
            yield f"In {len(self.quiet)} of these hours nothing was observed: {_named(self.quiet)}."
        if self.absent:
            yield f"Of {len(self.absent)} of these hours the lake has nothing: {_named(self.absent)}."
        if self.pending:
            hours = f"{len(self.pending)} hour{'s' * (len(self.pending) != 1)}"
            yield f"Of {hours} the raw lines were read, since they are not compacted yet: {_named(self.pending)}."


def lives_of(subscriptions: Sequence[SubscriptionChanged], rules: Sequence[RuleSpan]) -> list[SubscriptionLife]:
    """One for each subscription, the last that was changed first."""
    last = {one.subscription_id: one for one in sorted(subscriptions, key=lambda one: one.at)}
    newest_first = sorted(last.values(), key=lambda one: -one.at)
    return [
        SubscriptionLife(str(one.subscription_id), one.network, one.channel, _steps(one, subscriptions, rules))
        for one in newest_first
    ]


def _steps(
    of: SubscriptionChanged, subscriptions: Iterable[SubscriptionChanged], rules: Iterable[RuleSpan]
) -> list[ExplainedStep]:
    lived = [
        ExplainedStep(one.at, one.status, f"generation {one.generation}, {one.status_reason or one.channel}")
        for one in subscriptions
        if one.subscription_id == of.subscription_id
    ]
    named = [
        ExplainedStep(span.since, "rule", f"{_described(span)}{_ending(span)}")
        for span in rules
        if span.subscription.subscription_id == of.subscription_id
    ]
    return sorted((*lived, *named), key=lambda step: step.at)


def _named(hours: Iterable[str]) -> str:
    return ", ".join(hour_runs(hours))


def _described(span: RuleSpan) -> str:
    return f"{span.described}, with a secret condition" if span.rule.condition_digest else span.described


def _ending(span: RuleSpan) -> str:
    return "" if span.until == FOREVER else f", until {clock(span.until)}"


def _verdict(verdict: DecisionVerdict, margin: str) -> Iterator[str]:
    yield f"{margin}{verdict.found}: should be {verdict.should_be}"
    yield from (f"{margin}  {reason}" for reason in verdict.reasons)


def _envelope_decided(one: EnvelopeDecided) -> ExplainedStep:
    return ExplainedStep(one.at, one.decision, one.reason or "")


def _decided(one: NotificationDecided) -> ExplainedStep:
    return ExplainedStep(one.at, one.decision, "an own message, which its app has delivered" if one.own else "")


def _tried(one: PushTried) -> ExplainedStep:
    details = {"status": one.status, "reason": one.reason, "provider's id": one.provider_id}
    named = "".join(f", {name} {value}" for name, value in details.items() if value is not None)
    given_up = ", given up" if one.given_up else ""
    return ExplainedStep(one.at, one.decision, f"attempt {one.attempt}, after {one.latency_ms} ms{named}{given_up}")
