"""An installation whose token another client has: what its call is answered, and how it proves the token."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import uuid4

import boto3
import pytest

from api.worker import ApiWorker
from clarion.channels import Channel
from clarion.decisions import PushDecision, SubscriptionStatus, TokenProof
from clarion.messages import PushMessage
from clarion.networks import XMTP
from clarion.networks.xmtp.installations import Installation, subscription_id_of
from clarion.proofs import record_push
from clarion.rulesets import Owner
from clarion.subscriptions import remove
from clarion.tables import Subscription, Token
from clarion.tokens import token_hash
from tests.api.networks.xmtp.conftest import Phone
from tests.codes import code_of
from tests.xmtp import TOPIC


@pytest.fixture
def other(new_phone: Callable[[], Phone]) -> Phone:
    return new_phone()


@pytest.fixture
def codes(xmtp_worker: Any) -> Callable[[], list[PushMessage]]:
    """The pushes of codes that were sent since."""
    sqs, url = boto3.client("sqs"), xmtp_worker.settings.push_queues[Channel.APNS]

    def read() -> list[PushMessage]:
        found = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", [])
        for message in found:
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return [PushMessage.model_validate_json(message["Body"]) for message in found]

    read()
    return read


@pytest.fixture
def prove(phone: Phone, worker: ApiWorker, authorizer: Any) -> Callable[[str, str], int]:
    """The phone hands a code back, to the API's own function."""
    from tests.api.conftest import Client  # noqa: PLC0415 - pytest has it as a plugin by then

    def prove(name: str, code: str) -> int:
        client = Client(authorizer, worker, phone.client_id, {"authorization": f"Bearer {phone.token}"})
        return client("POST", f"/v1/subscriptions/{name}/proof", {"code": code}).status

    return prove


def row_of(phone: Phone) -> Subscription:
    return Subscription.get(subscription_id_of(phone.client_id, phone.installation), consistent_read=True)


def owners(token: str) -> list[str]:
    return [row.subscription_id for row in Token.query(token_hash(Channel.APNS, token), consistent_read=True)]


def with_policy(phone: Phone, policy: TokenProof) -> None:
    settings = phone.worker.settings.model_copy(update={"token_proof": policy})
    phone.worker = replace(phone.worker, settings=settings)


def test_a_token_that_another_client_has_is_proven_and_registered_again(
    phone: Phone, other: Phone, codes: Any, prove: Any
) -> None:
    token = uuid4().hex * 2
    assert other.register(token).status == 200
    refused = phone.register(token)
    assert (refused.status, refused.code) == (409, "already_exists")
    row = row_of(phone)
    assert f"/v1/subscriptions/{row.subscription_id}/proof" in refused.json["message"]
    assert row.status == SubscriptionStatus.PENDING
    assert Installation.count(row.subscription_id) == 1
    assert phone("Subscribe", {"topics": [TOPIC]}).status == 200, "it takes topics meanwhile"
    assert owners(token) == [row_of(other).subscription_id]

    [push] = codes()
    assert prove(row.subscription_id, code_of(push)) == 200

    assert owners(token) == [row.subscription_id]
    assert phone.register(token).status == 200
    assert (row_of(phone).status, row_of(phone).rule_count) == (SubscriptionStatus.ACTIVE, 1)
    assert (row_of(other).status, row_of(other).status_reason) == (SubscriptionStatus.INVALID, "replaced")
    assert other("Subscribe", {"topics": [TOPIC]}).code == "failed_precondition"
    assert codes() == []


def test_a_registration_that_is_repeated_keeps_the_code_that_has_arrived(
    phone: Phone, other: Phone, codes: Any, prove: Any
) -> None:
    token = uuid4().hex * 2
    other.register(token)
    assert phone.register(token).code == "already_exists"
    [push] = codes()
    record_push(str(push.subscription_id), push.receipt, PushDecision.DELIVERED)
    assert phone.register(token).code == "already_exists"
    assert codes() == []
    assert prove(str(push.subscription_id), code_of(push)) == 200


def test_a_registration_that_is_repeated_while_its_subscription_goes_makes_it_anew(
    phone: Phone, other: Phone, codes: Any
) -> None:
    token = uuid4().hex * 2
    other.register(token)
    phone.register(token)
    [push] = codes()
    record_push(str(push.subscription_id), push.receipt, PushDecision.DELIVERED)
    events = phone.worker.connection.client.meta.events

    def remove_first(**_: Any) -> None:
        events.unregister("before-call.dynamodb.TransactWriteItems", remove_first)
        owner = Owner(XMTP, phone.client_id)
        remove(phone.worker.connection, [str(push.subscription_id)], owner, kept_beside=Installation)

    events.register("before-call.dynamodb.TransactWriteItems", remove_first)
    assert phone.register(token).code == "already_exists"
    assert Installation.count(str(push.subscription_id)) == 1
    assert row_of(phone).status == SubscriptionStatus.PENDING


def test_a_registration_that_is_repeated_pushes_another_code_if_none_has_arrived(
    phone: Phone, other: Phone, codes: Any, prove: Any
) -> None:
    token = uuid4().hex * 2
    other.register(token)
    for _ in range(2):
        assert phone.register(token).code == "already_exists"
    first, second = sorted(codes(), key=lambda push: push.observed_at)
    assert {prove(str(push.subscription_id), code_of(push)) for push in (first, second)} <= {200, 403}
    assert owners(token) == [row_of(phone).subscription_id]


@pytest.mark.parametrize("outcome", [PushDecision.DELIVERED, PushDecision.RETRY])
def test_a_token_that_has_become_free_is_active_without_a_proof(
    phone: Phone, other: Phone, codes: Any, outcome: PushDecision
) -> None:
    token = uuid4().hex * 2
    other.register(token)
    assert phone.register(token).code == "already_exists"
    [push] = codes()
    record_push(str(push.subscription_id), push.receipt, outcome)
    assert other("DeleteInstallation").status == 200
    assert phone.register(token).status == 200
    assert row_of(phone).status == SubscriptionStatus.ACTIVE
    assert codes() == []


@pytest.mark.parametrize("waits", [False, True], ids=["at once", "after its topics"])
@pytest.mark.parametrize("policy", TokenProof)
def test_a_token_that_another_client_has_already_exists_under_every_policy(
    phone: Phone, other: Phone, codes: Any, policy: TokenProof, *, waits: bool
) -> None:
    token = uuid4().hex * 2
    other.register(token)
    with_policy(phone, policy)
    if waits:
        assert phone("Subscribe", {"topics": [TOPIC]}).status == 200
    for _ in range(2):
        refused = phone.register(token)
        assert (refused.status, refused.code) == (409, "already_exists")
    assert owners(token) == [row_of(other).subscription_id]
    assert row_of(other).status == SubscriptionStatus.ACTIVE
    assert bool(codes()) is (policy is not TokenProof.NEVER)


def test_under_never_nothing_is_made_and_nobody_is_woken(phone: Phone, other: Phone, codes: Any) -> None:
    token = uuid4().hex * 2
    other.register(token)
    with_policy(phone, TokenProof.NEVER)
    assert phone.register(token).code == "already_exists"
    assert Subscription.count(subscription_id_of(phone.client_id, phone.installation)) == 0
    assert codes() == []


def test_under_always_a_new_installation_is_pending_and_its_registration_succeeds(
    phone: Phone, codes: Any, prove: Any
) -> None:
    with_policy(phone, TokenProof.ALWAYS)
    token = uuid4().hex * 2
    assert phone.register(token).status == 200
    row = row_of(phone)
    assert row.status == SubscriptionStatus.PENDING
    [push] = codes()
    assert prove(row.subscription_id, code_of(push)) == 200
    assert phone.register(token).status == 200
    assert row_of(phone).status == SubscriptionStatus.ACTIVE
    assert codes() == [], "what is proven stays proven"


def test_under_always_the_webhook_needs_no_proof(phone: Phone) -> None:
    with_policy(phone, TokenProof.ALWAYS)
    assert phone("RegisterInstallation", {"deliveryMechanism": {"customToken": "hello"}}).status == 200
    assert row_of(phone).status == SubscriptionStatus.ACTIVE
