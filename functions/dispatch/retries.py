"""When a message comes back: what the provider asks for, else exponentially later, with jitter."""

from random import uniform

RETRY_SECONDS = 2.0
HOLD_SECONDS = 60.0
CAP_SECONDS = 900.0
"""The longest that a recovery may go unnoticed by a message that waits for it, and the longest delay that SQS knows."""
ATTEMPTS = 120
"""Some 22 hours at the longest delay, as jitter makes it. What has not gone by then goes to the dead letters."""
FEW_ATTEMPTS = 6
"""Some 25 minutes: of a message whose fault may be its token's alone."""


def delay(attempt: int, after: float | None) -> float:
    """Seconds until the attempt after this one, counted from 1; never sooner than `after`, the provider's wish."""
    back_off = _exponential(RETRY_SECONDS, attempt)
    return back_off if after is None else after + 0.1 * back_off


def hold(attempt: int) -> float:
    """Seconds that a message rests while its app can't push at all."""
    return _exponential(HOLD_SECONDS, attempt)


def _exponential(first: float, attempt: int) -> float:
    jitter = uniform(0.5, 1)  # noqa: S311 - it spreads load, it protects nothing
    return jitter * min(CAP_SECONDS, first * 2.0 ** min(attempt - 1, 10))
