"""Whose a token is: the code that is pushed to it, and what comes of handing it back."""

import json
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import boto3
import pytest

from api.worker import ApiWorker
from clarion import base64url, proofs, subscriptions
from clarion.channels import Channel
from clarion.clock import now_ms
from clarion.decisions import Purpose, PushDecision, SubscriptionStatus, Wanted
from clarion.endings import DEAD_SECONDS, Death, declare_dead
from clarion.networks import STATEMENTS
from clarion.proofs import expires_at
from clarion.rulesets import Owner
from clarion.subscription_events import SubscriptionChanged
from clarion.subscriptions import Registration
from clarion.tables import RuleRow, Subscription, WakeUp
from clarion.wake_ups import expiry_slot, slot_of
from tests.api.proving import (
    DAY,
    HOUR,
    NOBODYS,
    RULE,
    RULES,
    SUBSCRIPTIONS,
    Inbox,
    new_token,
    owner_of,
    prove,
    register,
    state,
)
from tests.api.test_problems import assert_problem
from tests.api.test_subscriptions import Emitted
from tests.codes import code_of


def test_a_free_token_is_active_at_once_and_costs_no_push(client: Any, inbox: Inbox) -> None:
    token = new_token()
    made = register(client, token)
    assert made["status"] == "active"
    assert owner_of(token) == [made["subscription_id"]]
    assert inbox.pushes() == []


def test_a_token_moves_to_whoever_proves_it(new_client: Any, inbox: Inbox) -> None:
    before, after, token = new_client(), new_client(), new_token()
    old = register(before, token)["subscription_id"]
    before("PUT", RULES, {"subscription_id": old, "rules": [RULE]})
    made = register(after, token)
    new = made["subscription_id"]
    assert made["status"] == "pending"
    assert owner_of(token) == [old], "it moves by the proof alone"
    after("PUT", RULES, {"subscription_id": new, "rules": [RULE]})

    proven = prove(after, new, inbox.code())

    assert (proven.status, proven.json) == (200, {"subscription_id": new, "status": "active"})
    assert owner_of(token) == [new]
    ended = state(before, old)
    assert (ended["status"], ended["statusReason"]) == ("invalid", "replaced")
    row = Subscription.get(old)
    assert row.generation == row.revision
    assert row.rule_count == 0
    [listed] = after("GET", SUBSCRIPTIONS).json
    assert (listed["status"], listed["rules"]) == ("active", [RULE])
    assert "proof" not in listed


def test_the_lake_learns_who_took_over_from_whom(new_client: Any, worker: ApiWorker, inbox: Inbox) -> None:
    first, second, token, emitted = new_client(), new_client(), new_token(), Emitted()
    old = register(first, token)["subscription_id"]
    second.worker = replace(worker, events=emitted)
    new = register(second, token)["subscription_id"]
    code = inbox.code()
    prove(second, new, code)
    changes = [event for event in emitted.events if isinstance(event, SubscriptionChanged)]
    assert [(str(one.subscription_id), one.status, one.status_reason, one.revision) for one in changes] == [
        (new, "pending", None, 0),
        (old, "invalid", "replaced", 1),
        (new, "active", None, 1),
    ]
    assert not [event for event in emitted.events if code in event.model_dump_json()]


def test_wake_ups_and_expiries_follow_the_proof(new_client: Any, inbox: Inbox) -> None:
    first, second, token = new_client(), new_client(), new_token()
    old = register(first, token, wake_every_minutes=30)["subscription_id"]
    new = register(second, token, wake_every_minutes=20)["subscription_id"]
    assert WakeUp.count(slot_of(old, 30), WakeUp.subscription_id == old) == 1
    assert WakeUp.count(slot_of(new, 20), WakeUp.subscription_id == new) == 0
    pending = expiry_slot(expires_at(Subscription.get(new)) // HOUR)
    assert WakeUp.count(pending, WakeUp.subscription_id == new) == 1

    prove(second, new, inbox.code())

    assert WakeUp.count(slot_of(old, 30), WakeUp.subscription_id == old) == 0
    assert WakeUp.count(slot_of(new, 20), WakeUp.subscription_id == new) == 1
    assert WakeUp.count(pending, WakeUp.subscription_id == new) == 0


def test_the_push_of_a_code_is_a_background_push_of_clarions_own(new_client: Any, inbox: Inbox) -> None:
    token = new_token()
    register(new_client(), token)
    second = new_client()
    name = register(second, token)["subscription_id"]
    [push] = inbox.pushes()
    assert (push.purpose, push.wanted, push.network) == (Purpose.VERIFICATION, Wanted.BACKGROUND, STATEMENTS)
    assert (push.subscription_id, push.client_id) == (UUID(name), second.key)
    assert abs(push.expires_at - now_ms() // 1000 - proofs.CODE_SECONDS) < 60
    assert len(base64url.decode(code_of(push))) == proofs.CODE_BYTES


def test_of_a_code_nothing_is_kept_or_shown_but_its_hash(
    new_client: Any, inbox: Inbox, capfd: pytest.CaptureFixture[str]
) -> None:
    token = new_token()
    register(new_client(), token)
    client = new_client()
    name = register(client, token)["subscription_id"]
    [push] = inbox.pushes()
    code = code_of(push)
    row = Subscription.get(name)
    assert code not in repr(row.attribute_values)
    assert base64url.decode(code) not in row.attribute_values.values()
    wrong = base64url.encode(bytes(32))
    shown = [
        repr(push),
        push.to_json(),
        client("GET", SUBSCRIPTIONS).text,
        prove(client, name, wrong).text,
        prove(client, name, code).text,
    ]
    shown += [prove(client, name, f"{code}!").text, *capfd.readouterr()]
    assert not [text for text in shown if code in text]


def test_a_code_is_good_for_one_use(new_client: Any, inbox: Inbox) -> None:
    first, second, token = new_client(), new_client(), new_token()
    register(first, token)
    name = register(second, token)["subscription_id"]
    code = inbox.code()
    assert prove(second, name, code).status == 200
    again = prove(second, name, code)
    assert (again.status, again.json["status"]) == (200, "active"), "the answer may have been lost"
    assert_problem(prove(second, name, NOBODYS), 409, "already-active")

    back = register(first, token)["subscription_id"]
    assert_problem(prove(first, back, code), 403, "wrong-code")
    assert prove(first, back, inbox.code()).status == 200
    assert_problem(prove(second, name, code), 409, "subscription-invalid")
    assert owner_of(token) == [back]


def test_nobody_else_can_hand_a_code_back(new_client: Any, inbox: Inbox) -> None:
    token = new_token()
    owner = new_client()
    kept = register(owner, token)["subscription_id"]
    name = register(new_client(), token)["subscription_id"]
    code = inbox.code()
    for stranger in (owner, new_client()):
        assert_problem(prove(stranger, name, code), 404, "no-subscription")
        assert_problem(stranger("POST", f"{SUBSCRIPTIONS}/{name}/proof/request"), 404, "no-subscription")
        assert_problem(stranger("GET", f"{SUBSCRIPTIONS}/{name}"), 404, "no-subscription")
    assert_problem(prove(owner, str(uuid4()), code), 404, "no-subscription")
    assert Subscription.get(name).proof_attempts == 0, "a stranger uses up no attempt"
    assert owner_of(token) == [kept]


def test_a_code_may_be_guessed_five_times(new_client: Any, inbox: Inbox) -> None:
    token = new_token()
    register(new_client(), token)
    client = new_client()
    name = register(client, token)["subscription_id"]
    code = inbox.code()
    for _ in range(5):
        assert_problem(prove(client, name, NOBODYS), 403, "wrong-code")
    assert_problem(prove(client, name, code), 409, "code-expired")

    assert client("POST", f"{SUBSCRIPTIONS}/{name}/proof/request").status == 202
    assert_problem(prove(client, name, code), 403, "wrong-code")
    assert prove(client, name, inbox.code()).status == 200


@pytest.mark.parametrize("code", ["", "A" * 42, "A" * 44, "+" * 43, 7, None])
def test_what_is_no_code_is_refused_without_an_attempt(new_client: Any, inbox: Inbox, code: Any) -> None:
    token = new_token()
    register(new_client(), token)
    client = new_client()
    name = register(client, token)["subscription_id"]
    assert_problem(prove(client, name, code), 422, "invalid")
    assert Subscription.get(name).proof_attempts == 0


def test_a_code_is_good_for_four_hours_and_a_subscription_is_pending_for_a_day(
    new_client: Any, inbox: Inbox, worker: ApiWorker
) -> None:
    token = new_token()
    register(new_client(), token)
    client = new_client()
    begin = now_ms()
    client.worker = replace(worker, now=lambda: begin)
    name = register(client, token)["subscription_id"]
    code = inbox.code()

    client.worker = replace(worker, now=lambda: begin + 4 * HOUR)
    assert_problem(prove(client, name, code), 409, "code-expired")
    assert client("POST", f"{SUBSCRIPTIONS}/{name}/proof/request").status == 202
    code = inbox.code()

    client.worker = replace(worker, now=lambda: begin + DAY)
    assert state(client, name)["status"] == "expired"
    assert_problem(prove(client, name, code), 409, "subscription-invalid")
    assert_problem(client("POST", f"{SUBSCRIPTIONS}/{name}/proof/request"), 409, "subscription-invalid")
    for method in ("PUT", "POST", "DELETE"):
        changed = client(method, RULES, {"subscription_id": name, "rules": [RULE]})
        assert_problem(changed, 409, "subscription-invalid")
    assert register(client, token)["status"] == "pending", "it may be registered again"


def test_a_pending_subscription_is_removed_some_day_although_nothing_ends_it_and_a_proven_one_stays(
    new_client: Any, inbox: Inbox
) -> None:
    token, client = new_token(), new_client()
    register(new_client(), token)
    name = register(client, token)["subscription_id"]
    pending = Subscription.get(name)
    assert pending.ttl == expires_at(pending) // 1000 + DEAD_SECONDS
    prove(client, name, inbox.code())
    assert Subscription.get(name).ttl is None


def test_a_pending_subscription_says_what_became_of_its_push(new_client: Any, inbox: Inbox) -> None:
    token = new_token()
    register(new_client(), token)
    client = new_client()
    name = register(client, token)["subscription_id"]
    assert state(client, name)["proof"].keys() == {"expires_at"}
    [push] = inbox.pushes()
    proofs.record_push(name, push.receipt, PushDecision.REFUSED)
    proofs.record_push(name, uuid4(), PushDecision.DELIVERED)
    shown = state(client, name)["proof"]
    assert shown["push"] == "refused"
    assert shown["expires_at"].endswith("Z")


def test_a_token_whose_holder_dies_meanwhile_is_taken_over_all_the_same(
    new_client: Any, worker: ApiWorker, inbox: Inbox
) -> None:
    token, first, second = new_token(), new_client(), new_client()
    old = register(first, token)["subscription_id"]
    name = register(second, token)["subscription_id"]
    declare_dead(worker.connection, Subscription.get(old), Death("Unregistered", at=now_ms()))
    assert prove(second, name, inbox.code()).status == 200
    assert owner_of(token) == [name]
    assert state(first, old)["statusReason"] == "Unregistered"


def test_a_dead_token_of_a_pending_subscription_ends_it_and_frees_nothing(
    new_client: Any, worker: ApiWorker, inbox: Inbox
) -> None:
    token, first, second = new_token(), new_client(), new_client()
    old = register(first, token)["subscription_id"]
    name = register(second, token)["subscription_id"]
    [ended] = declare_dead(worker.connection, Subscription.get(name), Death("Unregistered", at=now_ms()))
    assert ended.subscription_id == name
    assert (state(second, name)["status"], state(second, name)["statusReason"]) == ("invalid", "Unregistered")
    assert state(first, old)["status"] == "active"
    assert owner_of(token) == [old]
    assert_problem(prove(second, name, inbox.code()), 409, "subscription-invalid")


def test_another_networks_client_proves_its_token_by_the_same_request(
    client: Any, worker: ApiWorker, inbox: Inbox
) -> None:
    token, code = new_token(), proofs.ProofCode.new(now_ms())
    registration = Registration("xmtp", client.key, Channel.APNS, token, code=code)
    row = subscriptions.register(worker.connection, registration, now=now_ms())
    assert isinstance(row, Subscription)
    mine = register(client, token)
    assert mine["status"] == "active", "each network has holders of its own"
    assert prove(client, row.subscription_id, base64url.encode(code.secret)).status == 200
    assert sorted(owner_of(token)) == sorted([row.subscription_id, mine["subscription_id"]])
    assert subscriptions.of_owner(Owner("xmtp", client.key))[0].status == SubscriptionStatus.ACTIVE


def test_the_rules_of_a_replaced_subscription_are_cleaned_up(new_client: Any, worker: ApiWorker, inbox: Inbox) -> None:
    sqs, url = boto3.client("sqs"), worker.settings.cleanup_queue_url
    first, second, token = new_client(), new_client(), new_token()
    old = register(first, token)["subscription_id"]
    first("PUT", RULES, {"subscription_id": old, "rules": [RULE]})
    prove(second, register(second, token)["subscription_id"], inbox.code())
    asked = list[str]()
    while found := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
        asked += [name for message in found for name in json.loads(message["Body"])["subscription_ids"]]
        for message in found:
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    assert old in asked
    assert RuleRow.count(old) == 1, "they go with the clean-up"
