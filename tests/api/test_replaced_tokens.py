"""Another token for a subscription that is there."""

from dataclasses import replace
from typing import Any

from api.worker import ApiWorker
from clarion import base64url, proofs, subscriptions
from clarion.channels import Channel
from clarion.clock import now_ms
from clarion.decisions import SubscriptionStatus, TokenProof
from clarion.subscriptions import Registration
from clarion.tables import Subscription, WakeUp
from clarion.wake_ups import expiry_slot
from tests.api.proving import DAY, HOUR, RULE, RULES, SUBSCRIPTIONS, Inbox, new_token, owner_of, prove, register, state
from tests.api.test_problems import assert_problem

DEVICE_KEY = base64url.encode(bytes(range(32)))


def replace_token(client: Any, name: str, token: str, **more: Any) -> Any:
    return client("PUT", f"{SUBSCRIPTIONS}/{name}/token", {"token": token, **more})


def test_another_token_keeps_the_rules_and_frees_the_one_before(client: Any, inbox: Inbox) -> None:
    old, new = new_token(), new_token()
    name = register(client, old)["subscription_id"]
    client("PUT", RULES, {"subscription_id": name, "rules": [RULE]})
    replaced = replace_token(client, name, f"0x{new.upper()}", notificationType="apns")
    assert (replaced.status, replaced.json) == (200, {"subscription_id": name, "status": "active"})
    [listed] = client("GET", SUBSCRIPTIONS).json
    assert (listed["token"], listed["rules"]) == (new, [RULE])
    assert (owner_of(old), owner_of(new)) == ([], [name])
    assert replace_token(client, name, new).json["status"] == "active", "again, it changes nothing"
    assert inbox.pushes() == []


def test_another_token_that_another_client_has_is_pending_until_it_is_proven(new_client: Any, inbox: Inbox) -> None:
    holder, client, old, new = new_client(), new_client(), new_token(), new_token()
    held = register(holder, new)["subscription_id"]
    name = register(client, old)["subscription_id"]
    client("PUT", RULES, {"subscription_id": name, "rules": [RULE]})
    assert replace_token(client, name, new).json == {"subscription_id": name, "status": "pending"}
    assert (owner_of(old), owner_of(new)) == ([], [held])
    assert replace_token(client, name, new).json["status"] == "pending"
    assert prove(client, name, inbox.code()).status == 200
    assert owner_of(new) == [name]
    [listed] = client("GET", SUBSCRIPTIONS).json
    assert listed["rules"] == [RULE]


def test_a_token_that_has_become_free_is_active_without_a_push(new_client: Any, inbox: Inbox) -> None:
    token, holder, client = new_token(), new_client(), new_client()
    held = register(holder, token, notificationType="voip")["subscription_id"]
    name = register(client, token, notificationType="voip")["subscription_id"]
    assert len(inbox.pushes(Channel.VOIP)) == 1
    assert replace_token(client, name, token).json["status"] == "pending"
    holder("DELETE", SUBSCRIPTIONS, {"subscription_ids": [held]})
    assert replace_token(client, name, token).json == {"subscription_id": name, "status": "active"}
    assert inbox.pushes(Channel.VOIP) == []
    assert owner_of(token, Channel.VOIP) == [name]


def test_to_register_a_token_again_that_has_become_free_makes_the_pending_one_active(
    new_client: Any, inbox: Inbox
) -> None:
    token, holder, client = new_token(), new_client(), new_client()
    held = register(holder, token)["subscription_id"]
    name = register(client, token, wake_every_minutes=30)["subscription_id"]
    assert len(inbox.pushes()) == 1
    holder("DELETE", SUBSCRIPTIONS, {"subscription_ids": [held]})
    assert register(client, token, device_key=DEVICE_KEY) == {"subscription_id": name, "status": "active"}
    assert inbox.pushes() == []
    assert owner_of(token) == [name]
    now = state(client, name)
    assert (now["device_key"], now["wake_every_minutes"]) == (DEVICE_KEY, 30)


def test_a_free_token_waits_on_for_the_proof_that_its_deployment_asks_of_all(
    client: Any, policy: Any, inbox: Inbox
) -> None:
    token, client.worker = new_token(), policy(token_proof=TokenProof.ALWAYS)
    name = register(client, token)["subscription_id"]
    assert replace_token(client, name, token).json["status"] == "pending"
    again = client("POST", SUBSCRIPTIONS, {"notificationType": "apns", "token": token})
    assert_problem(again, 409, "token-taken")
    assert len(inbox.pushes()) == 1


def test_another_token_gives_a_pending_subscription_no_other_day(
    new_client: Any, worker: ApiWorker, inbox: Inbox
) -> None:
    begin, client, tokens = now_ms(), new_client(), [new_token(), new_token()]
    for token in tokens:
        register(new_client(), token)
    client.worker = replace(worker, now=lambda: begin)
    name = register(client, tokens[0])["subscription_id"]
    client.worker = replace(worker, now=lambda: begin + DAY - 1)
    assert replace_token(client, name, tokens[1]).json["status"] == "pending"
    client.worker = replace(worker, now=lambda: begin + DAY)
    assert state(client, name)["status"] == "expired"
    mine = WakeUp.subscription_id == name
    assert WakeUp.count(expiry_slot((begin + DAY) // HOUR), mine) == 1


def test_an_expired_subscription_that_is_registered_again_has_another_day(client: Any, worker: ApiWorker) -> None:
    begin, code = now_ms(), proofs.ProofCode.new(now_ms())
    registration = Registration("xmtp", client.key, Channel.APNS, new_token(), code=code)
    row = subscriptions.register(worker.connection, registration, now=begin)
    assert isinstance(row, Subscription)
    moved = subscriptions.move(worker.connection, row, registration, now=begin + DAY)
    assert isinstance(moved, Subscription)
    assert proofs.status_at(moved, begin + 2 * DAY - 1) is SubscriptionStatus.PENDING


def test_a_token_of_another_of_ones_own_subscriptions_is_named(client: Any, inbox: Inbox) -> None:
    tokens = [new_token(), new_token()]
    one, other = (register(client, token)["subscription_id"] for token in tokens)
    refused = replace_token(client, one, tokens[1])
    assert_problem(refused, 409, "token-taken")
    assert refused.json["subscription_id"] == other
    assert [owner_of(token) for token in tokens] == [[one], [other]]
    assert inbox.pushes() == []


def test_a_token_has_to_be_of_the_subscriptions_channel(client: Any, new_client: Any) -> None:
    name = register(client, new_token())["subscription_id"]
    for body in ({"token": "no hex"}, {"token": new_token(), "notificationType": "voip"}):
        assert_problem(client("PUT", f"{SUBSCRIPTIONS}/{name}/token", body), 422, "invalid")
    assert_problem(replace_token(new_client(), name, new_token()), 404, "no-subscription")


def test_an_ended_subscription_takes_no_other_token(new_client: Any, inbox: Inbox) -> None:
    first, second, token = new_client(), new_client(), new_token()
    old = register(first, token)["subscription_id"]
    name = register(second, token)["subscription_id"]
    prove(second, name, inbox.code())
    assert_problem(replace_token(first, old, new_token()), 409, "subscription-invalid")
    assert_problem(first("PATCH", f"{SUBSCRIPTIONS}/{old}", {}), 409, "subscription-invalid")
