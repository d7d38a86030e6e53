"""Registering and removing subscriptions; a token belongs to one subscription, whose row and its own live together."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from pynamodb.connection import Connection
from pynamodb.models import Model
from pynamodb.transactions import TransactWrite

from clarion.backoff import WRITE_ATTEMPTS, back_off
from clarion.channels import CHANNELS, Channel
from clarion.decisions import Environment, SubscriptionStatus
from clarion.endings import ttl_of
from clarion.proofs import ATTRIBUTES, PENDING_MS, ProofCode, status_at
from clarion.rulesets import Owner, Unchanged
from clarion.tables import Subscription, Token, find_subscription, transact, unchanged
from clarion.tokens import free_token, hash_of, held_token, holder_of, token_hash, token_of
from clarion.wake_ups import WAKING, add_expiry, add_wake_up, change_wake_up, remove_expiry, remove_wake_up


@dataclass(frozen=True, slots=True)
class Registration:
    """What a client asks for. Without `app` and `environment`, it is the first app in production.

    A network whose clients name their subscriptions themselves gives the `subscription_id`: the same for the same one,
    whenever it is made, and no other client's. `network_data` is as in `Subscription`. With a `code` the token is still to be proven.
    """

    network: str
    client_id: bytes
    channel: Channel
    token: str = field(repr=False)
    app: str | None = None
    environment: Environment | None = None
    subscription_id: str | None = None
    network_data: bytes | None = field(default=None, repr=False)
    device_key: bytes | None = None
    wake_every_minutes: int | None = None
    code: ProofCode | None = None

    @property
    def owner(self) -> Owner:
        return Owner(self.network, self.client_id)


type ExtraWrites = Callable[[TransactWrite], None]
"""Adds what a network keeps of its own beside a subscription to the transaction that changes it."""


def no_extra_writes(_: TransactWrite) -> None:
    """What most networks keep."""


@dataclass(frozen=True, slots=True)
class TokenTaken:
    """Another registration in the same network holds the token; nobody but its owner may learn `subscription_id`.

    Where the network is additive, it is one of the same id.
    """

    subscription_id: str
    owner: Owner


def register(
    connection: Connection, registration: Registration, *, now: int, extra_writes: ExtraWrites = no_extra_writes
) -> Subscription | TokenTaken | Unchanged:
    """Make a subscription without rules for a token that has none. `now` is in UNIX milliseconds.

    A pending one leaves the token to whoever holds it.
    """
    row = _new(registration, now)

    def write(transaction: TransactWrite) -> None:
        transaction.save(row, condition=Subscription.subscription_id.does_not_exist())
        if registration.code is None:
            transaction.save(token_of(row), condition=Token.token_hash.does_not_exist())
        add_wake_up(transaction, row)
        add_expiry(transaction, row)
        extra_writes(transaction)

    # Whose id is given is written once: another that is there by now is its caller's to see to.
    return _written(connection, registration, write, row, 1 if registration.subscription_id else WRITE_ATTEMPTS)


def move(
    connection: Connection,
    row: Subscription,
    registration: Registration,
    *,
    now: int,
    extra_writes: ExtraWrites = no_extra_writes,
) -> Subscription | TokenTaken | Unchanged:
    """Give a subscription the registration's token and app, and life again if it was dead.

    It keeps its rules; a dead one has none. It keeps the options that the registration doesn't name, but for those that
    its new channel does not have. It counts as made now: what a provider says of an earlier registration of the same
    token is not about it. But the day in which a pending one has to be proven goes on, if it had a token. `CONTENDED` if
    `row` is no longer what it was.
    """
    changes = _changes(row, registration, now)
    moved = Subscription(**(row.attribute_values | changes))
    keeps_token = hash_of(row) == hash_of(moved)

    def write(transaction: TransactWrite) -> None:
        transaction.update(row, actions=Subscription.actions_of(changes), condition=unchanged(row))
        if registration.code is None:
            free = Token.token_hash.does_not_exist()
            still_its = Token.subscription_id == row.subscription_id
            transaction.save(token_of(moved), condition=(free | still_its) if keeps_token else free)
        if row.status == SubscriptionStatus.ACTIVE and not keeps_token:
            free_token(transaction, row)
        change_wake_up(transaction, row, moved)
        _change_expiry(transaction, row, moved)
        extra_writes(transaction)

    return _written(connection, registration, write, moved, attempts=1)


def _written(
    connection: Connection,
    registration: Registration,
    write: Callable[[TransactWrite], None],
    row: Subscription,
    attempts: int,
) -> Subscription | TokenTaken | Unchanged:
    """`row`, if it could be written, or who holds its token."""
    for attempt in range(attempts):
        if transact(connection, write):
            return row
        if row.status == SubscriptionStatus.ACTIVE:
            if taken := holder(registration):
                return taken
            _free_orphan(connection, registration)
        time.sleep(back_off(attempt))
    return Unchanged.CONTENDED


def holder(asked: Registration | Subscription) -> TokenTaken | None:
    """Whose the token is now, in the network of `asked`; a token whose subscription is gone is nobody's."""
    held = _held(asked)
    if held is None or find_subscription(held.subscription_id) is None:
        return None
    return TokenTaken(held.subscription_id, Owner(asked.network, held.client_id))


def _held(asked: Registration | Subscription) -> Token | None:
    holder_name = holder_of(asked.network, asked.subscription_id)
    return held_token(holder_name, token_hash(Channel(asked.channel), asked.token))


def _free_orphan(connection: Connection, registration: Registration) -> None:
    """Delete the row of a token whose subscription is gone."""
    held = _held(registration)
    if held is None:
        return

    def write(transaction: TransactWrite) -> None:
        # It deletes nothing, but fails if the subscription has been made again meanwhile.
        gone = Subscription.subscription_id.does_not_exist()
        transaction.delete(Subscription(held.subscription_id), condition=gone)
        transaction.delete(held, condition=Token.subscription_id == held.subscription_id)

    transact(connection, write)


def change(
    connection: Connection,
    row: Subscription,
    changes: Mapping[str, Any],
    *,
    now: int,
    extra_writes: ExtraWrites = no_extra_writes,
) -> Subscription | None:
    """Change attributes by their names, or remove those that are None; None if `row` is no longer what it was."""
    changes = {**changes, "revision": row.revision + 1, "updated_at": now}
    changed = Subscription(**(row.attribute_values | changes))

    def write(transaction: TransactWrite) -> None:
        transaction.update(row, actions=Subscription.actions_of(changes), condition=unchanged(row))
        change_wake_up(transaction, row, changed)
        extra_writes(transaction)

    return changed if transact(connection, write) else None


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
    kept_beside: type[Model] | None = None,
) -> list[Subscription] | Unchanged:
    """Remove all of the given subscriptions; none is removed if one isn't the owner's.

    `kept_beside` is the owner's network's model with a row under a subscription's id, which goes with it. At most
    `TRANSACTION_SUBSCRIPTIONS` at a time. They go at one moment. Their rules stay behind, never in force:
    `request_cleanup` is called once they are known to be the owner's and before they go, or the caller erases them.
    """
    for attempt in range(WRITE_ATTEMPTS):
        rows = list(Subscription.batch_get(list(set(subscription_ids)), consistent_read=True))
        if len(rows) < len(set(subscription_ids)) or not all(map(owner.owns, rows)):
            return Unchanged.NOT_FOUND
        if attempt == 0:
            request_cleanup()
        if _remove_rows(connection, rows, kept_beside):
            return rows
        time.sleep(back_off(attempt))
    return Unchanged.CONTENDED


def _new(registration: Registration, now: int) -> Subscription:
    """One with a given id begins after all generations of an earlier one: their rules may be there still."""
    first = 0 if registration.subscription_id is None else now
    return Subscription(
        registration.subscription_id or str(uuid4()),
        client_id=registration.client_id,
        network=registration.network,
        channel=registration.channel.value,
        token=registration.token,
        app=registration.app,
        environment=registration.environment and registration.environment.value,
        generation=first,
        rule_count=0,
        revision=first,
        began_at=now,
        created_at=now,
        updated_at=now,
        network_data=registration.network_data,
        device_key=registration.device_key,
        wake_every_minutes=registration.wake_every_minutes,
        **_state(registration.code, now),
    )


def _state(code: ProofCode | None, created_at: int) -> dict[str, Any]:
    """Its status, what its row has of the code, and when DynamoDB removes it if it is neither proven nor ended."""
    if code is None:
        return {"status": SubscriptionStatus.ACTIVE.value, "ttl": None, **dict.fromkeys(ATTRIBUTES)}
    return {"status": SubscriptionStatus.PENDING.value, "ttl": ttl_of(created_at + PENDING_MS), **code.attributes}


def _changes(row: Subscription, registration: Registration, now: int) -> dict[str, Any]:
    """The attributes of `row` that a registration changes, by their names; None for those that go."""
    status, channel = status_at(row, now), registration.channel
    device_key = row.device_key if CHANNELS[channel].takes_device_key else None
    wake_every_minutes = row.wake_every_minutes if channel in WAKING else None
    stays_pending = registration.code is not None and status is SubscriptionStatus.PENDING and bool(row.token)
    created_at = int(row.created_at) if stays_pending else now
    return {
        "channel": channel.value,
        "token": registration.token,
        "app": registration.app,
        "environment": registration.environment and registration.environment.value,
        "status_reason": None,
        "network_data": registration.network_data,
        "device_key": registration.device_key or device_key,
        "wake_every_minutes": registration.wake_every_minutes or wake_every_minutes,
        "revision": row.revision + 1,
        "began_at": row.began_at if status.has_rules else now,
        "created_at": created_at,
        "updated_at": now,
        **_state(registration.code, created_at),
    }


def _change_expiry(write: TransactWrite, before: Subscription, after: Subscription) -> None:
    """A transaction takes one write of an entry, and both may have the same."""
    if after.status == SubscriptionStatus.PENDING:
        add_expiry(write, after)
    else:
        remove_expiry(write, before)


def _remove_rows(connection: Connection, rows: Sequence[Subscription], kept_beside: type[Model] | None) -> bool:
    """False if one of `rows` has meanwhile gone or changed: it may have another token and another wake-up by now."""

    def write(transaction: TransactWrite) -> None:
        for row in rows:
            transaction.delete(row, condition=unchanged(row))
            if row.status == SubscriptionStatus.ACTIVE:
                free_token(transaction, row)
            remove_wake_up(transaction, row)
            remove_expiry(transaction, row)
            if kept_beside:
                transaction.delete(kept_beside(row.subscription_id))

    return transact(connection, write)
