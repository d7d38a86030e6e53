"""One attempt to push one message, and what its verdict means for the message."""

from dataclasses import dataclass

from clarion.events import PushTried
from clarion.messages import PushMessage
from clarion.providers.outcomes import Delivered, Misconfigured, Outcome, RetryLater, TokenGone
from clarion.tables import Subscription
from dispatch import retries
from dispatch.pushes import App, Stale, SubscriptionGone, useful_until
from dispatch.queue import Delivery

type Verdict = Outcome | Stale | SubscriptionGone

UNTRIED = RetryLater(status=None, reason="not tried")
UNREAD = RetryLater(status=None, reason="the subscription could not be read")


@dataclass(slots=True)
class Attempt:
    """`row` is the subscription as it is now; `rest` is how many seconds the message waits to be tried again, if so."""

    delivery: Delivery
    message: PushMessage
    row: Subscription | None
    verdict: Verdict = UNTRIED
    rest: float | None = None


@dataclass(slots=True)
class Sendable:
    """An attempt that nothing stands in the way of."""

    attempt: Attempt
    row: Subscription
    app: App


def heed(outcome: Outcome, row: Subscription) -> Outcome:
    """A token that died before it was registered here has come to life again: only this push was too early."""
    if isinstance(outcome, TokenGone) and outcome.since is not None and outcome.since < row.created_at:
        return RetryLater(status=outcome.status, reason=outcome.reason)
    return outcome


def settle(attempt: Attempt, now: float) -> None:
    """Decide how long the message rests. One that would come back too late to be of use is stale already."""
    match attempt.verdict:
        case RetryLater(after=after) as verdict:
            rest = retries.delay(attempt.delivery.attempt, after)
        case Misconfigured() as verdict:
            rest = retries.hold(attempt.delivery.attempt)
        case _:
            return
    if now + rest < useful_until(attempt.message):
        attempt.rest = rest
    else:
        attempt.verdict = Stale(reason=verdict.reason, status=verdict.status)


def tried(attempt: Attempt, now: int) -> PushTried:
    message, verdict = attempt.message, attempt.verdict
    return PushTried(
        at=now,
        receipt=message.receipt,
        statement_hash=message.statement_hash,
        decision=verdict.decision,
        subscription_id=message.subscription_id,
        notify_type=message.notify_type,
        attempt=attempt.delivery.attempt,
        latency_ms=max(0, now - message.observed_at),
        status=verdict.status,
        reason=verdict.reason,
        provider_id=verdict.provider_id if isinstance(verdict, Delivered) else None,
    )
