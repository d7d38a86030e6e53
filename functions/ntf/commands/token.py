"""TCHK, TCRN and TDEL: a token's status, how often it is woken, and its end.

TDEL ──▶ the command to give its queues up, then the rows
"""

from pynamodb.transactions import TransactWrite

from clarion import subscriptions
from clarion.backoff import WRITE_ATTEMPTS
from clarion.decisions import SubscriptionStatus
from clarion.networks.simplex.bounds import WAKE_UP_MINUTES
from clarion.networks.simplex.commands import TokenDeleted
from clarion.networks.simplex.errors import ErrorType
from clarion.networks.simplex.ntf import OK, NtfRequest, token_status
from clarion.networks.simplex.ntf_commands import NtfProvider, NtfRefusal, ScheduleWakeUps
from clarion.networks.simplex.statuses import TokenStatus
from clarion.networks.simplex.tokens import StoredToken, delete_alias, is_as_read
from clarion.subscription_events import SubscriptionChanged
from clarion.tables import find_subscription, transact, unchanged
from clarion.tokens import free_token
from clarion.wake_ups import remove_wake_up
from ntf.commands.store import NtfStore

COMMAND_DELAY_SECONDS = 60
"""After which the worker has it: by then the caller has written the deletion, or never will."""


def check(store: NtfStore, request: NtfRequest) -> bytes:
    row = store.authorized_token(request.transmission.entity_id, request)
    return token_status(TokenStatus(row.status), request.session.version)


def schedule(store: NtfStore, request: NtfRequest, command: ScheduleWakeUps) -> bytes:
    """A longer period than the longest that is kept counts as that."""
    row = store.authorized_token(request.transmission.entity_id, request)
    if 0 < command.minutes < WAKE_UP_MINUTES.start:
        raise NtfRefusal(ErrorType.QUOTA)
    if row.device_token.provider is NtfProvider.NONE:
        return OK
    minutes = min(command.minutes, WAKE_UP_MINUTES.stop - 1) or None
    for _ in range(WRITE_ATTEMPTS):
        found = find_subscription(row.subscription_id)
        if found is None:
            raise NtfRefusal(ErrorType.AUTH)
        if found.wake_every_minutes == minutes:
            return OK
        changes = {"wake_every_minutes": minutes}
        if subscriptions.change(store.connection, found, changes, now=store.clock()):
            return OK
    raise NtfRefusal(ErrorType.STORE)


def delete(store: NtfStore, request: NtfRequest) -> bytes:
    for _ in range(WRITE_ATTEMPTS):
        if delete_token(store, store.authorized_token(request.transmission.entity_id, request)):
            return OK
    raise NtfRefusal(ErrorType.STORE)


def delete_token(store: NtfStore, row: StoredToken) -> bool:
    """False if it, or its subscription, has changed meanwhile."""
    store.send_command(TokenDeleted(token_id=row.token_id), COMMAND_DELAY_SECONDS)
    subscription = find_subscription(row.subscription_id)

    def write(transaction: TransactWrite) -> None:
        transaction.delete(row, condition=is_as_read(row))
        delete_alias(transaction, row)
        if subscription is None:
            return
        transaction.delete(subscription, condition=unchanged(subscription))
        if subscription.status == SubscriptionStatus.ACTIVE:
            free_token(transaction, subscription)
        remove_wake_up(transaction, subscription)

    if not transact(store.connection, write):
        return False
    if subscription:
        store.record(SubscriptionChanged.of_removed(subscription, store.clock()))
    return True
