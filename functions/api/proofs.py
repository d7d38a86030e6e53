"""Proving that a token is the client's own: the code, within its allowances, its push, and its return."""

import time
from uuid import UUID

from api import quotas
from api.problems import Problem, ProblemKind
from api.quotas import Rate
from api.subscriptions import own
from api.worker import ClientRequest
from clarion import proofs, sqs, takeovers
from clarion.channels import Channel
from clarion.decisions import SubscriptionStatus
from clarion.events import SubscriptionChanged
from clarion.generations import WRITE_ATTEMPTS, back_off
from clarion.proofs import ProofCode
from clarion.sqs import SqsMessage
from clarion.tables import Subscription
from clarion.tokens import token_hash

PER_CLIENT, PER_TOKEN = Rate(20, 3600), Rate(6, 3600)
"""Codes that are pushed."""


def new_code(request: ClientRequest, channel: Channel, token: str) -> ProofCode:
    """Within the allowances of the client, and then of the token: whoever makes up clients wakes no phone more often."""
    now = request.worker.now()
    detail = f"at most {PER_CLIENT.limit} codes an hour"
    quotas.require(f"codes:{request.client.hex()}", PER_CLIENT, now, detail)
    detail = f"at most {PER_TOKEN.limit} codes an hour to one token, for all its clients"
    quotas.require(f"codes_to:{token_hash(channel, token).hex()}", PER_TOKEN, now, detail)
    return ProofCode.new(now)


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
    code = new_code(request, Channel(row.channel), row.token)
    renewed = proofs.replace_code(row, code)
    if renewed is None:
        raise Problem(ProblemKind.CONTENDED, headers={"Retry-After": "1"})
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
    raise Problem(ProblemKind.CONTENDED, headers={"Retry-After": "1"})


def _taken_over(request: ClientRequest, row: Subscription) -> Subscription | None:
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


def _require_pending(row: Subscription, now: int) -> None:
    match proofs.status_at(row, now):
        case SubscriptionStatus.PENDING:
            return
        case SubscriptionStatus.ACTIVE:
            raise Problem(ProblemKind.ALREADY_ACTIVE)
        case _:
            raise Problem(ProblemKind.SUBSCRIPTION_INVALID)
