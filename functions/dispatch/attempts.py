"""One attempt to push one message, and what its verdict means for the message."""

from dataclasses import dataclass, replace

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

REGISTERED_SINCE_RETRIES = 2
"""Of a message whose token was registered after its death."""


@dataclass(slots=True)
class Attempt:
    """`row` is the subscription as it is now; `delay` is in how many seconds the message is tried again, if it is.

    It waits in the hot queue, or among the held messages if its app is at fault or it came from there.
    """

    delivery: Delivery
    message: PushMessage
    row: Subscription | None
    verdict: Verdict = UNTRIED
    delay: float | None = None

    @property
    def held(self) -> bool:
        return self.delivery.held or isinstance(self.verdict, Misconfigured)

    @property
    def token_faults(self) -> int:
        """How many attempts, with this one, met a fault that may be the token's alone."""
        verdict = self.verdict
        return self.delivery.token_faults + (isinstance(verdict, Misconfigured) and not verdict.whole_app)


@dataclass(slots=True)
class Sendable:
    """An attempt that nothing stands in the way of."""

    attempt: Attempt
    row: Subscription
    app: App


def apply_registration_time(outcome: Outcome, row: Subscription, number: int) -> Outcome:
    """A token that was registered after its death may live again, so the push is retried at first.

    If the provider says the same of the attempt after the last retry, the token is dead, whenever it was registered.
    """
    if not isinstance(outcome, TokenGone) or outcome.since is None or outcome.since >= row.created_at:
        return outcome
    if number <= REGISTERED_SINCE_RETRIES:
        return RetryLater(status=outcome.status, reason=outcome.reason)
    return replace(outcome, since=None)


def schedule_retry(attempt: Attempt, now: float, max_receives: int | None) -> None:
    """Decide when a message that failed is tried again. One that would come back too late to be of use is stale.

    One that was tried too often is refused: it goes to the dead letters, from where it can be redriven.
    """
    number = attempt.delivery.attempt
    match attempt.verdict:
        case RetryLater(after=after) as verdict:
            delay = retries.delay(number, after)
        case Misconfigured() as verdict:
            delay = retries.hold(number)
        case _:
            return
    last = max_receives is not None and number >= max_receives
    if now + delay >= useful_until(attempt.message):
        attempt.verdict = Stale(reason=verdict.reason, status=verdict.status)
    elif last or attempt.token_faults >= retries.MAX_TOKEN_FAULTS:
        attempt.verdict = Refused(reason=verdict.reason, status=verdict.status)
    else:
        attempt.delay = delay


def tried(attempt: Attempt, now: int) -> PushTried:
    message, verdict = attempt.message, attempt.verdict
    return PushTried(
        at=now,
        receipt=message.receipt,
        envelope_id=message.envelope_id,
        decision=verdict.decision,
        subscription_id=message.subscription_id,
        channel=message.channel,
        attempt=attempt.delivery.attempt,
        latency_ms=max(0, now - message.observed_at),
        status=verdict.status,
        reason=verdict.reason,
        provider_id=verdict.provider_id if isinstance(verdict, Delivered) else None,
    )
