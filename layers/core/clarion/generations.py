"""The generations of a subscription's rules: one is claimed, written, and then put in force by one conditional write."""

import math
import time
from typing import Any

from botocore.exceptions import ClientError
from pynamodb.connection import Connection
from pynamodb.exceptions import PutError
from pynamodb.expressions.condition import Condition
from pynamodb.expressions.update import Action

from clarion.backoff import WRITE_ATTEMPTS, back_off
from clarion.tables import GENERATION_BYTES, RuleRow, Subscription, update_subscription

BATCH = 25
"""The most items of one BatchWriteItem."""
NEVER = math.inf
"""A deadline for a caller without one."""
THROTTLED = {"ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded"}


def prefix(generation: float) -> bytes:
    """What the key of every rule of a generation begins with."""
    return int(generation).to_bytes(GENERATION_BYTES)


def claim_generation(subscription_id: str, condition: Condition) -> int | None:
    """The number of a generation that nobody else has written or will."""
    row = update_subscription(subscription_id, Subscription.revision.add(1), condition=condition)
    return int(row.revision) if row else None


def flip(
    subscription_id: str, claim: int, rule_count: int, now: int, only_if: Condition, *marks: Action
) -> Subscription | None:
    """Put a claimed generation in force; None if the condition no longer holds."""
    flipped = update_subscription(
        subscription_id,
        *marks,
        Subscription.generation.set(claim),
        Subscription.rule_count.set(rule_count),
        Subscription.revision.add(1),
        Subscription.updated_at.set(now),
        condition=only_if,
    )
    # The SDK repeats a write whose answer it missed: a condition that fails may have met its own success.
    return flipped or update_subscription(
        subscription_id, Subscription.updated_at.set(now), condition=Subscription.generation == claim
    )


def batch_write(connection: Connection, requests: list[dict[str, Any]]) -> None:
    """Write or delete at most `BATCH` rules, as BatchWriteItem takes them; raise `PutError` if some were not.

    DynamoDB hands back what it had no capacity for, or refuses all: a partition has 1,000 units a second.
    """
    table = RuleRow.Meta.table_name
    left = {table: requests}
    for attempt in range(WRITE_ATTEMPTS):
        try:
            left = connection.dispatch("BatchWriteItem", {"RequestItems": left})["UnprocessedItems"]
        except ClientError as error:
            if error.response["Error"]["Code"] not in THROTTLED:
                raise
        if not left:
            return
        time.sleep(back_off(attempt))
    raise PutError(f"{len(left[table])} rules were not written")
