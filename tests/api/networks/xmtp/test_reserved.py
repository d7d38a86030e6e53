"""Topics that come before their installation is registered: they wait for it, for a day, and push nothing."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import uuid4

import boto3
import pytest

from api.worker import ApiWorker
from clarion.channels import Channel
from clarion.decisions import SubscriptionStatus, TokenProof
from clarion.endings import Death, declare_dead, expire, ttl_of
from clarion.networks.xmtp.installations import Installation, subscription_id_of
from clarion.networks.xmtp.rules import TopicCondition, read
from clarion.networks.xmtp.sender_hmac import period_at
from clarion.proofs import PENDING_MS, status_at
from clarion.rulesets import Owner
from clarion.tables import RuleRow, Subscription, Token, WakeUp
from clarion.wake_ups import expiry_slot
from tests.api.networks.xmtp.conftest import Clock, Phone
from tests.api.networks.xmtp.test_service import GROUP, OTHER, key, limited, named
from tests.events import KeptEvents

HOUR_MS = 3_600_000


@pytest.fixture
def clock(phone: Phone) -> Clock:
    clock = Clock(phone.worker.now())
    phone.worker = replace(phone.worker, now=clock)
    return clock


@pytest.fixture
def api(worker: ApiWorker, phone: Phone, authorizer: Any) -> Any:
    """The phone as a client of the API's own function."""
    from tests.api.conftest import Client  # noqa: PLC0415 - pytest has it as a plugin by then

    return Client(authorizer, worker, phone.client_id, {"authorization": f"Bearer {phone.token}"})


def sid_of(phone: Phone) -> str:
    return subscription_id_of(phone.client_id, phone.installation)


def row_of(phone: Phone) -> Subscription:
    return Subscription.get(sid_of(phone), consistent_read=True)


def topics_of(phone: Phone) -> dict[str, TopicCondition]:
    """What is in force, or will be, for the phone."""
    _, rules = phone.worker.rule_sets.read(sid_of(phone), Owner("xmtp", phone.client_id))  # type: ignore[misc] # it is there
    return {one[1:].decode(): read(condition) for one, condition in rules.items()}


def with_policy(phone: Phone, policy: TokenProof) -> None:
    settings = phone.worker.settings.model_copy(update={"token_proof": policy})
    phone.worker = replace(phone.worker, settings=settings)


def test_topics_and_keys_wait_for_the_registration_and_are_in_force_with_it(
    phone: Phone, clock: Clock, emitted: KeptEvents
) -> None:
    now = period_at(clock.now // 1000)
    assert phone("SubscribeWithMetadata", {"subscriptions": [named(GROUP, {now: key(1)}, silent=True)]}).json == {}
    assert phone("Subscribe", {"topics": [OTHER]}).json == {}
    waiting = row_of(phone)
    assert (waiting.status, waiting.token) == (SubscriptionStatus.PENDING, "")
    assert phone.register().status == 200
    assert (row_of(phone).status, row_of(phone).rule_count) == (SubscriptionStatus.ACTIVE, 2)
    assert topics_of(phone) == {GROUP: TopicCondition({now: key(1)}, silent=True), OTHER: TopicCondition()}
    assert row_of(phone).began_at == waiting.began_at
    states = [event.status for event in emitted.events if event.event == "subscription"]  # type: ignore[attr-defined] # of each kind
    assert states == ["pending", "active"]


def test_keys_that_come_before_the_registration_are_due_like_any_others(phone: Phone, clock: Clock) -> None:
    now = period_at(clock.now // 1000)
    phone("SubscribeWithMetadata", {"subscriptions": [named(GROUP, {now: key(1)})]})
    phone.register()
    row = Installation.get(sid_of(phone))
    assert row.keys_due
    assert period_at(int(row.keys_due)) == now
    assert row.valid_until == clock.now // 1000 + 30 * 86_400


def test_no_address_belongs_to_what_waits_and_no_code_is_pushed(phone: Phone, api: Any, xmtp_worker: Any) -> None:
    sqs, url = boto3.client("sqs"), xmtp_worker.settings.push_queues[Channel.APNS]
    sqs.purge_queue(QueueUrl=url)
    phone("Subscribe", {"topics": [GROUP]})
    assert not [token for token in Token.scan() if token.subscription_id == sid_of(phone)]
    for method, path in (("GET", ""), ("POST", "/proof/request"), ("PATCH", "")):
        body = {"app": None} if method == "PATCH" else None
        assert api(method, f"/v1/subscriptions/{sid_of(phone)}{path}", body).status == 404
    assert "Messages" not in sqs.receive_message(QueueUrl=url)


def test_what_nobody_registers_for_a_day_has_expired_and_may_begin_anew(phone: Phone, clock: Clock) -> None:
    phone("Subscribe", {"topics": [GROUP]})
    row = row_of(phone)
    clock.now += PENDING_MS
    assert WakeUp.count(expiry_slot(clock.now // HOUR_MS), WakeUp.subscription_id == sid_of(phone)) == 1
    assert status_at(row, clock.now) is SubscriptionStatus.EXPIRED
    assert expire(row, clock.now)
    assert phone("Subscribe", {"topics": [OTHER]}).status == 200
    again = row_of(phone)
    assert again.status == SubscriptionStatus.PENDING
    assert (again.ttl, again.created_at) == (ttl_of(clock.now + PENDING_MS), clock.now)
    assert phone.register().status == 200
    assert topics_of(phone).keys() == {OTHER}


def test_an_installation_that_has_ended_is_registered_before_it_takes_topics(phone: Phone) -> None:
    phone.register()
    declare_dead(phone.worker.connection, row_of(phone), Death("Unregistered", at=1))
    assert phone("Subscribe", {"topics": [GROUP]}).code == "failed_precondition"
    assert phone.register().status == 200
    assert phone("Subscribe", {"topics": [GROUP]}).status == 200


def test_what_waits_counts_among_a_clients_installations(phone: Phone) -> None:
    limited(phone, subscriptions_per_client=1, rules_per_subscription=10_000)
    assert phone("Subscribe", {"topics": [GROUP]}).status == 200
    phone.installation = "install2"
    for method, more in (
        ("Subscribe", {"topics": [GROUP]}),
        ("RegisterInstallation", {"deliveryMechanism": {"apnsDeviceToken": uuid4().hex * 2}}),
    ):
        assert phone(method, more).code == "resource_exhausted"
    phone.installation = "install1"
    assert phone.register().status == 200


def test_what_waits_is_deleted_without_a_trace(phone: Phone, queue_of_cleanup: Callable[[], list[str]]) -> None:
    phone("Subscribe", {"topics": [GROUP]})
    slot = expiry_slot((int(row_of(phone).created_at) + PENDING_MS) // HOUR_MS)
    assert phone("DeleteInstallation").status == 200
    assert not list(Subscription.batch_get([sid_of(phone)]))
    assert not list(Installation.batch_get([sid_of(phone)]))
    assert WakeUp.count(slot, WakeUp.subscription_id == sid_of(phone)) == 0
    assert any(sid_of(phone) in body for body in queue_of_cleanup())
    assert phone.register().status == 200
    assert topics_of(phone) == {}


def test_what_was_never_there_needs_no_unsubscribing(phone: Phone) -> None:
    assert phone("Unsubscribe", {"topics": [GROUP]}).json == {}
    assert not list(Subscription.batch_get([sid_of(phone)]))


def test_a_topic_that_nothing_is_pushed_for_makes_no_rule(phone: Phone) -> None:
    assert phone("Subscribe", {"topics": ["weather"]}).status == 200
    assert RuleRow.count(sid_of(phone)) == 0


@pytest.mark.parametrize("policy", [TokenProof.NEVER, TokenProof.TAKEOVER])
def test_a_registration_needs_no_proof_for_what_waited(phone: Phone, policy: TokenProof) -> None:
    with_policy(phone, policy)
    phone("Subscribe", {"topics": [GROUP]})
    assert phone.register().status == 200
    assert row_of(phone).status == SubscriptionStatus.ACTIVE


def test_under_always_what_waited_waits_on_for_the_proof_for_a_day_of_its_own(phone: Phone, clock: Clock) -> None:
    with_policy(phone, TokenProof.ALWAYS)
    token = uuid4().hex * 2
    phone("Subscribe", {"topics": [GROUP]})
    clock.now += PENDING_MS - 1
    assert phone.register(token).status == 200
    row = row_of(phone)
    assert (row.status, row.token, row.created_at) == (SubscriptionStatus.PENDING, token, clock.now)
    assert topics_of(phone).keys() == {GROUP}


def test_a_client_that_waits_with_several_installations_keeps_them_apart(phone: Phone) -> None:
    for name, topic in (("install2", OTHER), ("install1", GROUP)):
        phone.installation = name
        assert phone("Subscribe", {"topics": [topic]}).status == 200
    assert phone.register().status == 200
    assert topics_of(phone).keys() == {GROUP}
    phone.installation = "install2"
    assert topics_of(phone).keys() == {OTHER}
    assert phone("DeleteInstallation").status == 200
    phone.installation = "install1"


def test_more_topics_than_a_transaction_takes_wait_as_well(phone: Phone) -> None:
    topics = [f"/xmtp/mls/1/g-{number:04x}/proto" for number in range(150)]
    assert phone("Subscribe", {"topics": topics}).status == 200
    assert phone.register().status == 200
    assert topics_of(phone).keys() == set(topics)
