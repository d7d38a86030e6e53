"""Push tokens: how the `tokens` table finds one without storing it, and what happens when a provider declares one dead."""

import hashlib

from pynamodb.connection import Connection
from pynamodb.exceptions import TransactWriteError
from pynamodb.transactions import TransactWrite

from clarion.decisions import NotifyType, SubscriptionStatus
from clarion.tables import Subscription, Token

CONDITION_FAILED = "ConditionalCheckFailed"


def token_hash(notify_type: NotifyType, token: str) -> bytes:
    """The key of a token's `tokens` row: one token text may exist at more than one provider."""
    return hashlib.sha256(f"{notify_type}:{token}".encode()).digest()


def declare_dead(
    connection: Connection, subscription: Subscription, *, reason: str, gone_since: int | None, now: int
) -> bool:
    """Mark `subscription`, as it was read for the attempt, invalid and free its token for a new registration.

    Returns False, and changes nothing, if the subscription has meanwhile gone, another token, or become invalid
    already, or if it was made after `gone_since`: the provider then speaks of an earlier life of the same token.
    `gone_since` and `now` are UNIX milliseconds.
    """
    still_tried = (Subscription.token == subscription.token) & (Subscription.status == SubscriptionStatus.ACTIVE.value)
    if gone_since is not None:
        still_tried &= Subscription.created_at <= gone_since
    key = token_hash(NotifyType(subscription.notify_type), subscription.token)
    its_own = Token.token_hash.does_not_exist() | (Token.subscription_id == subscription.subscription_id)
    try:
        with TransactWrite(connection=connection) as write:
            write.update(
                subscription,
                actions=[
                    Subscription.status.set(SubscriptionStatus.INVALID.value),
                    Subscription.status_reason.set(reason),
                    Subscription.updated_at.set(now),
                ],
                condition=still_tried,
            )
            write.delete(Token(key), condition=its_own)
    except TransactWriteError as error:
        if any(told and told.code == CONDITION_FAILED for told in error.cancellation_reasons):
            return False
        raise
    return True
