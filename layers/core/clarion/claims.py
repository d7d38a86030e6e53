"""How long a claim lives: the right to push an envelope to a subscription, which one receipt holds (`match.claims`)."""

LONGEST = 30 * 24 * 3600
"""Seconds. An envelope that never expires is pushed again if a node shows it as new after more than this."""
SLACK = 3600
"""Seconds that a claim outlives its envelope, for retries and clocks: from its expiry on no node shows it as new."""


def lasts_until(expires_at: int, now: int) -> int:
    """When a claim ends that is made now on an envelope that expires then; all in UNIX seconds."""
    return min(expires_at + SLACK, now + LONGEST)
