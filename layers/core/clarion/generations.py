"""The generations of a subscription's rules: one is claimed, written, and then put in force by one conditional write."""

from pynamodb.exceptions import UpdateError
from pynamodb.expressions.condition import Condition
from pynamodb.expressions.update import Action

from clarion.tables import GENERATION_BYTES, Subscription, refused


def prefix(generation: float) -> bytes:
    """What the key of every rule of a generation begins with."""
    return int(generation).to_bytes(GENERATION_BYTES)


def claim_generation(subscription_id: str, condition: Condition) -> int | None:
    """The number of a generation that nobody else has written or will."""
    row = _update(subscription_id, Subscription.revision.add(1), condition=condition)
    return int(row.revision) if row else None


def flip(
    subscription_id: str, claim: int, rule_count: int, now: int, only_if: Condition, *marks: Action
) -> Subscription | None:
    """Put a claimed generation in force; None if the condition no longer holds."""
    flipped = _update(
        subscription_id,
        *marks,
        Subscription.generation.set(claim),
        Subscription.rule_count.set(rule_count),
        Subscription.revision.add(1),
        Subscription.updated_at.set(now),
        condition=only_if,
    )
    # The SDK repeats a write whose answer it missed: a condition that fails may have met its own success.
    return flipped or _update(
        subscription_id, Subscription.updated_at.set(now), condition=Subscription.generation == claim
    )


def _update(subscription_id: str, *actions: Action, condition: Condition) -> Subscription | None:
    row = Subscription(subscription_id)
    try:
        row.update(list(actions), condition=condition)
    except UpdateError as error:
        if refused(error):
            return None
        raise
    return row
