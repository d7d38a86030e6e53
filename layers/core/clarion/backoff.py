"""How often, and after how long, whoever met another writer tries again."""

import random

WRITE_ATTEMPTS = 8
BACKOFF_SECONDS = 0.02


def back_off(attempt: int) -> float:
    """Seconds until the next attempt, spread so that writers that met once don't meet again. `attempt` counts from 0."""
    return random.uniform(0, BACKOFF_SECONDS * 2**attempt)  # noqa: S311 - hides nothing
