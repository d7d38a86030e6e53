"""A token that waits for its code: what becomes of its rows, and how long they are kept.

Its queues are followed, and what they bring is kept for it; if it is never verified, all of it is forgotten.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from pynamodb.transactions import TransactWrite

from clarion.decisions import SubscriptionStatus
from clarion.networks.simplex.bounds import INVALID_SECONDS, UNVERIFIED_SECONDS, VERIFIED_SECONDS
from clarion.networks.simplex.commands import TokenReplaced
from clarion.networks.simplex.ntf_commands import DeviceToken
from clarion.networks.simplex.statuses import TokenStatus
from clarion.networks.simplex.tokens import StoredToken, delete_alias, is_as_read, keep_alias, token_id
from clarion.subscription_events import SubscriptionChanged
from clarion.tables import Subscription, actions_of, transact, unchanged
from clarion.tokens import free_token
from clarion.wake_ups import remove_wake_up
from ntf.commands.store import NtfStore

CODE_BYTES = 32


class Changes(NamedTuple):
    """Of a token's row and of its subscription's, by their attributes."""

    of_token: Mapping[str, Any] = MappingProxyType({})
    of_subscription: Mapping[str, Any] = MappingProxyType({})


def alias_for(store: NtfStore, row: StoredToken, token: DeviceToken) -> str | None:
    """The id that would follow from the other token, unless it is the row's own, or leads to another one."""
    derived = token_id(store.key, token, bytes(row.owner_key))
    found = None if derived == row.token_id else store.find_token(derived)
    is_taken = derived == row.token_id or (found is not None and found.alias_of != row.token_id)
    return None if is_taken else derived


def wait_for_code(store: NtfStore, row: StoredToken, before: Subscription, changes: Changes) -> Subscription | None:
    """The subscription, which is pending now; None if somebody else has changed one of the rows meanwhile."""
    # No two registrations of a token have the same time, by which the worker tells them apart.
    now = max(store.clock(), int(row.registered_at) + 1, int(before.created_at) + 1)
    ttl = now // 1000 + (INVALID_SECONDS if row.verified else UNVERIFIED_SECONDS)
    of_token = {"alias": row.alias, **changes.of_token, **_waiting_token(row, before, now), "ttl": ttl}
    of_subscription = {**changes.of_subscription, **_waiting_subscription(before, now), "ttl": ttl}
    after = Subscription(**(before.attribute_values | of_subscription))
    if row.verified:
        store.send_command(TokenReplaced(token_id=row.token_id), VERIFIED_SECONDS)

    def write(transaction: TransactWrite) -> None:
        transaction.update(row, actions=actions_of(StoredToken, of_token), condition=is_as_read(row))
        transaction.update(before, actions=Subscription.actions_of(of_subscription), condition=unchanged(before))
        if before.status == SubscriptionStatus.ACTIVE:
            free_token(transaction, before)
        remove_wake_up(transaction, before)
        _change_alias(transaction, row, of_token["alias"], ttl, store.clock())

    if not transact(store.connection, write):
        return None
    store.record(SubscriptionChanged.of(after, now))
    return after


def _waiting_token(row: StoredToken, before: Subscription, now: int) -> Mapping[str, Any]:
    lost = row.lost_rules or (row.verified and before.status == SubscriptionStatus.INVALID)
    return {"status": TokenStatus.REGISTERED.value, "lost_rules": lost, "registered_at": now}


def _waiting_subscription(before: Subscription, now: int) -> Mapping[str, Any]:
    state, revision = SubscriptionStatus.PENDING.value, before.revision + 1
    return {"status": state, "status_reason": None, "revision": revision, "created_at": now, "updated_at": now}


def _change_alias(write: TransactWrite, row: StoredToken, alias: str | None, ttl: int, now: int) -> None:
    """A transaction takes one write of a row."""
    if alias == row.alias:
        keep_alias(write, row, ttl)
        return
    delete_alias(write, row)
    if alias is not None:
        ours = StoredToken.alias_of == row.token_id
        free = StoredToken.token_id.does_not_exist() | (StoredToken.ttl <= now // 1000) | ours
        write.save(StoredToken(alias, alias_of=row.token_id, ttl=ttl), condition=free)
