"""When a message comes back: exponentially later, with jitter, and no sooner than the provider asks for.

How many attempts a message has is the setting `max_receives`.
"""

from random import uniform

RETRY_SECONDS = 2.0
HOLD_SECONDS = 60.0
CAP_SECONDS = 900.0
"""The longest that a recovery may go unnoticed by a message that waits for it, and the longest delay that SQS knows."""
MAX_TOKEN_FAULTS = 6
"""Attempts, over some 22 minutes, that may fail for what may be the token's fault alone."""


def delay(attempt: int, after: float | None) -> float:
    """Seconds until the attempt after this one, counted from 1; never sooner than `after`, the provider's wish."""
    back_off = _exponential(RETRY_SECONDS, attempt)
    # Messages that were told the same wish must not come back all at once.
    return back_off if after is None else max(back_off, after * uniform(1, 1.5))  # noqa: S311 - it spreads load


def hold(attempt: int) -> float:
    """Seconds that a message is delayed while its app can't push at all."""
    return _exponential(HOLD_SECONDS, attempt)


def _exponential(first: float, attempt: int) -> float:
    jitter = uniform(0.5, 1)  # noqa: S311 - it spreads load, it protects nothing
    return jitter * min(CAP_SECONDS, first * 2.0 ** min(attempt - 1, 10))
