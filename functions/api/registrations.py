"""Which subscription a token is given to, whatever the network, and whether its client has to prove it first."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from api import proofs
from api.problems import Problem, ProblemKind, contended
from api.subscriptions import check_options, invalid_field, removed
from api.worker import ClientRequest
from clarion import subscriptions
from clarion.addresses import may_be_pushed_to
from clarion.backoff import back_off
from clarion.channels import Channel
from clarion.decisions import Environment, PushDecision, SubscriptionStatus, TokenProof
from clarion.networks import network
from clarion.proofs import ProofCode, asked_for, is_good, status_at
from clarion.rulesets import Owner, Unchanged, owned
from clarion.subscription_events import SubscriptionChanged
from clarion.subscriptions import ExtraWrites, Registration, TokenTaken, no_extra_writes
from clarion.tables import Subscription
from clarion.tokens import hash_of, token_hash

PUT_ATTEMPTS = 5

type Written = Subscription | TokenTaken | Unchanged


def register(request: ClientRequest, registration: Registration) -> Subscription:
    """A new subscription. A token belongs to one; its owner learns which one if there is one."""
    _check_reachable(request, registration)
    taken = subscriptions.holder(registration)
    made = _register_new(request, registration, taken)
    if isinstance(made, TokenTaken) and made != taken:
        # Somebody has registered it meanwhile.
        made = _register_new(request, registration, made)
    return _require_written(made, registration)


def put(request: ClientRequest, registration: Registration, extra_writes: ExtraWrites) -> None:
    """Make the subscription that `registration` names, or give it this address; it keeps its rules.

    A token that another subscription of the same owner has is taken from that one, which ends: the device that has the
    token goes by the newer name. One that another client has is refused, but may be proven.
    """
    _check_reachable(request, registration)

    def attempt() -> Written:
        made = _put(request, registration, extra_writes)
        if isinstance(made, TokenTaken) and _is_another_of_the_owners(made, registration):
            removed(request, registration.owner, [made.subscription_id], request.worker.now())
            return Unchanged.CONTENDED
        return made

    made = _require_written(_until_written(request, registration, attempt), registration)
    if made.status == SubscriptionStatus.PENDING and subscriptions.holder(registration):
        proof = f"prove it by /v1/subscriptions/{made.subscription_id}/proof with the code that is pushed to it"
        raise Problem(ProblemKind.TOKEN_TAKEN, proof)


def reserve(request: ClientRequest, registration: Registration, extra_writes: ExtraWrites) -> None:
    """Make the subscription that `registration` names before it has an address, so that it takes rules for `put`.

    It is pending, with a code that is pushed to nobody, and expires like any other that is not proven. One that is there
    already stays as it is, unless it has expired.
    """
    connection, owner = request.worker.connection, registration.owner

    def attempt() -> Written:
        now = request.worker.now()
        row = _named(registration)
        asked = replace(registration, code=ProofCode.new(now))
        if row is not None and status_at(row, now) is not SubscriptionStatus.EXPIRED:
            return row
        if row is not None:
            made = subscriptions.move(connection, row, asked, now=now, extra_writes=extra_writes)
        elif _make_space(request, owner, subscriptions.of_owner(owner), now):
            made = subscriptions.register(connection, asked, now=now, extra_writes=extra_writes)
        else:
            return Unchanged.CONTENDED
        return _publish(request, registration, made, now)

    _require_written(_until_written(request, registration, attempt), registration)


def replace_token(request: ClientRequest, row: Subscription, token: str) -> Subscription:
    """Give a subscription another token of its channel; it keeps its rules, and frees the token it had."""
    registration = _with_token(row, token)
    _check_reachable(request, registration)

    def attempt() -> Written:
        current = owned(row.subscription_id, registration.owner)
        if current is None:
            raise Problem(ProblemKind.NO_SUBSCRIPTION)
        if not status_at(current, request.worker.now()).has_rules:
            raise Problem(ProblemKind.SUBSCRIPTION_INVALID)
        asked = _with_token(current, token)
        return current if _keeps(request, current, asked) else _replace_token(request, current, asked)

    return _require_written(_until_written(request, registration, attempt), registration)


def _keeps(request: ClientRequest, row: Subscription, registration: Registration) -> bool:
    """Whether it has this token already, and is active or waits for a proof that is still due."""
    if row.token != registration.token:
        return False
    return row.status == SubscriptionStatus.ACTIVE or _is_to_be_proven(request, registration)


def _with_token(row: Subscription, token: str) -> Registration:
    """As the subscription is, but for its token."""
    owner, channel = Owner(row.network, row.client_id), Channel(row.channel)
    environment = Environment(row.environment) if row.environment else None
    return Registration(*owner, channel, token, row.app, environment, row.subscription_id)


def _until_written(request: ClientRequest, registration: Registration, attempt: Callable[[], Written]) -> Written:
    """Again while other requests change the same rows: then the token may be the subscription's own."""
    for number in range(PUT_ATTEMPTS):
        if time.monotonic() > request.until:
            break
        written = attempt()
        its_own = isinstance(written, TokenTaken) and written.subscription_id == registration.subscription_id
        if not (its_own or isinstance(written, Unchanged)):
            return written
        time.sleep(back_off(number))
    return Unchanged.CONTENDED


def _require_written(written: Written, registration: Registration) -> Subscription:
    """The subscription; raises `Problem` if the token is taken or the write met others."""
    if isinstance(written, TokenTaken):
        mine = {"subscription_id": written.subscription_id} if written.owner == registration.owner else {}
        raise Problem(ProblemKind.TOKEN_TAKEN, more=mine)
    if isinstance(written, Unchanged):
        raise contended()
    return written


def _put(request: ClientRequest, registration: Registration, extra_writes: ExtraWrites) -> Written:
    """The subscription that the registration names, as it is then: new, unchanged or with the token; or who holds that."""
    row, now = _named(registration), request.worker.now()
    if row is not None and _has_good_code(row, registration, now) and _is_to_be_proven(request, registration):
        connection = request.worker.connection
        kept = subscriptions.change(connection, row, {}, now=now, extra_writes=extra_writes)
        return kept or Unchanged.CONTENDED
    if row is not None:
        return _replace_token(request, row, registration, extra_writes)
    return _register_new(request, registration, subscriptions.holder(registration), extra_writes)


def _named(registration: Registration) -> Subscription | None:
    """The subscription that the registration names, if it is there."""
    return owned(registration.subscription_id, registration.owner) if registration.subscription_id else None


def _register_new(
    request: ClientRequest,
    registration: Registration,
    taken: TokenTaken | None,
    extra_writes: ExtraWrites = no_extra_writes,
) -> Written:
    """The new subscription, pending if its token is to be proven, or who has the token.

    `taken` is who holds it, as far as is known. A client that waits for the proof of this token has it, too; if no proof
    is due any more, its subscription is the one that becomes active.
    """
    if taken and not _may_be_proven(request, registration, taken):
        return taken
    now, rows = request.worker.now(), subscriptions.of_owner(registration.owner)
    to_be_proven = _needs_proof(request, registration, taken)
    if pending := next((row for row in rows if _is_pending(row, registration, now)), None):
        # A network that names its subscriptions has another name for this one.
        if to_be_proven or registration.subscription_id:
            return TokenTaken(pending.subscription_id, registration.owner)
        return _replace_token(request, pending, registration)
    if not _make_space(request, registration.owner, rows, now):
        return Unchanged.CONTENDED
    asked = _with_code(request, registration) if to_be_proven else registration
    made = subscriptions.register(request.worker.connection, asked, now=now, extra_writes=extra_writes)
    return _publish(request, asked, made, now)


def _make_space(request: ClientRequest, owner: Owner, rows: Sequence[Subscription], now: int) -> bool:
    """Remove the oldest of the owner's ended subscriptions if `rows`, which are all, leave no place for another one.

    So a phone that gets new tokens doesn't lock itself out. Returns False if the owner's subscriptions have changed
    meanwhile. Raises `Problem` if none has ended.
    """
    limit = request.worker.settings.subscriptions_per_client
    ended = sorted((row for row in rows if not status_at(row, now).has_rules), key=lambda row: row.updated_at)
    if len(rows) - len(ended) >= limit:
        raise Problem(ProblemKind.TOO_MANY_SUBSCRIPTIONS, f"at most {limit}")
    surplus = [row.subscription_id for row in ended[: max(len(rows) - limit + 1, 0)]]
    return not surplus or removed(request, owner, surplus, now) is not Unchanged.CONTENDED


def _replace_token(
    request: ClientRequest,
    row: Subscription,
    registration: Registration,
    extra_writes: ExtraWrites = no_extra_writes,
) -> Written:
    """`row` with the registration's token, pending if that is to be proven, or who holds the token."""
    worker, now, has_token = request.worker, request.worker.now(), _has_token(row, registration)
    its_own = has_token and row.status == SubscriptionStatus.ACTIVE
    if its_own or not _needs_proof(request, registration, None):
        made = subscriptions.move(worker.connection, row, registration, now=now, extra_writes=extra_writes)
        if not (isinstance(made, TokenTaken) and _may_be_proven(request, registration, made)):
            return _publish(request, registration, made, now)
    asked = _with_code(request, registration)
    made = subscriptions.move(worker.connection, row, asked, now=now, extra_writes=extra_writes)
    return _publish(request, asked, made, now)


def _publish(request: ClientRequest, registration: Registration, written: Written, now: int) -> Written:
    """Emit the change, if there was one, and push the code to a token that is to be proven, if it hasn't had too many.

    Returns `written`.
    """
    if isinstance(written, Subscription):
        request.worker.events.add(SubscriptionChanged.of(written, now))
        if registration.code:
            proofs.push_if_allowed(request, written, registration.code)
    return written


def _with_code(request: ClientRequest, registration: Registration) -> Registration:
    return replace(registration, code=proofs.new_code(request, registration.channel, registration.token))


def _is_to_be_proven(request: ClientRequest, registration: Registration) -> bool:
    return _needs_proof(request, registration, subscriptions.holder(registration))


def _needs_proof(request: ClientRequest, registration: Registration, taken: TokenTaken | None) -> bool:
    return asked_for(request.worker.settings.token_proof, registration.channel, taken=taken is not None)


def _may_be_proven(request: ClientRequest, registration: Registration, taken: TokenTaken) -> bool:
    """Whether the client may take the token over; it has nothing to prove to itself."""
    return taken.owner != registration.owner and request.worker.settings.token_proof is not TokenProof.NEVER


def _is_another_of_the_owners(taken: TokenTaken, registration: Registration) -> bool:
    return taken.owner == registration.owner and taken.subscription_id != registration.subscription_id


def _has_good_code(row: Subscription, registration: Registration, now: int) -> bool:
    """Whether the app has the code by which it can prove this token."""
    return _is_pending(row, registration, now) and is_good(row, now) and row.proof_push == PushDecision.DELIVERED


def _is_pending(row: Subscription, registration: Registration, now: int) -> bool:
    """Whether it waits for the proof of this very token."""
    return status_at(row, now) is SubscriptionStatus.PENDING and _has_token(row, registration)


def _has_token(row: Subscription, registration: Registration) -> bool:
    return hash_of(row) == token_hash(registration.channel, registration.token)


def _check_reachable(request: ClientRequest, registration: Registration) -> None:
    channel, apps = registration.channel, request.worker.settings.apps
    if channel not in apps:
        there = [name for name in network(registration.network).channels if name in apps]
        raise invalid_field("notificationType", f"must be one that this deployment has: {', '.join(there)}")
    options = ("app", "device_key", "wake_every_minutes")
    check_options(request, channel, {name: getattr(registration, name) for name in options})
    if not may_be_pushed_to(channel, registration.token, request.worker.settings.push_services):
        raise invalid_field("token", "must have an endpoint at a push service that this deployment sends to")
