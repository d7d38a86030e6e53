"""Erasing rules that are out of force: the request, and what it comes to.

    who ends or replaces rules ──▶ CleanupMessage ──▶ queue, whose delay is longer ──▶ erase_dead
    (first the message, then the write)               than any request runs

By the time a message is delivered the tables say which rules are dead. So a crash of the sender leaves nothing behind,
and a message sent in vain erases nothing.

Claims only grow, and only a younger claim is put in force, so every generation below the current one is dead and safe
to erase, and so is one above it whose request has ended. See `clarion.rulesets` for how a generation comes into force.
"""

import time
from collections.abc import Iterable, Iterator
from itertools import batched
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pynamodb.connection import Connection
from pynamodb.expressions.condition import Condition

from clarion.generations import BATCH, NEVER, batch_write, prefix
from clarion.messages import CleanupMessage, DeadTokenMessage
from clarion.tables import WITHOUT_TOKEN, RuleRow, find_subscription

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

type Key = dict[str, dict[str, Any]]
"""Of a rule's row, as BatchWriteItem takes it."""


class CleanupQueue:
    def __init__(self, sqs: "SQSClient", url: str) -> None:
        self._sqs = sqs
        self._url = url

    def send(self, subscription_ids: Iterable[str], through: int = 0) -> None:
        """Raise what the SDK raises. The arguments are as in `CleanupMessage`."""
        message = CleanupMessage(subscription_ids=tuple(map(UUID, subscription_ids)), through=through)
        self._sqs.send_message(QueueUrl=self._url, MessageBody=message.to_json())

    def send_dead_token(self, message: DeadTokenMessage) -> None:
        """For `endings.declare_dead`."""
        self._sqs.send_message(QueueUrl=self._url, MessageBody=message.to_json())

    def send_claim(self, subscription_id: str, claim: int) -> None:
        """For `RuleSets`: what may be left of a set that is about to be written."""
        self.send([subscription_id], claim)


def erase_dead(connection: Connection, subscription_id: str, through: int, *, until: float = NEVER) -> bool:
    """Delete the rules that can't come into force any more; False if time ran out.

    Those are all rules of a subscription that is gone; otherwise, all generations below the current one, and those
    above it up to `through`, a claim whose request has ended. `until` is in seconds of the monotonic clock.
    """
    row = find_subscription(subscription_id, WITHOUT_TOKEN)
    if row is None:
        found = list(_keys(subscription_id))
        # Some networks' subscriptions may be made again under the same id: then not all that was found is dead.
        row = find_subscription(subscription_id, WITHOUT_TOKEN)
    if row is None:
        return _delete(connection, found, until)
    current = int(row.generation)
    dead = [_generations(0, current)]
    if through > current:
        dead.append(_generations(current + 1, through + 1))
    return all(erase(connection, subscription_id, which, until=until) for which in dead)


def erase(
    connection: Connection, subscription_id: str, which: Condition | None = None, *, until: float = NEVER
) -> bool:
    """Delete the rules of dead generations, or all those of a subscription that is gone; False if time ran out."""
    return _delete(connection, _keys(subscription_id, which), until)


def _keys(subscription_id: str, which: Condition | None = None) -> Iterator[Key]:
    found = RuleRow.query(
        subscription_id, which, consistent_read=True, attributes_to_get=["subscription_id", "rule_key"]
    )
    return ({"subscription_id": {"S": rule.subscription_id}, "rule_key": {"B": rule.rule_key}} for rule in found)


def _delete(connection: Connection, keys: Iterable[Key], until: float) -> bool:
    for batch in batched(keys, BATCH, strict=False):
        if time.monotonic() > until:
            return False
        batch_write(connection, [{"DeleteRequest": {"Key": key}} for key in batch])
    return True


def _generations(first: int, end: int) -> Condition:
    """From `first` up to, but without, `end`: no key is as short as a bare generation."""
    return RuleRow.rule_key.between(prefix(first), prefix(end))
