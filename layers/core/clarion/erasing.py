"""Erasing rules that are out of force.

Claims only grow, and only a younger claim flips, so every generation below the current one is dead and safe to erase,
and so is one above it whose request has ended. See `clarion.rulesets` for how a generation comes into force.
"""

import math
import random
import time
from itertools import batched
from typing import Any

from botocore.exceptions import ClientError
from pynamodb.connection import Connection
from pynamodb.exceptions import PutError
from pynamodb.expressions.condition import Condition

from clarion.generations import prefix
from clarion.tables import Rule, Subscription

BATCH = 25
"""The most items of one BatchWriteItem."""
ATTEMPTS = 8
BACKOFF_SECONDS = 0.02
NEVER = math.inf
THROTTLED = {"ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded"}


def erase_dead(connection: Connection, subscription_id: str, through: int, *, until: float = NEVER) -> bool:
    """Delete the rules that can't come into force any more; False if time ran out.

    Those are all rules of a subscription that is gone; otherwise, all generations below the current one, and those
    above it up to `through`, a claim whose request has ended. `until` is in seconds of the monotonic clock.
    """
    row = next(iter(Subscription.batch_get([subscription_id], consistent_read=True)), None)
    if row is None:
        return erase(connection, subscription_id, until=until)
    current = int(row.generation)
    dead = [_generations(0, current)]
    if through > current:
        dead.append(_generations(current + 1, through + 1))
    return all(erase(connection, subscription_id, which, until=until) for which in dead)


def erase(
    connection: Connection, subscription_id: str, which: Condition | None = None, *, until: float = NEVER
) -> bool:
    """Delete the rules of dead generations, or all those of a subscription that is gone; False if time ran out."""
    found = Rule.query(subscription_id, which, consistent_read=True, attributes_to_get=["subscription_id", "rule_key"])
    for batch in batched(found, BATCH, strict=False):
        if time.monotonic() > until:
            return False
        batch_write(connection, [{"DeleteRequest": {"Key": _key(rule)}} for rule in batch])
    return True


def batch_write(connection: Connection, requests: list[dict[str, Any]]) -> None:
    """Write or delete at most `BATCH` rules, in the words of BatchWriteItem; raise `PutError` if some were not.

    DynamoDB hands back what it had no capacity for, or refuses all: a partition has 1,000 units a second.
    """
    table = Rule.Meta.table_name
    left = {table: requests}
    for attempt in range(ATTEMPTS):
        try:
            left = connection.dispatch("BatchWriteItem", {"RequestItems": left})["UnprocessedItems"]
        except ClientError as error:
            if error.response["Error"]["Code"] not in THROTTLED:
                raise
        if not left:
            return
        time.sleep(back_off(attempt))
    raise PutError(f"{len(left[table])} rules did not get through")


def back_off(attempt: int) -> float:
    """Seconds until the next attempt, spread so that rivals part."""
    return random.uniform(0, BACKOFF_SECONDS * 2**attempt)  # noqa: S311 - hides nothing


def _key(rule: Rule) -> dict[str, dict[str, Any]]:
    return {"subscription_id": {"S": rule.subscription_id}, "rule_key": {"B": rule.rule_key}}


def _generations(first: int, end: int) -> Condition:
    """From `first` up to, but without, `end`: no key is as short as a bare generation."""
    return Rule.rule_key.between(prefix(first), prefix(end))
