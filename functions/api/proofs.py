"""Proving that a token is the client's own: the code, within its allowances, its push, and its return."""

import time
from typing import NamedTuple
from uuid import UUID

from api import quotas
from api.problems import Problem, ProblemKind, contended
from api.quotas import Rate
from api.subscriptions import own
from api.worker import ClientRequest
from clarion import proofs, sqs, subscriptions, takeovers
from clarion.backoff import WRITE_ATTEMPTS, back_off
from clarion.channels import Channel, is_call
from clarion.decisions import SubscriptionStatus, TokenProof, Wanted
from clarion.proofs import ProofCode
from clarion.sqs import SqsMessage
from clarion.subscription_events import SubscriptionChanged
from clarion.tables import Subscription
from clarion.tokens import hash_of, token_hash

PER_CLIENT = Rate(20, 3600)


class TokenRates(NamedTuple):
    """How many codes go to one token, for one of its clients and for all of them."""

    per_client: Rate
    in_all: Rate


TO_TOKEN, TO_RINGING_TOKEN = TokenRates(Rate(3, 3600), Rate(30, 3600)), TokenRates(Rate(2, 3600), Rate(4, 3600))


def new_code(request: ClientRequest, channel: Channel, token: str) -> ProofCode:
    """Within the client's allowances."""
    now, client, rate = request.worker.now(), request.client.hex(), _rates(channel).per_client
    quotas.require(f"codes:{client}", PER_CLIENT, now, f"at most {PER_CLIENT.limit} codes an hour")
    name = f"codes:{client}:{token_hash(channel, token).hex()}"
    quotas.require(name, rate, now, f"at most {rate.limit} codes an hour to one token")
    return ProofCode.new(now)


def push_if_allowed(request: ClientRequest, row: Subscription, code: ProofCode) -> None:
    """Push within the allowance of the token, whose clients share it; beyond it the client asks for another later."""
    if quotas.take(*_token_quota(row), request.worker.now()) is None:
        push(request, row, code)


def push(request: ClientRequest, row: Subscription, code: ProofCode) -> None:
    """What can't be sent now is asked for again by `renew`."""
    worker = request.worker
    message = SqsMessage(code.message(row, worker.now()).to_json())
    if sqs.send(worker.sqs, worker.settings.push_queues[Channel(row.channel)], [message]) != [None]:
        raise Problem(
            ProblemKind.UNAVAILABLE, "the code could not be pushed: ask for one", headers={"Retry-After": "2"}
        )


def renew(request: ClientRequest, row: Subscription) -> None:
    """Push another code to a pending subscription; it replaces the one before."""
    _require_pending(row, request.worker.now())
    _require_takeover_allowed(request, row)
    code = new_code(request, Channel(row.channel), row.token)
    name, rate = _token_quota(row)
    detail = f"at most {rate.limit} codes an hour to one token, for all its clients"
    quotas.require(name, rate, request.worker.now(), detail)
    renewed = proofs.replace_code(row, code)
    if renewed is None:
        raise contended()
    push(request, renewed, code)


def prove(request: ClientRequest, subscription_id: UUID, secret: bytes) -> Subscription:
    """The subscription, which the code makes active. A code that has done so already does nothing more."""
    row = proofs.count_attempt(str(subscription_id), request.client)
    if row is None:
        return _proven_before(request, subscription_id, secret)
    now = request.worker.now()
    _require_pending(row, now)
    if row.proof_until <= now:
        raise Problem(ProblemKind.CODE_EXPIRED, "ask for another")
    if not proofs.is_right(row, secret):
        raise Problem(ProblemKind.WRONG_CODE)
    for attempt in range(WRITE_ATTEMPTS):
        if time.monotonic() > request.until:
            break
        if taken := _taken_over(request, row):
            return taken
        time.sleep(back_off(attempt))
        row = own(request, subscription_id)
        if row.status != SubscriptionStatus.PENDING or not proofs.is_right(row, secret):
            return _proven_before(request, subscription_id, secret)
    raise contended()


def _rates(channel: Channel) -> TokenRates:
    return TO_RINGING_TOKEN if is_call(channel, Wanted.BACKGROUND) else TO_TOKEN


def _token_quota(row: Subscription) -> tuple[str, Rate]:
    """What counts the codes that go to a token, whoever asks."""
    return f"codes_to:{hash_of(row).hex()}", _rates(Channel(row.channel)).in_all


def _taken_over(request: ClientRequest, row: Subscription) -> Subscription | None:
    _require_takeover_allowed(request, row)
    worker = request.worker
    now = worker.now()
    changed = takeovers.take_over(
        worker.connection, row, now=now, request_cleanup=lambda ended: worker.cleanup.send([ended])
    )
    if changed is None:
        return None
    for each in changed:
        worker.events.add(SubscriptionChanged.of(each, now))
    return changed[-1]


def _proven_before(request: ClientRequest, subscription_id: UUID, secret: bytes) -> Subscription:
    """As it is if it was this code that made it active; otherwise the problem with it."""
    row = own(request, subscription_id)
    if row.status == SubscriptionStatus.ACTIVE and proofs.is_right(row, secret):
        return row
    _require_pending(row, request.worker.now())
    raise Problem(ProblemKind.CODE_EXPIRED, "ask for another")


def _require_takeover_allowed(request: ClientRequest, row: Subscription) -> None:
    """Under `never` another client's token stays its own, even if the subscription began to wait under another policy."""
    if request.worker.settings.token_proof is not TokenProof.NEVER:
        return
    taken = subscriptions.holder(row)
    if taken and taken.owner.client_id != row.client_id:
        raise Problem(ProblemKind.TOKEN_TAKEN)


def _require_pending(row: Subscription, now: int) -> None:
    match proofs.status_at(row, now):
        case SubscriptionStatus.PENDING:
            return
        case SubscriptionStatus.ACTIVE:
            raise Problem(ProblemKind.ALREADY_ACTIVE)
        case _:
            raise Problem(ProblemKind.SUBSCRIPTION_INVALID)
