"""The push of a code: the one push that a pending subscription gets, and what its client learns of it."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.model import OperationModel

from clarion import base64url
from clarion.channels import Channel
from clarion.decisions import PushDecision, SubscriptionStatus
from clarion.messages import PushMessage
from clarion.networks import STATEMENTS
from clarion.own_pushes import MaskedCode
from clarion.proofs import ProofCode, is_right
from clarion.tables import Subscription, Token, WakeUp
from clarion.tokens import token_hash
from local.apns_trouble import troubled_token
from local.provider import InjectedFault
from tests.standins import NOW

type Register = Callable[..., Subscription]
CODE = ProofCode.new(int(NOW * 1000))


@pytest.fixture(autouse=True)
def wake_ups(aws: None) -> None:
    WakeUp.create_table(billing_mode="PAY_PER_REQUEST")


@pytest.fixture
def pending(register: Register) -> Callable[..., Subscription]:
    """It has no row of `tokens`, but another client's subscription may."""

    def pending(token: str) -> Subscription:
        row = register(Channel.APNS, token, status="pending", **CODE.attributes)
        Token(token_hash(Channel.APNS, token), STATEMENTS).delete()
        return row

    return pending


def verification(row: Subscription, code: ProofCode = CODE) -> PushMessage:
    return code.message(row, int(NOW * 1000))


def test_a_pending_subscription_gets_its_code_and_nothing_else(
    worker: Any, queue: Any, lake: Any, apns: Any, pending: Any, message: Any
) -> None:
    row = pending("a1" * 32)
    queue.put(verification(row), message(row))

    report = worker.work()

    assert report.decisions == {PushDecision.DELIVERED: 1, PushDecision.SUBSCRIPTION_GONE: 1}
    [push] = apns.received
    assert push.headers["apns-push-type"] == "background"
    secret = base64url.encode(CODE.secret)
    assert push.payload["clarion"]["code"] == secret
    assert push.payload["clarion"]["subscription_id"] == row.subscription_id
    assert Subscription.get(row.subscription_id).proof_push == "delivered"
    assert secret not in str(lake.events)


def test_the_latest_attempt_is_shown(worker: Any, queue: Any, pending: Any, clock: Any) -> None:
    row = pending(troubled_token(InjectedFault("ServiceUnavailable", times=1)))
    queue.put(verification(row))
    worker.work()
    assert Subscription.get(row.subscription_id).proof_push == "retry"
    clock.advance(60)
    worker.work()
    assert Subscription.get(row.subscription_id).proof_push == "delivered"


def test_a_code_that_has_been_replaced_is_not_pushed(
    worker: Any, queue: Any, apns: Any, lake: Any, pending: Any
) -> None:
    """The subscription may have another token since, which has allowances of its own."""
    row = pending("a1" * 32)
    queue.put(verification(row, ProofCode.new(int(NOW * 1000))))

    worker.work()

    assert list(apns.received) == []
    assert [(event["decision"], event["reason"]) for event in lake.events] == [("subscription_gone", "another code")]
    assert Subscription.get(row.subscription_id).proof_push is None


def test_a_dead_letter_does_not_show_its_code(worker: Any, queue: Any, pending: Any) -> None:
    """Nor does the row alone: whoever can use it has read both."""
    row = pending(troubled_token(InjectedFault("PayloadTooLarge")))
    queue.put(verification(row))
    assert worker.work().decisions == {PushDecision.REFUSED: 1}
    [dead] = map(PushMessage.model_validate_json, queue.dead)
    assert isinstance(dead.body, MaskedCode)
    assert not is_right(row, base64url.decode(dead.body.masked))
    assert CODE.secret not in row.attribute_values.values()
    assert Subscription.get(row.subscription_id).proof_push == "refused"


def test_an_active_subscription_gets_no_code(worker: Any, queue: Any, apns: Any, register: Register) -> None:
    queue.put(verification(register(Channel.APNS, "a1" * 32, **CODE.attributes)))
    report = worker.work()
    assert report.decisions == {PushDecision.SUBSCRIPTION_GONE: 1}
    assert list(apns.received) == []


def test_a_dead_token_ends_the_pending_subscription_and_no_other(
    worker: Any, queue: Any, lake: Any, pending: Any, register: Register
) -> None:
    token = troubled_token(InjectedFault("Unregistered"))
    row, holder = pending(token), register(Channel.APNS, token)
    queue.put(verification(row))

    worker.work()

    ended = Subscription.get(row.subscription_id)
    assert (ended.status, ended.status_reason) == (SubscriptionStatus.INVALID, "Unregistered")
    assert ended.proof_push == "token_gone"
    assert Subscription.get(holder.subscription_id).status == SubscriptionStatus.ACTIVE
    assert Token.count(token_hash(Channel.APNS, token)) == 1
    [event] = [event for event in lake.events if event["event"] == "subscription"]
    assert (event["subscription_id"], event["status"]) == (row.subscription_id, "invalid")


def test_a_code_is_pushed_although_its_subscription_was_written_just_now(
    worker: Any, queue: Any, pending: Any, register: Register, message: Any, reads: list[bool]
) -> None:
    """An eventually consistent read might not find it; others may be read so."""
    queue.put(message(register(Channel.APNS, "a2" * 32)))
    worker.work()
    queue.put(verification(pending("a1" * 32)))
    worker.work()
    assert reads == [False, True]


def test_a_push_whose_subscription_is_not_shown_yet_is_sent(
    worker: Any, queue: Any, message: Any, register: Register, reads: list[bool]
) -> None:
    row, deleted = register(Channel.APNS, "a1" * 32), register(Channel.APNS, "a2" * 32)
    deleted.delete()
    events = Subscription._get_connection().connection.client.meta.events

    def lag(parsed: dict[str, Any], **_: object) -> None:
        """As an eventually consistent read may."""
        if not reads[-1]:
            parsed["Responses"] = dict.fromkeys(parsed["Responses"], ())

    events.register("after-call.dynamodb.BatchGetItem", lag)
    queue.put(message(row), message(deleted))
    assert worker.work().decisions == {PushDecision.DELIVERED: 1, PushDecision.SUBSCRIPTION_GONE: 1}
    events.unregister("after-call.dynamodb.BatchGetItem", lag)
    assert reads == [False, True]


@pytest.fixture
def reads(worker: Any) -> Iterator[list[bool]]:
    """Whether each reading of subscriptions was consistent."""
    found: list[bool] = []

    def note(model: OperationModel, params: dict[str, Any], **_: object) -> None:
        if model.name == "BatchGetItem":
            found.append(b'"ConsistentRead": true' in params["body"])

    events = Subscription._get_connection().connection.client.meta.events
    events.register("before-call.dynamodb", note)
    yield found
    events.unregister("before-call.dynamodb", note)


def test_what_became_of_a_deleted_subscriptions_code_is_recorded_nowhere(worker: Any, queue: Any, pending: Any) -> None:
    row = pending("a1" * 32)
    Subscription(row.subscription_id).delete()
    queue.put(verification(row))
    report = worker.work()
    assert report.decisions == {PushDecision.SUBSCRIPTION_GONE: 1}
    assert Subscription.count(row.subscription_id) == 0
