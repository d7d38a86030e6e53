"""One attempt to push one message, and what its verdict means for the message."""

from dataclasses import dataclass

from clarion.events import PushTried
from clarion.messages import PushMessage
from clarion.providers.outcomes import Delivered, Misconfigured, Outcome, Refused, RetryLater, TokenGone
from clarion.tables import Subscription
from dispatch import retries
from dispatch.pushes import App, Stale, SubscriptionGone, useful_until
from dispatch.queue import Delivery

type Verdict = Outcome | Stale | SubscriptionGone

UNTRIED = RetryLater(status=None, reason="not tried")
UNREAD = RetryLater(status=None, reason="the subscription could not be read")


@dataclass(slots=True)
class Attempt:
    """`row` is the subscription as it is now; `rest` is how many seconds the message waits to be tried again, if so.

    It waits in the hot queue, or among the held messages if its app is at fault or it came from there.
    """

    delivery: Delivery
    message: PushMessage
    row: Subscription | None
    verdict: Verdict = UNTRIED
    rest: float | None = None

    @property
    def held(self) -> bool:
        return self.delivery.held or isinstance(self.verdict, Misconfigured)


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
    """Decide how long the message rests. One that would come back too late to be of use is stale already.

    One that was tried too often is refused: it goes to the dead letters, from where it can be redriven.
    """
    number, most = attempt.delivery.attempt, retries.ATTEMPTS
    match attempt.verdict:
        case RetryLater(after=after) as verdict:
            rest = retries.delay(number, after)
        case Misconfigured(whole_app=whole_app) as verdict:
            rest = retries.hold(number)
            most = most if whole_app else retries.FEW_ATTEMPTS
        case _:
            return
    if now + rest >= useful_until(attempt.message):
        attempt.verdict = Stale(reason=verdict.reason, status=verdict.status)
    elif number >= most:
        attempt.verdict = Refused(reason=verdict.reason, status=verdict.status)
    else:
        attempt.rest = rest


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
