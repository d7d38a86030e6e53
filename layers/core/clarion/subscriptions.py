"""Registering and removing subscriptions; a token belongs to one subscription, whose row and its own live together."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import uuid4

from pynamodb.connection import Connection
from pynamodb.exceptions import TransactWriteError
from pynamodb.transactions import TransactWrite

from clarion.decisions import Environment, NotifyType, SubscriptionStatus
from clarion.rulesets import LOST_RACE, erase
from clarion.tables import Subscription, Token
from clarion.tokens import token_hash

TRANSACTION_SUBSCRIPTIONS = 50
"""A transaction takes 100 items; a subscription and its token are two."""


@dataclass(frozen=True, slots=True)
class Registration:
    """What a client asks for. Without `app` and `environment`, it is the first app in production."""

    client_id: bytes
    notify_type: NotifyType
    token: str = field(repr=False)
    app: str | None = None
    environment: Environment | None = None


@dataclass(frozen=True, slots=True)
class TokenTaken:
    """Another registration holds the token; for its owner only, `subscription_id` is worth telling."""

    subscription_id: str
    client_id: bytes


def register(connection: Connection, wish: Registration, *, now: int) -> Subscription | TokenTaken:
    """Make a subscription without rules for a token that has none. `now` is in UNIX milliseconds."""
    row = _new(wish, now)
    key = token_hash(wish.notify_type, wish.token)
    owner = Token(key, subscription_id=row.subscription_id, client_id=wish.client_id)
    while True:
        try:
            with TransactWrite(connection=connection) as write:
                write.save(row, condition=Subscription.subscription_id.does_not_exist())
                write.save(owner, condition=Token.token_hash.does_not_exist())
        except TransactWriteError as error:
            if not _lost_race(error):
                raise
        else:
            return row
        holder = next(iter(Token.batch_get([owner.token_hash], consistent_read=True)), None)
        if holder:
            return TokenTaken(holder.subscription_id, holder.client_id)


def of_client(client_id: bytes) -> list[Subscription]:
    """A client's subscriptions by their ids' order; one made in the last moments may still be missing."""
    ids = [row.subscription_id for row in Subscription.by_client.query(client_id)]
    return sorted(Subscription.batch_get(ids, consistent_read=True), key=lambda row: row.subscription_id)


def remove(connection: Connection, subscription_ids: Sequence[str], client_id: bytes) -> list[Subscription] | None:
    """Remove all of the given subscriptions and their rules; None, and none is removed, if one isn't the client's.

    At most `TRANSACTION_SUBSCRIPTIONS` at a time. The subscriptions go at one moment; rules that a crash leaves
    behind belong to nobody and are never in force.
    """
    while True:
        rows = list(Subscription.batch_get(list(set(subscription_ids)), consistent_read=True))
        if len(rows) < len(set(subscription_ids)) or any(row.client_id != client_id for row in rows):
            return None
        if _remove_rows(connection, rows):
            break
    for row in rows:
        erase(connection, row.subscription_id)
    return rows


def _new(wish: Registration, now: int) -> Subscription:
    return Subscription(
        str(uuid4()),
        client_id=wish.client_id,
        notify_type=wish.notify_type.value,
        token=wish.token,
        app=wish.app,
        environment=wish.environment and wish.environment.value,
        status=SubscriptionStatus.ACTIVE.value,
        generation=0,
        rule_count=0,
        revision=0,
        created_at=now,
        updated_at=now,
    )


def _remove_rows(connection: Connection, rows: Sequence[Subscription]) -> bool:
    """False if one of `rows` has meanwhile gone or changed its status: a dead token may be another's by now."""
    try:
        with TransactWrite(connection=connection) as write:
            for row in rows:
                write.delete(row, condition=Subscription.status == row.status)
                if row.status == SubscriptionStatus.ACTIVE:
                    key = token_hash(NotifyType(row.notify_type), row.token)
                    write.delete(Token(key), condition=Token.subscription_id == row.subscription_id)
    except TransactWriteError as error:
        if _lost_race(error):
            return False
        raise
    return True


def _lost_race(error: TransactWriteError) -> bool:
    return any(told and told.code in LOST_RACE for told in error.cancellation_reasons)
