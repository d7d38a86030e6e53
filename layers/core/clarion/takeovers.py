"""A token's way from one subscription to another: one transaction, so that it has one owner at every moment."""

from collections.abc import Callable
from typing import Any

from pynamodb.connection import Connection
from pynamodb.transactions import TransactWrite

from clarion.decisions import SubscriptionStatus
from clarion.endings import end
from clarion.proofs import ATTRIBUTES, REPLACED
from clarion.tables import Subscription, Token, find_subscription, transact, unchanged
from clarion.tokens import hash_of, held_token, holder_of, token_of
from clarion.wake_ups import add_wake_up, remove_expiry


def take_over(
    connection: Connection, row: Subscription, *, now: int, request_cleanup: Callable[[str], None]
) -> list[Subscription] | None:
    """Make a pending subscription active, and its token its own; returns it, and before it the one that this ends.

    None if one of the rows, or who holds the token, has meanwhile changed. `request_cleanup` is called with the id of
    the one to be ended before it is. The new one counts as made now, and keeps the code's hash: see `proofs.is_right`.
    """
    held = held_token(holder_of(row.network, row.subscription_id), hash_of(row))
    holder = _holding(held, row) if held else None
    changes: dict[str, Any] = {
        "status": SubscriptionStatus.ACTIVE.value,
        "revision": row.revision + 1,
        "created_at": now,
    }
    changes |= {"updated_at": now, **dict.fromkeys(ATTRIBUTES), "proof_hash": row.proof_hash, "ttl": None}
    active = Subscription(**(row.attribute_values | changes))
    ended = list[Subscription]()

    def write(transaction: TransactWrite) -> None:
        same_code = Subscription.proof_hash == row.proof_hash
        transaction.update(row, actions=Subscription.actions_of(changes), condition=unchanged(row) & same_code)
        as_read = Token.subscription_id == held.subscription_id if held else Token.token_hash.does_not_exist()
        transaction.save(token_of(active), condition=as_read)
        add_wake_up(transaction, active)
        remove_expiry(transaction, row)
        if holder:
            ended.append(end(transaction, holder, SubscriptionStatus.INVALID, REPLACED, now))

    if holder:
        request_cleanup(holder.subscription_id)
    return [*ended, active] if transact(connection, write) else None


def _holding(held: Token, row: Subscription) -> Subscription | None:
    """The subscription that holds the token of `row`, if it is what its row of `tokens` says."""
    found = find_subscription(held.subscription_id)
    holds = found and found.status == SubscriptionStatus.ACTIVE and hash_of(found) == hash_of(row)
    return found if holds else None
