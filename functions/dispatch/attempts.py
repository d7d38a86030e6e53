"""One attempt to push one message, what its verdict means for the message, and when it comes back.

A message that failed comes back exponentially later, with jitter, and no sooner than the provider asks for. How many
attempts it has is the setting `max_receives`.
"""

from dataclasses import dataclass, replace
from random import uniform

from clarion.decisions import Purpose, SubscriptionStatus
from clarion.events import PushTried
from clarion.messages import PushMessage
from clarion.newest import NewestRow
from clarion.providers.apps import App
from clarion.providers.outcomes import Delivered, Misconfigured, Outcome, Refused, RetryLater, TokenGone
from clarion.secrets import SharedSecret
from clarion.tables import Subscription
from dispatch.pushes import Coalesced, Stale, SubscriptionGone, is_networks_own, useful_until
from dispatch.queue import Delivery

type Verdict = Outcome | Stale | SubscriptionGone | Coalesced

UNTRIED = RetryLater(status=None, reason="not tried")
SECRET_UNREAD = RetryLater(status=None, reason="the network's secret could not be read")
UNREAD = RetryLater(status=None, reason="the subscription could not be read")

RETRY_SECONDS = 2.0
HOLD_SECONDS = 60.0
CAP_SECONDS = 900.0
"""The longest that a recovery may go unnoticed by a message that waits for it, and the longest delay that SQS knows."""
MAX_TOKEN_FAULTS = 6
"""Attempts, over some 22 minutes, that may fail for what may be the token's fault alone."""
REGISTERED_SINCE_RETRIES = 2
"""Of a message whose token was registered after its death."""


@dataclass(slots=True)
class Attempt:
    """`row` is the subscription as it was when it was read; `delay` is in how many seconds the message is tried again, if it is.

    It waits in the hot queue, or among the held messages if its app is at fault or it came from there. `newest` is the
    network's row that its body was made of, `secret` the network's, where there are such.
    """

    delivery: Delivery
    message: PushMessage
    row: Subscription | None
    verdict: Verdict = UNTRIED
    delay: float | None = None
    newest: NewestRow | None = None
    secret: SharedSecret | None = None

    @property
    def held(self) -> bool:
        return self.delivery.held or isinstance(self.verdict, Misconfigured)

    @property
    def is_of_stranger(self) -> bool:
        """Whether it goes to a token that nobody has proven, in a network where anybody may name any token."""
        pending = self.row is not None and self.row.status == SubscriptionStatus.PENDING
        return pending and self.message.purpose is Purpose.VERIFICATION and is_networks_own(self.message)

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
            seconds = delay(number, after)
        case Misconfigured() as verdict:
            seconds = hold(number)
        case _:
            return
    last = max_receives is not None and number >= max_receives
    if now + seconds >= useful_until(attempt.message):
        attempt.verdict = Stale(reason=verdict.reason, status=verdict.status)
    elif last or attempt.token_faults >= MAX_TOKEN_FAULTS:
        token_fault = isinstance(verdict, Misconfigured) and not verdict.whole_app
        attempt.verdict = Refused(reason=verdict.reason, status=verdict.status, given_up=True, token_fault=token_fault)
    else:
        attempt.delay = seconds


def tried(attempt: Attempt, now: int) -> PushTried:
    message, verdict = attempt.message, attempt.verdict
    return PushTried(
        network=message.network,
        at=now,
        receipt=message.receipt,
        envelope_id=message.envelope_id,
        decision=verdict.decision,
        purpose=message.purpose,
        subscription_id=message.subscription_id,
        channel=message.channel,
        attempt=attempt.delivery.attempt,
        latency_ms=max(0, now - message.observed_at),
        status=verdict.status,
        reason=verdict.reason,
        provider_id=verdict.provider_id if isinstance(verdict, Delivered) else None,
        given_up=verdict.given_up if isinstance(verdict, Refused) else None,
    )


def delay(attempt: int, after: float | None) -> float:
    """Seconds until the attempt after this one, counted from 1; never sooner than `after`, its Retry-After."""
    back_off = _exponential(RETRY_SECONDS, attempt)
    # Messages with the same Retry-After must not come back all at once.
    return back_off if after is None else max(back_off, after * uniform(1, 1.5))  # noqa: S311 - it spreads load


def hold(attempt: int) -> float:
    """Seconds that a message is delayed while its app can't push at all."""
    return _exponential(HOLD_SECONDS, attempt)


def _exponential(first: float, attempt: int) -> float:
    jitter = uniform(0.5, 1)  # noqa: S311 - it spreads load, it protects nothing
    return jitter * min(CAP_SECONDS, first * 2.0 ** min(attempt - 1, 10))
