"""What a wallet's requests make of its subscription to an app: it subscribes, updates the scope, or ends it.

A change, its topic and the note of its token are written together, or none of them is. So a token that is noted has done
its work, and all that is left to do for it is to answer.
"""

import hmac
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from uuid import UUID, uuid5

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from pynamodb.connection import Connection
from pynamodb.expressions.condition import Condition
from pynamodb.transactions import TransactWrite

from clarion.backoff import WRITE_ATTEMPTS
from clarion.clock import now_ms
from clarion.command_queue import MayPassError
from clarion.networks.walletconnect.acts import LONG
from clarion.networks.walletconnect.envelope import agreed_key, topic_of
from clarion.networks.walletconnect.projects import DappApp, find_project
from clarion.networks.walletconnect.rules import MAX_TYPES
from clarion.networks.walletconnect.seen import SeenOnce
from clarion.networks.walletconnect.subscriptions import (
    DELETED_SECONDS,
    NotifySubscription,
    NotifySubscriptionState,
    account_key,
    find_notify_subscription,
)
from clarion.networks.walletconnect.topics import FollowedTopic, TopicKind, ending, followed, subscription_ref
from clarion.networks.walletconnect.watchers import MAX_APPS, apps_of, subscribed_app
from clarion.tables import transact
from walletconnect.accepted_tokens import accepted, note_of
from walletconnect.authorization import SignedRequest
from walletconnect.refusals import NotServed, RefusalReason

SCOPE_CHARACTERS, END_REASON_CHARACTERS = 8_000, 200
_NAMESPACE = UUID("5b0c2b53-8f0e-4b3c-9a0d-7c7f4f1e4a52")

type Make = Callable[[NotifySubscription | None], NotifySubscription]
"""The row as a request wants it, made of what it is. Raises `NotServed`."""


class ContendedRow(MayPassError):  # noqa: N818 - it says what was met
    """Others changed what is to be written, at each attempt."""


class Change(NamedTuple):
    """A subscription as a request has left it. `at_ms` is when that one was accepted, in UNIX milliseconds."""

    row: NotifySubscription
    at_ms: int


def change(connection: Connection, app: str, request: SignedRequest, make: Make) -> Change:
    """Raises `NotServed`, or `ContendedRow`."""
    for _ in range(WRITE_ATTEMPTS):
        at_ms, before = accepted(request), find_notify_subscription(app, request.account)
        if at_ms is not None and before is not None:
            return Change(before, at_ms)
        if before is not None and before.changed_iat > request.iat:
            raise NotServed(RefusalReason.OUTDATED)
        unchanged, after = _unchanged(before), make(before)
        if transact(connection, _writes(request, before, after, unchanged)):
            return Change(after, request.arrival.at_ms)
    raise ContendedRow


def subscribe(request: SignedRequest, app: DappApp, agreement_key: X25519PrivateKey, sender: bytes) -> Make:
    """`agreement_key` and `sender` are what the subscription's key is agreed on with, if it gets a new one.

    One that is active keeps its key in the shipped protocol, whose other wallets would lose it. In the document's, each
    wallet computes the key itself.
    """
    scope = scope_of(request, app)

    def make(before: NotifySubscription | None) -> NotifySubscription:
        active = before if before is not None and before.is_active else None
        if active is None and len(apps_of(request.account)) >= MAX_APPS:
            raise NotServed(RefusalReason.TOO_MANY_SUBSCRIPTIONS)
        keeps_key = active is not None and request.profile == "shipped"
        key = active.sym_key if active and keeps_key else agreed_key(agreement_key, sender)
        return NotifySubscription(
            app.app,
            account_key(request.account),
            subscription_id=active.subscription_id if active else subscription_id_of(request),
            account_spelled=request.account,
            sym_key=key,
            topic=topic_of(key),
            state=NotifySubscriptionState.ACTIVE.value,
            **_signed(request, scope),
        )

    return make


def update(request: SignedRequest, app: DappApp) -> Make:
    scope = scope_of(request, app)
    return lambda before: _copy(require_active(before), **_signed(request, scope))


def delete(request: SignedRequest) -> Make:
    """It stays for a while, with the hash of what it was. The document's wallets say why in `sub`."""
    reason = str(request.claims["sub"])[:END_REASON_CHARACTERS] if request.profile == "document" else None

    def make(before: NotifySubscription | None) -> NotifySubscription:
        state = NotifySubscriptionState.DELETED.value
        ttl = request.arrival.at_ms // 1000 + DELETED_SECONDS
        return _copy(require_active(before), state=state, changed_iat=request.iat, end_reason=reason, ttl=ttl)

    return make


def agreement_key_for(request: SignedRequest, subscribe_key: bytes) -> X25519PrivateKey:
    """Ours for one request, made of the app's private key: the same if the request is handled again."""
    return X25519PrivateKey.from_private_bytes(hmac.digest(subscribe_key, request.hash.encode(), "sha256"))


def subscription_id_of(request: SignedRequest) -> str:
    """Of the subscription that the request begins."""
    return str(uuid5(_NAMESPACE, request.hash))


def scope_of(request: SignedRequest, app: DappApp) -> set[str]:
    """The UUIDs of the types that it takes. The document's wallets know types by their names, too. Raises `NotServed`."""
    named: str = request.claims["scp"]
    ids = _ids_by_name(app.project_id) if request.profile == "document" else {}
    try:
        types = {ids.get(one) or str(UUID(one)) for one in named.split()}
    except ValueError:
        raise NotServed(RefusalReason.INVALID_SCOPE) from None
    if len(types) > MAX_TYPES or len(named) > SCOPE_CHARACTERS:
        raise NotServed(RefusalReason.INVALID_SCOPE)
    return types


def _ids_by_name(project_id: str) -> Mapping[str, str]:
    project = find_project(project_id)
    return {type_["name"]: type_id for type_id, type_ in project.types.items()} if project else {}


def _signed(request: SignedRequest, scope: set[str]) -> dict[str, Any]:
    """What a token that subscribes or updates says of the subscription."""
    return {
        "scope": scope or None,
        "hash": request.hash,
        "changed_iat": request.iat,
        "expiry": request.iat + LONG,
        "profile": request.profile,
        "identity_key": request.signer,
    }


def require_active(row: NotifySubscription | None) -> NotifySubscription:
    """Raises `NotServed`."""
    if row is None or not row.is_active:
        raise NotServed(RefusalReason.OUTDATED)
    return row


def _copy(row: NotifySubscription, **changes: object) -> NotifySubscription:
    return NotifySubscription(**{**row.attribute_values, **changes})


def _unchanged(row: NotifySubscription | None) -> Condition:
    if row is None:
        return NotifySubscription.app.does_not_exist()
    same = (NotifySubscription.hash == row.hash) & (NotifySubscription.state == row.state)
    condition: Condition = same & (NotifySubscription.changed_iat == row.changed_iat)
    return condition


def _writes(
    request: SignedRequest, before: NotifySubscription | None, after: NotifySubscription, unchanged: Condition
) -> Callable[[TransactWrite], None]:
    # Ingest looks for what was added lately: by when it is written, however late that is.
    written_ms = now_ms()
    topic = followed(after.topic, TopicKind.SUBSCRIPTION, subscription_ref(after.app, after.account), written_ms)
    begins, ends = before is None or not before.is_active, not after.is_active

    def write(transaction: TransactWrite) -> None:
        transaction.save(note_of(request), condition=SeenOnce.key.does_not_exist())
        transaction.save(after, condition=unchanged)
        if before is None or before.topic != after.topic:
            transaction.save(topic)
        if before is not None and before.topic != after.topic:
            transaction.update(FollowedTopic(before.topic), ending(written_ms))
        if ends:
            transaction.delete(subscribed_app(after.account, after.app))
        elif begins:
            transaction.save(subscribed_app(after.account, after.app))

    return write
