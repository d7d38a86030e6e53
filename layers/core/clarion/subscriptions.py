"""Registering and removing subscriptions; a token belongs to one subscription, whose row and its own live together."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from uuid import uuid4

from pynamodb.connection import Connection
from pynamodb.exceptions import TransactWriteError
from pynamodb.transactions import TransactWrite

from clarion.channels import Channel
from clarion.decisions import Environment, SubscriptionStatus
from clarion.generations import WRITE_ATTEMPTS, back_off
from clarion.rulesets import Owner, Unchanged
from clarion.tables import Subscription, Token, lost_race
from clarion.tokens import free_token, token_hash

TRANSACTION_SUBSCRIPTIONS = 50
"""A transaction takes 100 items; a subscription and its token are two."""


@dataclass(frozen=True, slots=True)
class Registration:
    """What a client asks for. Without `app` and `environment`, it is the first app in production."""

    network: str
    client_id: bytes
    channel: Channel
    token: str = field(repr=False)
    app: str | None = None
    environment: Environment | None = None

    @property
    def owner(self) -> Owner:
        return Owner(self.network, self.client_id)


@dataclass(frozen=True, slots=True)
class TokenTaken:
    """Another registration in the same network holds the token; nobody but its owner may learn `subscription_id`."""

    subscription_id: str
    owner: Owner


def register(connection: Connection, registration: Registration, *, now: int) -> Subscription | TokenTaken | Unchanged:
    """Make a subscription without rules for a token that has none. `now` is in UNIX milliseconds."""
    row = _new(registration, now)
    key = token_hash(registration.channel, registration.token)
    held = Token(key, row.network, subscription_id=row.subscription_id, client_id=registration.client_id)
    for attempt in range(WRITE_ATTEMPTS):
        try:
            with TransactWrite(connection=connection) as write:
                write.save(row, condition=Subscription.subscription_id.does_not_exist())
                write.save(held, condition=Token.token_hash.does_not_exist())
        except TransactWriteError as error:
            if not lost_race(error):
                raise
        else:
            return row
        if taken := holder(registration):
            return taken
        time.sleep(back_off(attempt))
    return Unchanged.CONTENDED


def holder(registration: Registration) -> TokenTaken | None:
    """Whose the token is now, in the registration's network."""
    key = token_hash(registration.channel, registration.token), registration.network
    row = next(iter(Token.batch_get([key], consistent_read=True)), None)
    return TokenTaken(row.subscription_id, Owner(row.holder, row.client_id)) if row else None


def of_owner(owner: Owner) -> list[Subscription]:
    """A client's subscriptions by their ids' order; one made in the last moments may still be missing."""
    ids = [row.subscription_id for row in Subscription.by_client.query(owner.client_id)]
    rows = Subscription.batch_get(ids, consistent_read=True)
    return sorted((row for row in rows if owner.owns(row)), key=lambda row: row.subscription_id)


def remove(
    connection: Connection,
    subscription_ids: Sequence[str],
    owner: Owner,
    *,
    request_cleanup: Callable[[], None] = lambda: None,
) -> list[Subscription] | Unchanged:
    """Remove all of the given subscriptions; none is removed if one isn't the owner's.

    At most `TRANSACTION_SUBSCRIPTIONS` at a time. They go at one moment. Their rules stay behind, never in force:
    `request_cleanup` is called once they are known to be the owner's and before they go, or the caller erases them.
    """
    for attempt in range(WRITE_ATTEMPTS):
        rows = list(Subscription.batch_get(list(set(subscription_ids)), consistent_read=True))
        if len(rows) < len(set(subscription_ids)) or not all(map(owner.owns, rows)):
            return Unchanged.NOT_FOUND
        if attempt == 0:
            request_cleanup()
        if _remove_rows(connection, rows):
            return rows
        time.sleep(back_off(attempt))
    return Unchanged.CONTENDED


def _new(registration: Registration, now: int) -> Subscription:
    return Subscription(
        str(uuid4()),
        client_id=registration.client_id,
        network=registration.network,
        channel=registration.channel.value,
        token=registration.token,
        app=registration.app,
        environment=registration.environment and registration.environment.value,
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
                    free_token(write, row)
    except TransactWriteError as error:
        if lost_race(error):
            return False
        raise
    return True
