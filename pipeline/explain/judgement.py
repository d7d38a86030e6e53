"""What should have become of an envelope, and why: judged by the functions of its network and by the live limiter.

`reconcile` judges whole days by the same functions, in Spark; here it is one envelope at a time, with the reasons.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from clarion.decisions import REACHED, EnvelopeDecision, PushDecision
from clarion.events import PushTried
from clarion.networks import network
from pipeline.explain.cases import Notified, ObservedReceipt, RuleAnswers, answers_of, is_final
from pipeline.explain.in_force import RuleSpan
from pipeline.explain.obstacles import (
    QUEUED,
    Obstacle,
    claimed,
    clock,
    full,
    over_limit,
    overfull,
    queued_before,
    within_limits,
)
from pipeline.findings import REPAIRABLE, UNJUDGED, Difference
from pipeline.terms import Terms

RIGHT, UNKNOWN = "right", "unknown"
REPAIRED = {*REPAIRABLE, Difference.LATE}
"""What is a difference no more once a replay has sent it again."""
NOTHING = "no notification"
UNDECIDED = "It was never decided: its message is lost, still waits, or is a dead letter."


@dataclass(frozen=True)
class DecisionVerdict:
    """`found` is a difference, as `reconcile` names them, or another word; `reasons` are sentences.

    What is `UNJUDGED` a secret decides; of what is `UNKNOWN` the bytes are gone.
    """

    found: str
    should_be: str
    reasons: tuple[str, ...]

    @property
    def is_difference(self) -> bool:
        return self.found not in {RIGHT, UNJUDGED, UNKNOWN}


def judge_envelope(
    observation: ObservedReceipt, rules: Sequence[RuleSpan], terms: Terms, *, notified: bool = False
) -> DecisionVerdict:
    """The decision on the envelope itself. A drop that is wrong is a difference for each who wanted it.

    `notified` says that it was decided for some subscriptions, as a replay leaves it.
    """
    if not observation.has_bytes:
        return DecisionVerdict(UNKNOWN, UNKNOWN, ("Its bytes are not in the lake, so nobody can say what was right.",))
    right, reason = _right_for_envelope(observation, rules)
    either = _either_way(observation, rules, terms)
    if notified and right == EnvelopeDecision.MATCHED != observation.decision:
        return DecisionVerdict(RIGHT, right, (reason, "It was decided for single subscriptions since."))
    if observation.decision is None:
        lost = Difference.MISSING if right == EnvelopeDecision.MATCHED else RIGHT
        return DecisionVerdict(lost, right, (reason, UNDECIDED))
    if observation.decision == right or observation.decision in either:
        return DecisionVerdict(RIGHT, right, (reason,))
    return DecisionVerdict(
        Difference.WRONGLY_DROPPED if right == EnvelopeDecision.MATCHED else Difference.UNEXPECTED, right, (reason,)
    )


def _right_for_envelope(observation: ObservedReceipt, rules: Sequence[RuleSpan]) -> tuple[EnvelopeDecision, str]:
    if observation.flaw is EnvelopeDecision.MALFORMED:
        return observation.flaw, "Its bytes are nothing that the network may show."
    if observation.expired(observation.first_at):
        return EnvelopeDecision.EXPIRED, "It had expired when it was decided."
    if observation.flaw:
        return observation.flaw, "It is well formed, but its proof does not verify."
    signed = "its signature verifies" if network(observation.network).signed else "its network signs nothing"
    sound = f"It is well formed, {signed}, it had not expired"
    if any(span.touches(observation.first_at, observation.last_at, 0) for span in rules):
        return EnvelopeDecision.MATCHED, f"{sound}, and a rule in force named one of its keys."
    return EnvelopeDecision.UNMATCHED, f"{sound}, and no rule in force named one of its keys."


def _either_way(observation: ObservedReceipt, rules: Sequence[RuleSpan], terms: Terms) -> Iterator[EnvelopeDecision]:
    """What is right as well, so close to an expiry or to a change of rules."""
    first, last = observation.first_at, observation.last_at
    if observation.expired(last + terms.grace) != observation.expired(first - terms.grace):
        yield from EnvelopeDecision
    elif not observation.flaw:
        touched = [span for span in rules if span.touches(first, last, terms.grace)]
        if not any(span.covers(first, last, terms.grace) for span in touched):
            yield EnvelopeDecision.UNMATCHED
        if touched:
            yield EnvelopeDecision.MATCHED


def judge_notification(one: Notified, terms: Terms) -> DecisionVerdict:
    asked = answers_of(one.observation, one.rules, terms, one.until)
    against = _against(one, asked, terms)
    judge = _judge_queued if one.found is QUEUED else _judge_unqueued
    verdict = judge(one, asked, against, terms)
    if one.replayed and verdict.found in REPAIRED and any(map(is_final, one.pushes)):
        return replace(verdict, found=RIGHT, reasons=(*verdict.reasons, "A replay has sent it again since."))
    if verdict.found == RIGHT and one.found and against is None and asked.refusals:
        secret = f"Its rule's condition is secret: {_alternatives(asked)} may be right, and only match could say which."
        return DecisionVerdict(UNJUDGED, _alternatives(asked), (*verdict.reasons, secret))
    return verdict


def _judge_queued(one: Notified, asked: RuleAnswers, against: Obstacle | None, terms: Terms) -> DecisionVerdict:
    """What was queued is unexpected if anything stood in its way; else it had to reach its provider, in time."""
    obstacle = against or queued_before(one) or over_limit(one) or overfull(one)
    if obstacle:
        return DecisionVerdict(Difference.UNEXPECTED, obstacle.should_be, (obstacle.reason,))
    found, reason = _delivery(one.pushes, terms)
    if one.ended_elsewhere and not any(map(is_final, one.pushes)):
        return DecisionVerdict(
            RIGHT, QUEUED, (*_for_it(one, asked), "It was queued again, and pushed by that receipt.")
        )
    return DecisionVerdict(found, QUEUED, (*_for_it(one, asked), reason))


def _judge_unqueued(one: Notified, asked: RuleAnswers, against: Obstacle | None, terms: Terms) -> DecisionVerdict:
    obstacle = against or over_limit(one) or full(one) or claimed(one, asked.refusals)
    if obstacle:
        return DecisionVerdict(RIGHT, obstacle.should_be, (obstacle.reason,))
    reasons = _for_it(one, asked)
    if not asked.certain or one.observation.expired(one.observation.last_at + terms.grace):
        return DecisionVerdict(
            RIGHT, QUEUED, (*reasons, "That changed so close to the decision that either way is right.")
        )
    if one.found and str(one.found) in asked.refusals:
        return DecisionVerdict(RIGHT, QUEUED, reasons)
    if one.found is None and one.observation.decision in {None, EnvelopeDecision.MATCHED}:
        lost = UNDECIDED if one.observation.decision is None else "It was matched, but this notification never decided."
        return DecisionVerdict(Difference.MISSING, " or ".join((QUEUED, *asked.refusals)), (*reasons, lost))
    dropped = one.found or one.observation.decision
    return DecisionVerdict(
        Difference.WRONGLY_DROPPED, QUEUED, (*reasons, f"It was dropped as {dropped}, which nothing bears out.")
    )


def _against(one: Notified, asked: RuleAnswers, terms: Terms) -> Obstacle | None:
    """Why the subscription has no claim to the envelope at all."""
    seen = one.observation
    if not seen.has_bytes:
        return None
    if seen.flaw:
        return Obstacle(NOTHING, f"The envelope was to be dropped as {seen.flaw}.")
    if seen.expired(seen.first_at - terms.grace):
        return Obstacle(NOTHING, "The envelope had expired.")
    if not asked.answers:
        return Obstacle(NOTHING, "No rule of this subscription that was in force named one of its keys.")
    if not asked.may_push:
        refusals = _alternatives(asked)
        return Obstacle(refusals, f"Its rules don't want it pushed: {refusals}.")
    return None


def _alternatives(asked: RuleAnswers) -> str:
    in_order = sorted(asked.answers, key=lambda answer: answer.rank)
    return " or ".join(in_order)


def _for_it(one: Notified, asked: RuleAnswers) -> tuple[str, ...]:
    """Why it should have been pushed."""
    named = (f"A rule in force since {clock(span.since)} names it ({span.described})." for span in one.rules[:1])
    wanted = [f"So it is wanted as {_alternatives(asked)}."] if asked.answers else []
    return (*named, *wanted, *within_limits(one))


def _without_end(last: PushTried) -> str:
    if last.decision in {PushDecision.RETRY, PushDecision.MISCONFIGURED}:
        return f"It waits or is lost since attempt {last.attempt}, at {clock(last.at)}:"
    return f"It was given up after attempt {last.attempt}:"


def _delivery(pushes: Sequence[PushTried], terms: Terms) -> tuple[str, str]:
    """Whether what was queued reached its provider, and in time."""
    if not pushes:
        return Difference.MISSING, "It was queued, but never tried."
    last = max(pushes, key=lambda push: (is_final(push), push.at))
    if last.decision is PushDecision.STALE:
        return Difference.LATE, f"It was dropped as stale at {clock(last.at)}."
    if not is_final(last):
        return Difference.MISSING, f"{_without_end(last)} {last.reason or last.decision}."
    latency = min((push.latency_ms for push in pushes if push.decision in REACHED), default=0)
    if latency > terms.late:
        return Difference.LATE, f"It was delivered only after {latency / 1_000:.1f} s."
    return RIGHT, f"It ended as {last.decision} at attempt {last.attempt}."
