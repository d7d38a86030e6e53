"""Push tokens: how the `tokens` table finds one without storing it, and what happens when a provider declares one dead."""

import hashlib

from pynamodb.connection import Connection
from pynamodb.exceptions import TransactWriteError
from pynamodb.transactions import TransactWrite

from clarion.decisions import NotifyType, SubscriptionStatus
from clarion.tables import Subscription, Token, lost_race

ATTEMPTS = 3
DEAD_SECONDS = 30 * 86_400
"""How long an invalid subscription is still listed; then DynamoDB deletes it by its `ttl`."""


def token_hash(notify_type: NotifyType, token: str) -> bytes:
    """The key of a token's `tokens` row: one token text may exist at more than one provider."""
    return hashlib.sha256(f"{notify_type}:{token}".encode()).digest()


def declare_dead(
    connection: Connection, tried: Subscription, *, reason: str, gone_since: int | None, now: int
) -> Subscription | None:
    """Mark a subscription invalid and free its token for a new registration; returns the row as it is after that.

    An empty generation comes into force: none of its rules counts any more. The caller has them erased.

    Returns None, and changes nothing, if the subscription has gone, has another token than the one that was tried, is
    invalid already, no longer owns its token, or was made after `gone_since`: then the provider speaks of an earlier
    life of the same token. Raises `TransactWriteError` if the row changes again and again meanwhile: try later.
    `gone_since` and `now` are UNIX milliseconds.
    """
    attempt = 0
    while True:
        attempt += 1
        row = next(iter(Subscription.batch_get([tried.subscription_id], consistent_read=True)), None)
        if row is None or row.token != tried.token or row.status != SubscriptionStatus.ACTIVE:
            return None
        if gone_since is not None and row.created_at > gone_since:
            return None
        if not _owns_its_token(row):
            return None
        try:
            _end(connection, row, reason, now)
        except TransactWriteError as error:
            if attempt == ATTEMPTS or not lost_race(error):
                raise
        else:
            return row


def _owns_its_token(row: Subscription) -> bool:
    """Also if the token's row has gone: then it is nobody else's."""
    key = token_hash(NotifyType(row.notify_type), row.token)
    owners = Token.batch_get([key], consistent_read=True)
    return all(owner.subscription_id == row.subscription_id for owner in owners)


def _end(connection: Connection, row: Subscription, reason: str, now: int) -> None:
    """Fails if the row or the token's owner is no longer what it was."""
    revision, ttl = row.revision, now // 1000 + DEAD_SECONDS
    token = Token(token_hash(NotifyType(row.notify_type), row.token))
    with TransactWrite(connection=connection) as write:
        write.update(
            row,
            actions=[
                Subscription.status.set(SubscriptionStatus.INVALID.value),
                Subscription.status_reason.set(reason),
                Subscription.revision.set(revision + 1),
                Subscription.generation.set(revision + 1),
                Subscription.rule_count.set(0),
                Subscription.updated_at.set(now),
                Subscription.ttl.set(ttl),
            ],
            condition=(Subscription.revision == revision) & (Subscription.token == row.token),
        )
        its_own = Token.token_hash.does_not_exist() | (Token.subscription_id == row.subscription_id)
        write.delete(token, condition=its_own)
    row.status, row.status_reason = SubscriptionStatus.INVALID.value, reason
    row.revision, row.generation, row.rule_count = revision + 1, revision + 1, 0
    row.updated_at, row.ttl = now, ttl
