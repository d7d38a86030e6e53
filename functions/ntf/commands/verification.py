"""TVFY makes a token active, and deletes all others for the same device.

TVFY ──▶ ACTIVE, `follow_up` ── what came while it was not is pushed ──▶ ACTIVE

So whoever repeats it after a crash gets what is left to do, and else nothing: a token may be verified as often as its agent
likes.
"""

from hmac import compare_digest

from pynamodb.transactions import TransactWrite

from clarion.backoff import WRITE_ATTEMPTS
from clarion.decisions import SubscriptionStatus
from clarion.networks import SIMPLEX
from clarion.networks.simplex.commands import TokenRevived, token_id_of
from clarion.networks.simplex.errors import ErrorType
from clarion.networks.simplex.ntf import OK, NtfRequest
from clarion.networks.simplex.ntf_commands import DeviceToken, NtfRefusal, VerifyToken
from clarion.networks.simplex.statuses import ALIVE, TokenStatus
from clarion.networks.simplex.tokens import StoredToken, is_as_read, keep_alias
from clarion.subscription_events import SubscriptionChanged
from clarion.tables import Subscription, Token, actions_of, find_subscription, transact, unchanged, update_if
from clarion.tokens import hash_of, token_of
from clarion.wake_ups import add_wake_up
from ntf.commands.registration import is_of_device
from ntf.commands.store import NtfStore
from ntf.commands.token import delete_token


def verify(store: NtfStore, request: NtfRequest, command: VerifyToken) -> bytes:
    for _ in range(WRITE_ATTEMPTS):
        row = store.authorized_token(request.transmission.entity_id, request)
        if row.status not in ALIVE or not compare_digest(store.opened(row).code, command.code):
            raise NtfRefusal(ErrorType.AUTH)
        if row.status == TokenStatus.ACTIVE or _activate(store, row):
            if row.follow_up:
                follow_up(store, row)
            return OK
    raise NtfRefusal(ErrorType.STORE)


def _activate(store: NtfStore, row: StoredToken) -> bool:
    """`row` is as written then. False if one of the rows has changed meanwhile."""
    before = find_subscription(row.subscription_id)
    if before is None or before.status == SubscriptionStatus.INVALID:
        # Its token has just been found dead: the worker is about to say so.
        raise NtfRefusal(ErrorType.AUTH)
    if row.lost_rules:
        store.send_command(TokenRevived(token_id=row.token_id), 0)
    now = store.clock()
    changes = {"status": SubscriptionStatus.ACTIVE.value, "revision": before.revision + 1, "ttl": None}
    changes |= {"created_at": max(now, int(before.created_at)), "updated_at": now}
    after = Subscription(**(before.attribute_values | changes))

    def write(transaction: TransactWrite) -> None:
        of_token = {"status": TokenStatus.ACTIVE.value, "verified": True, "follow_up": True, "ttl": None}
        transaction.update(row, actions=actions_of(StoredToken, of_token), condition=is_as_read(row))
        keep_alias(transaction, row, None)
        transaction.update(before, actions=Subscription.actions_of(changes), condition=unchanged(before))
        transaction.save(token_of(after))
        add_wake_up(transaction, after)

    if not transact(store.connection, write):
        return False
    row.follow_up = True
    store.record(SubscriptionChanged.of(after, now))
    return True


def follow_up(store: NtfStore, row: StoredToken) -> None:
    """A crash or a refusal on the way leaves the mark, so that it is done again. Raises `NtfRefusal`."""
    subscription = find_subscription(row.subscription_id)
    if subscription is not None and subscription.status == SubscriptionStatus.ACTIVE:
        _delete_others(store, row, subscription)
        if row.verified:
            _push_missed(store, subscription)
    same = StoredToken.registered_at == row.registered_at
    update_if(row, StoredToken.follow_up.set(False), condition=same)


def _delete_others(store: NtfStore, row: StoredToken, subscription: Subscription) -> None:
    """Whoever has the code has the device, and so all that is registered for it is its own. Raises `NtfRefusal`."""
    for holder in Token.query(hash_of(subscription), consistent_read=True):
        if holder.holder.startswith(f"{SIMPLEX}/") and holder.subscription_id != subscription.subscription_id:
            _delete_other(store, token_id_of(bytes(holder.client_id)), row.device_token)


def _delete_other(store: NtfStore, token_id: str, device: DeviceToken) -> None:
    """Unless it is of another device by now. Raises `NtfRefusal`."""
    for _ in range(WRITE_ATTEMPTS):
        other = store.find_token(token_id)
        if other is None or other.alias_of or not is_of_device(other.device_token, device):
            return
        if delete_token(store, other):
            return
    raise NtfRefusal(ErrorType.STORE)


def _push_missed(store: NtfStore, subscription: Subscription) -> None:
    found = store.newest(subscription.subscription_id)
    if found.number > found.sent:
        store.push_newest(subscription, found.number)
