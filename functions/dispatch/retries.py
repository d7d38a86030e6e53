"""When a message comes back: what the provider asks for, else exponentially later, with jitter."""

from random import uniform

BASE_SECONDS = 2.0
CAP_SECONDS = 900.0


def delay(attempt: int, after: float | None) -> float:
    """Seconds until attempt `attempt + 1`; never sooner than `after`, the provider's wish."""
    jitter = uniform(0.5, 1)  # noqa: S311 - it spreads load, it protects nothing
    backoff = jitter * min(CAP_SECONDS, BASE_SECONDS * 2.0 ** min(attempt, 10))
    return backoff if after is None else after + 0.1 * backoff
