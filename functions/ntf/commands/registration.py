"""TNEW and TRPL: a token, or another instead of it. Both push a code to it, which `verification` takes.

    ──TNEW──▶ REGISTERED ──TNEW──▶ the same code again
                  ▲
                  └── TNEW if it was INVALID, TRPL whatever it was

Without the code the token gets no other push; an agent that is told nothing registers it again, and is answered the same.
"""

from collections.abc import Mapping
from hmac import compare_digest
from secrets import token_bytes
from typing import Any

from nacl.public import PrivateKey
from pynamodb.transactions import TransactWrite

from clarion.addresses import canonical
from clarion.backoff import WRITE_ATTEMPTS
from clarion.channels import Channel
from clarion.decisions import SubscriptionStatus
from clarion.networks import SIMPLEX
from clarion.networks.simplex.bounds import UNVERIFIED_SECONDS
from clarion.networks.simplex.composing import sealed_for_dispatch
from clarion.networks.simplex.credentials import dh_key, public_key
from clarion.networks.simplex.encoding import MalformedSimplex
from clarion.networks.simplex.errors import ErrorType
from clarion.networks.simplex.ntf import OK, NtfRequest, token_registered
from clarion.networks.simplex.ntf_commands import DeviceToken, NtfProvider, NtfRefusal, RegisterToken, ReplaceToken
from clarion.networks.simplex.payload import token_secret
from clarion.networks.simplex.settings import SimplexOptions
from clarion.networks.simplex.statuses import ALIVE, TokenStatus
from clarion.networks.simplex.tokens import (
    StoredToken,
    TokenSecrets,
    is_gone,
    token_id,
)
from clarion.subscription_events import SubscriptionChanged
from clarion.tables import Subscription, find_subscription, transact
from ntf.commands.allowances import require_code
from ntf.commands.codes import CODE_BYTES, Changes, alias_for, wait_for_code
from ntf.commands.store import NtfStore


def register(store: NtfStore, request: NtfRequest, command: RegisterToken) -> bytes:
    if not request.is_authorized_by(public_key(command.owner_key)):
        raise NtfRefusal(ErrorType.AUTH)
    address = address_of(store, command.token)
    if command.token.provider is not NtfProvider.NONE:
        require_code(store, request, address)
    derived = token_id(store.key, command.token, command.owner_key)
    for _ in range(WRITE_ATTEMPTS):
        found = _find(store, command.token, derived)
        reply = _repeat(store, command, found) if found else _add(store, command, derived)
        if reply is not None:
            return reply
    raise NtfRefusal(ErrorType.STORE)


def replace(store: NtfStore, request: NtfRequest, command: ReplaceToken) -> bytes:
    """Its queues stay, but nothing is pushed until the other token is verified."""
    row = store.authorized_token(request.transmission.entity_id, request)
    address = address_of(store, command.token)
    if NtfProvider.NONE in {command.token.provider, row.device_token.provider}:
        raise NtfRefusal(ErrorType.CMD_PROHIBITED)
    require_code(store, request, address)
    for _ in range(WRITE_ATTEMPTS):
        if _replaced(store, row, command.token):
            return OK
        row = store.authorized_token(request.transmission.entity_id, request)
    raise NtfRefusal(ErrorType.STORE)


def address_of(store: NtfStore, token: DeviceToken) -> str:
    """As the kernel writes it. Raises `NtfRefusal`; of a token that nothing is pushed to, it is any text."""
    if token.provider in _unsupported(store.options):
        raise NtfRefusal(ErrorType.CMD_PROHIBITED)
    if token.provider is NtfProvider.NONE:
        return token.token.hex()
    try:
        return canonical(Channel.APNS, token.token.decode("ascii"))
    except ValueError:
        raise NtfRefusal(ErrorType.CMD_SYNTAX) from None


def _unsupported(options: SimplexOptions) -> set[NtfProvider]:
    taken = {NtfProvider.APNS_SANDBOX: options.sandbox_provider, NtfProvider.TEST: options.test_provider}
    return {provider for provider, is_taken in taken.items() if not is_taken}


def is_of_device(one: DeviceToken, other: DeviceToken) -> bool:
    """Whether both reach the same device, for agents may write its token in several ways."""
    if one.provider != other.provider or one.provider is NtfProvider.NONE:
        return False
    first, second = (canonical(Channel.APNS, each.token.decode("ascii")) for each in (one, other))
    return first == second


def _find(store: NtfStore, token: DeviceToken, derived: str) -> StoredToken | None:
    """By its id, or by an alias: one that leads to another token by now counts for nothing."""
    found = store.find_token(derived)
    if found is None or found.alias_of is None:
        return found
    row = store.find_token(found.alias_of)
    return row if row and not row.alias_of and row.device_token == token else None


def _add(store: NtfStore, command: RegisterToken, derived: str) -> bytes | None:
    """None if somebody else has written the row."""
    ours, now = PrivateKey.generate(), store.clock()
    try:
        secrets = TokenSecrets(bytes(ours), token_secret(ours, dh_key(command.dh_key)), token_bytes(CODE_BYTES))
    except MalformedSimplex:
        raise NtfRefusal(ErrorType.CRYPTO) from None
    row = _row(store, command, derived, secrets, now)
    subscription = _subscription(store, row, secrets)
    pushed = command.token.provider is not NtfProvider.NONE

    def write(transaction: TransactWrite) -> None:
        transaction.save(row, condition=is_gone(now))
        if pushed:
            transaction.save(subscription)

    if not transact(store.connection, write):
        return None
    if pushed:
        store.record(SubscriptionChanged.of(subscription, now))
        store.push_code(subscription)
    return token_registered(row.id, ours.public_key)


def _row(store: NtfStore, command: RegisterToken, derived: str, secrets: TokenSecrets, now: int) -> StoredToken:
    return StoredToken(
        derived,
        owner_key=command.owner_key,
        secrets=store.key.seal(secrets.packed, bytes.fromhex(derived)),
        provider=command.token.provider.value,
        token=command.token.token,
        status=TokenStatus.REGISTERED.value,
        registered_at=now,
        ttl=now // 1000 + UNVERIFIED_SECONDS,
    )


def _subscription(store: NtfStore, row: StoredToken, secrets: TokenSecrets) -> Subscription:
    """It begins after all generations of an earlier one of the same id: their rules may be there still."""
    now = int(row.registered_at)
    return Subscription(
        row.subscription_id,
        client_id=row.client_id,
        network=SIMPLEX,
        channel=Channel.APNS.value,
        status=SubscriptionStatus.PENDING.value,
        generation=now,
        rule_count=0,
        revision=now,
        began_at=now,
        updated_at=now,
        ttl=row.ttl,
        **_destination(store, row.device_token, row.subscription_id, secrets, now),
    )


def _destination(store: NtfStore, token: DeviceToken, of: str, secrets: TokenSecrets, now: int) -> Mapping[str, Any]:
    """What of the subscription `of` says where it is pushed to, and how."""
    return {
        "token": address_of(store, token),
        "app": store.options.app,
        "environment": store.environment_of(token).value,
        "network_data": sealed_for_dispatch(store.key, of, secrets.agreed, secrets.code),
        "created_at": now,
    }


def _repeat(store: NtfStore, command: RegisterToken, row: StoredToken) -> bytes | None:
    """None if somebody else has changed the row meanwhile."""
    secrets = store.opened(row)
    ours = PrivateKey(secrets.private_key)
    if row.device_token != command.token or bytes(row.owner_key) != command.owner_key:
        raise NtfRefusal(ErrorType.AUTH)
    try:
        same = compare_digest(token_secret(ours, dh_key(command.dh_key)), secrets.agreed)
    except MalformedSimplex:
        same = False
    if not same:
        raise NtfRefusal(ErrorType.AUTH)
    if row.device_token.provider is not NtfProvider.NONE:
        subscription = find_subscription(row.subscription_id)
        if subscription is None:
            return None
        died = row.status not in ALIVE or subscription.status == SubscriptionStatus.INVALID
        if died and wait_for_code(store, row, subscription, Changes()) is None:
            return None
        store.push_code(subscription)
    return token_registered(row.id, ours.public_key)


def _replaced(store: NtfStore, row: StoredToken, token: DeviceToken) -> bool:
    """False if somebody else has changed one of the rows meanwhile."""
    before = find_subscription(row.subscription_id)
    if before is None:
        return False
    secrets = store.opened(row)._replace(code=token_bytes(CODE_BYTES))
    where = _destination(store, token, row.subscription_id, secrets, store.clock())
    sealed = store.key.seal(secrets.packed, row.id)
    alias = alias_for(store, row, token)
    changes = {"provider": token.provider.value, "token": token.token, "secrets": sealed, "alias": alias}
    after = wait_for_code(store, row, before, Changes(changes, where))
    if after is None:
        return False
    store.push_code(after)
    return True
