"""SNEW, SCHK and SDEL: a subscription is a queue that is followed for a token, and a rule of the token's.

    SNEW ──▶ NEW ── the source subscribes: PENDING, ACTIVE, INACTIVE; END, DELETED, AUTH, SERVICE, ERR … if it can't
    SDEL ──▶ given up, and gone a day later

A queue has one subscription, of whoever was first with the notifier's key. While a token is dead its queues are followed,
but have no rules: these come back when it is verified again. Another token takes a queue over

    if the one that has it is gone;
    if that one is dead, and the notifier's key is the same;
    if that one is not active, and is of the device that the other is active for: then that one is deleted first.
"""

from collections.abc import Callable, Sequence
from functools import partial, reduce
from hmac import compare_digest
from operator import and_
from typing import NamedTuple

from pynamodb.expressions.condition import Condition, size
from pynamodb.expressions.update import Action
from pynamodb.transactions import TransactWrite

from clarion.backoff import WRITE_ATTEMPTS
from clarion.decisions import SubscriptionStatus
from clarion.networks.simplex.addresses import SmpQueue
from clarion.networks.simplex.bounds import QUEUES_OF_TOKEN, SERVERS_OF_TOKEN
from clarion.networks.simplex.commands import TokenDeleted
from clarion.networks.simplex.errors import ErrorType
from clarion.networks.simplex.ntf import OK, NtfRequest, queue_status, queue_subscribed
from clarion.networks.simplex.ntf_commands import NtfRefusal, SubscribeQueue
from clarion.networks.simplex.queues import FOLLOWED, NEWS, FollowedQueue, ending, is_free
from clarion.networks.simplex.rules import key_of, queue_key
from clarion.networks.simplex.statuses import DEAD, QueueStatus, TokenStatus
from clarion.networks.simplex.tokens import StoredToken, is_as_read, is_gone, server_name
from clarion.rule_events import rule_events
from clarion.rulesets import Changed, RuleSet
from clarion.tables import RuleRow, Subscription, find_subscription, rule_key, transact, unchanged, update_if
from ntf.commands.registration import is_of_device
from ntf.commands.room import make_room
from ntf.commands.store import NtfStore, authorized
from ntf.commands.token import delete_token

_REFUSED = frozenset({TokenStatus.NEW, TokenStatus.REGISTERED, TokenStatus.CONFIRMED})
"""States in which a token takes no commands for subscriptions."""


class _FullError(NtfRefusal):
    """The token has as many queues as it may, or on as many servers."""


def subscribe(store: NtfStore, request: NtfRequest, command: SubscribeQueue) -> bytes:
    key = queue_key(command.queue)
    for _ in range(WRITE_ATTEMPTS):
        token = _usable(store.authorized_token(command.token_id, request))
        found = store.find_queue(key)
        try:
            if _subscribed(store, found, token, command):
                return queue_subscribed(key)
        except _FullError:
            if not make_room(store, token, partial(_given_up, store, token)):
                raise
    raise NtfRefusal(ErrorType.STORE)


def check(store: NtfStore, request: NtfRequest) -> bytes:
    queue, _ = _owned(store, request)
    return queue_status(queue.status)


def delete(store: NtfStore, request: NtfRequest) -> bytes:
    for _ in range(WRITE_ATTEMPTS):
        queue, token = _owned(store, request)
        if _given_up(store, token, [queue]):
            return OK
    raise NtfRefusal(ErrorType.STORE)


def _owned(store: NtfStore, request: NtfRequest) -> tuple[FollowedQueue, StoredToken]:
    """Raises `NtfRefusal`: for a stranger after one read, whether there is such a subscription or not."""
    queue = authorized(store.find_queue(request.transmission.entity_id), request)
    return queue, _usable(store.authorized_token(bytes.fromhex(queue.token_id), request))


def _usable(token: StoredToken) -> StoredToken:
    if token.status in _REFUSED or not token.verified:
        raise NtfRefusal(ErrorType.AUTH)
    return token


def _subscribed(store: NtfStore, found: FollowedQueue | None, token: StoredToken, command: SubscribeQueue) -> bool:
    """False if one of the rows has changed meanwhile."""
    if found is None:
        return _added(store, token, command, _Place(is_free(store.clock())))
    if found.token_id != token.token_id:
        return _taken_over(store, found, token, command)
    if not _is_same_key(store, found, command):
        raise NtfRefusal(ErrorType.AUTH)
    if found.ttl != token.ttl and not token.lost_rules:
        # It is left of a token that was forgotten, and registered again.
        return _added(store, token, command, _Place(_is_as_read(found)))
    return found.status in FOLLOWED or _tried_again(store, found)


def _is_same_key(store: NtfStore, found: FollowedQueue, command: SubscribeQueue) -> bool:
    return compare_digest(store.key.open(bytes(found.notifier_key), bytes(found.queue_key)), command.notifier_key)


def _tried_again(store: NtfStore, found: FollowedQueue) -> bool:
    """One that could not be followed."""
    now = max(store.clock(), int(found.changed_at) + 1)
    status = FollowedQueue.status.set(QueueStatus.NEW.value)
    changes = status, FollowedQueue.bucket.set(NEWS), FollowedQueue.changed_at.set(now)
    return update_if(found, *changes, condition=_is_as_read(found))


def _is_as_read(found: FollowedQueue) -> Condition:
    same = FollowedQueue.token_id == found.token_id
    condition: Condition = same & (FollowedQueue.changed_at == found.changed_at)
    return condition


class _Place(NamedTuple):
    """Where a queue's row goes: what must hold of it, of the token that has had it, and when that one changed it."""

    condition: Condition
    before: tuple[str, Condition] | None = None
    changed_at: int = 0


def _taken_over(store: NtfStore, found: FollowedQueue, token: StoredToken, command: SubscribeQueue) -> bool:
    """From another token. False if one of the rows, that token's among them, has changed since it was read."""
    other = store.find_token(found.token_id)
    if other is None or other.alias_of:
        store.send_command(TokenDeleted(token_id=found.token_id), 0)
        unchanged_token = is_gone(store.clock())
    elif other.status in DEAD and _is_same_key(store, found, command):
        unchanged_token = is_as_read(other)
    elif _is_of_proven_device(other, token):
        delete_token(store, other)
        return False
    else:
        raise NtfRefusal(ErrorType.AUTH)
    before = (found.token_id, unchanged_token)
    return _added(store, token, command, _Place(_is_as_read(found), before, int(found.changed_at)))


def _is_of_proven_device(other: StoredToken, token: StoredToken) -> bool:
    """Whether `other` is not active, and of the device that `token` is active for: the code of `other` is pushed there, too."""
    if token.status != TokenStatus.ACTIVE or other.status == TokenStatus.ACTIVE:
        return False
    return is_of_device(other.device_token, token.device_token)


def _added(store: NtfStore, token: StoredToken, command: SubscribeQueue, place: _Place) -> bool:
    """False if one of the rows has changed meanwhile."""
    row, now = _row(store, token, command, place.changed_at + 1), store.clock()
    subscription = _active(token)
    if (subscription.rule_count if subscription else token.added) >= QUEUES_OF_TOKEN:
        raise _FullError(ErrorType.QUOTA)
    changes = _token_changes(token, command.queue, added=subscription is None)
    changed = Changed(subscription, _rule_of(row), {}) if subscription else None

    def write(transaction: TransactWrite) -> None:
        transaction.save(row, condition=place.condition)
        if place.before:
            name, unchanged_token = place.before
            transaction.condition_check(StoredToken, name, condition=unchanged_token)
        if changed:
            _change_rules(transaction, changed, now)
        if changes:
            unchanged_token = StoredToken.status == token.status
            condition = reduce(and_, (change.bound for change in changes), unchanged_token)
            transaction.update(token, actions=[change.action for change in changes], condition=condition)

    return _written(store, write, changed, now)


def _given_up(store: NtfStore, token: StoredToken, queues: Sequence[FollowedQueue]) -> bool:
    """False if one of the rows has changed meanwhile."""
    subscription, now = _active(token), store.clock()
    removed = {key: condition for queue in queues for key, condition in _rule_of(queue).items()}
    changed = Changed(subscription, {}, removed) if subscription else None

    def write(transaction: TransactWrite) -> None:
        for queue in queues:
            # By a clock that is behind, its source would take it for subscribed to again.
            ended_at = max(now, int(queue.changed_at))
            transaction.update(queue, actions=ending(ended_at), condition=_is_as_read(queue))
        if changed:
            _change_rules(transaction, changed, now)

    return _written(store, write, changed, now)


def _row(store: NtfStore, token: StoredToken, command: SubscribeQueue, earliest: int) -> FollowedQueue:
    key = queue_key(command.queue)
    return FollowedQueue(
        key,
        queue=command.queue.encoded,
        notifier_key=store.key.seal(command.notifier_key, key),
        token_id=token.token_id,
        owner_key=bytes(token.owner_key),
        status=QueueStatus.NEW.value,
        bucket=NEWS,
        changed_at=max(store.clock(), earliest),
        ttl=token.ttl,
    )


def _rule_of(row: FollowedQueue) -> RuleSet:
    return {key_of(bytes(row.queue_key)): b""}


def _active(token: StoredToken) -> Subscription | None:
    """The token's subscription, if it has rules that are in force."""
    row = find_subscription(token.subscription_id)
    return row if row and row.status == SubscriptionStatus.ACTIVE else None


class _TokenChange(NamedTuple):
    """`bound` is that other commands have not used up since what the token may have."""

    action: Action
    bound: Condition


def _token_changes(token: StoredToken, queue: SmpQueue, *, added: bool) -> list[_TokenChange]:
    """Raises `_FullError` for one server too many."""
    one_more = _TokenChange(StoredToken.added.add(1), StoredToken.added < QUEUES_OF_TOKEN)
    changes = [one_more] if added else []
    name, known = server_name(queue.server), token.servers or set()
    if name in known:
        return changes
    if len(known) >= SERVERS_OF_TOKEN:
        raise _FullError(ErrorType.QUOTA)
    few = StoredToken.servers.does_not_exist() | (size(StoredToken.servers) < SERVERS_OF_TOKEN)
    return [*changes, _TokenChange(StoredToken.servers.add({name}), few)]


def _change_rules(transaction: TransactWrite, changed: Changed, now: int) -> None:
    row = changed.subscription
    generation = int(row.generation)
    count = row.rule_count + len(changed.added) - len(changed.removed)
    actions = {"revision": row.revision + 1, "rule_count": count, "updated_at": now}
    transaction.update(row, actions=Subscription.actions_of(actions), condition=unchanged(row))
    for key in changed.added:
        transaction.save(RuleRow(row.subscription_id, rule_key(generation, key), key=key))
    for key in changed.removed:
        transaction.delete(RuleRow(row.subscription_id, rule_key(generation, key)))


def _written(store: NtfStore, write: Callable[[TransactWrite], None], changed: Changed | None, now: int) -> bool:
    """`changed` are the token's rules, with its subscription as it was."""
    if not transact(store.connection, write):
        return False
    if changed:
        changed.subscription.revision += 1
        store.record(*rule_events(changed, now))
    return True
