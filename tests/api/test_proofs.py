"""Whose a token is: the code that is pushed to it, and what comes of handing it back."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID, uuid4

import boto3
import pytest

from api.worker import ApiWorker
from clarion import base64url, proofs, subscriptions
from clarion.addresses import WebhookAddress
from clarion.channels import Channel
from clarion.clock import now_ms
from clarion.decisions import Purpose, PushDecision, SubscriptionStatus, TokenProof, Wanted
from clarion.endings import DEAD_SECONDS, Death, declare_dead
from clarion.events import SubscriptionChanged
from clarion.messages import PushMessage
from clarion.networks import STATEMENTS
from clarion.proofs import expires_at
from clarion.rulesets import Owner
from clarion.subscriptions import Registration
from clarion.tables import RuleRow, Subscription, Token, WakeUp
from clarion.tokens import token_hash
from clarion.wake_ups import expiry_slot, slot_of
from tests.api.test_problems import assert_problem
from tests.api.test_subscriptions import Emitted
from tests.codes import code_of

SUBSCRIPTIONS = "/v1/subscriptions"
RULES = "/v1/subscriptions/rules"
RULE = {"sender_pubkey": "ab" * 32, "topic": "01" * 32}
HOUR, DAY = 3600 * 1000, 86_400 * 1000
NOBODYS = "A" * 43
"""A code that nobody was sent."""


def new_token() -> str:
    return uuid4().hex * 2


@dataclass
class Inbox:
    """What dispatch would get."""

    worker: ApiWorker

    def pushes(self, channel: Channel = Channel.APNS) -> list[PushMessage]:
        sqs, url = boto3.client("sqs"), self.worker.settings.push_queues[channel]
        pushes = []
        while found := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
            for message in found:
                pushes.append(PushMessage.model_validate_json(message["Body"]))
                sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return pushes

    def code(self, channel: Channel = Channel.APNS) -> str:
        """Of the one push that is there."""
        [push] = self.pushes(channel)
        return code_of(push)


@pytest.fixture
def inbox(worker: ApiWorker) -> Inbox:
    inbox = Inbox(worker)
    for channel in worker.settings.push_queues:
        inbox.pushes(channel)
    return inbox


@pytest.fixture
def policy(worker: ApiWorker) -> Callable[..., ApiWorker]:
    """The worker with other settings."""
    return lambda **changes: replace(worker, settings=worker.settings.model_copy(update=changes))


def register(client: Any, token: str, **body: Any) -> Any:
    answer = client("POST", SUBSCRIPTIONS, {"notificationType": "apns", "token": token, **body})
    assert answer.status == 201, answer.text
    return answer.json


def prove(client: Any, name: str, code: str) -> Any:
    return client("POST", f"{SUBSCRIPTIONS}/{name}/proof", {"code": code})


def state(client: Any, name: str) -> Any:
    answer = client("GET", f"{SUBSCRIPTIONS}/{name}")
    assert answer.status == 200, answer.text
    return answer.json


def owner_of(token: str, channel: Channel = Channel.APNS) -> list[str]:
    return [row.subscription_id for row in Token.query(token_hash(channel, token), consistent_read=True)]


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


# ---- who is told what -----------------------------------------------------------------------------------------------


def test_a_client_has_a_token_once(new_client: Any, inbox: Inbox) -> None:
    token, client = new_token(), new_client()
    register(new_client(), token)
    name = register(client, token)["subscription_id"]
    again = client("POST", SUBSCRIPTIONS, {"notificationType": "apns", "token": token})
    assert_problem(again, 409, "token-taken")
    assert again.json["subscription_id"] == name
    assert len(inbox.pushes()) == 1


def test_under_never_a_token_stays_with_its_client_who_is_not_named(new_client: Any, policy: Any, inbox: Inbox) -> None:
    token, client = new_token(), new_client()
    register(new_client(), token)
    client.worker = policy(token_proof=TokenProof.NEVER)
    refused = client("POST", SUBSCRIPTIONS, {"notificationType": "apns", "token": token})
    assert_problem(refused, 409, "token-taken")
    assert set(refused.json) == {"type", "title", "status"}
    assert inbox.pushes() == []


@pytest.mark.parametrize(("channel", "status"), [("apns", "pending"), ("fcm", "pending"), ("voip", "active")])
def test_under_always_a_free_token_is_proven_unless_that_would_ring(
    new_client: Any, policy: Any, inbox: Inbox, channel: str, status: str
) -> None:
    token, client = new_token(), new_client()
    client.worker = policy(token_proof=TokenProof.ALWAYS)
    made = register(client, token, notificationType=channel)
    assert made["status"] == status
    assert len(inbox.pushes(Channel(channel))) == (status == "pending")
    if status == "pending":
        assert owner_of(token, Channel(channel)) == []


def test_a_call_token_that_another_client_has_rings_once_for_its_proof(new_client: Any, inbox: Inbox) -> None:
    token, client = new_token(), new_client()
    register(new_client(), token, notificationType="voip")
    name = register(client, token, notificationType="voip")["subscription_id"]
    assert prove(client, name, inbox.code(Channel.VOIP)).status == 200
    assert inbox.pushes(Channel.VOIP) == []


# ---- allowances -----------------------------------------------------------------------------------------------------


def ask(client: Any, name: str) -> Any:
    return client("POST", f"{SUBSCRIPTIONS}/{name}/proof/request")


@pytest.mark.parametrize(("channel", "limit"), [("apns", 3), ("voip", 2)])
def test_a_client_has_few_codes_an_hour_for_one_token_and_leaves_the_others_theirs(
    new_client: Any, worker: ApiWorker, inbox: Inbox, channel: str, limit: int
) -> None:
    begin, squatter, owner, token = now_ms() // HOUR * HOUR, new_client(), new_client(), new_token()
    squatter.worker = replace(worker, now=lambda: begin)
    register(new_client(), token, notificationType=channel)
    name = register(squatter, token, notificationType=channel)["subscription_id"]
    assert [ask(squatter, name).status for _ in range(limit)] == [202] * (limit - 1) + [429]
    assert len(inbox.pushes(Channel(channel))) == limit

    name = register(owner, token, notificationType=channel)["subscription_id"]
    assert prove(owner, name, inbox.code(Channel(channel))).status == 200


@pytest.mark.parametrize(("channel", "limit"), [("apns", 30), ("voip", 4)])
def test_a_token_that_has_had_its_codes_is_registered_without_one(
    new_client: Any, worker: ApiWorker, inbox: Inbox, channel: str, limit: int
) -> None:
    begin, token, late = now_ms() // HOUR * HOUR, new_token(), new_client()
    clients = [new_client() for _ in range(limit)]
    for client in [*clients, late]:
        client.worker = replace(worker, now=lambda: begin)
    register(new_client(), token, notificationType=channel)
    for client in clients:
        register(client, token, notificationType=channel)
    assert len(inbox.pushes(Channel(channel))) == limit

    made = register(late, token, notificationType=channel)

    assert made["status"] == "pending"
    assert inbox.pushes(Channel(channel)) == []
    refused = ask(late, made["subscription_id"])
    assert_problem(refused, 429, "too-many-requests")
    assert refused.json["detail"] == f"at most {limit} codes an hour to one token, for all its clients"
    late.worker = replace(worker, now=lambda: begin + int(refused.headers["Retry-After"]) * 1000)
    assert ask(late, made["subscription_id"]).status == 202
    assert prove(late, made["subscription_id"], inbox.code(Channel(channel))).status == 200


def test_one_client_has_twenty_codes_an_hour(new_client: Any, inbox: Inbox) -> None:
    client = new_client()
    names = []
    for _ in range(7):
        token = new_token()
        register(new_client(), token)
        names.append(register(client, token)["subscription_id"])
    for name in [*names, *names][:13]:
        assert ask(client, name).status == 202
    refused = ask(client, names[-1])
    assert_problem(refused, 429, "too-many-requests")
    assert refused.json["detail"] == "at most 20 codes an hour"
    assert len(inbox.pushes()) == 20


def test_pending_subscriptions_count(new_client: Any, policy: Any, inbox: Inbox) -> None:
    client = new_client()
    client.worker = policy(subscriptions_per_client=1)
    token = new_token()
    register(new_client(), token)
    register(client, token)
    full = client("POST", SUBSCRIPTIONS, {"notificationType": "apns", "token": new_token()})
    assert_problem(full, 409, "too-many-subscriptions")
    assert len(inbox.pushes()) == 1


# ---- what else happens to the token ---------------------------------------------------------------------------------


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


# ---- another token --------------------------------------------------------------------------------------------------


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


# ---- other changes --------------------------------------------------------------------------------------------------

KEY = base64url.encode(bytes(range(32)))


def test_a_change_leaves_alone_what_it_does_not_name(client: Any) -> None:
    token = new_token()
    name = register(client, token, environment="sandbox")["subscription_id"]
    path = f"{SUBSCRIPTIONS}/{name}"
    whole = {"subscription_id": name, "notificationType": "apns", "token": token, "status": "active"}
    changed = client("PATCH", path, {"app": "tablet", "device_key": KEY, "wake_every_minutes": 30})
    options = {"app": "tablet", "device_key": KEY, "wake_every_minutes": 30}
    assert (changed.status, changed.json) == (200, {**whole, "environment": "sandbox", **options})
    assert client("PATCH", path, {}).json == changed.json
    client("PATCH", path, {"device_key": None, "wake_every_minutes": None, "environment": "production"})
    assert client("GET", path).json == {**whole, "environment": "production", "app": "tablet"}


@pytest.mark.parametrize(
    ("channel", "field", "value"),
    [
        ("apns", "app", "unknown"),
        ("apns", "environment", "moon"),
        ("apns", "device_key", base64url.encode(bytes(32))),
        ("apns", "device_key", base64url.encode(bytes(31))),
        ("apns", "device_key", 7),
        ("apns", "wake_every_minutes", 19),
        ("apns", "wake_every_minutes", 1441),
        ("voip", "wake_every_minutes", 30),
    ],
)
def test_a_change_or_a_registration_that_breaks_a_rule_names_the_field(
    client: Any, channel: str, field: str, value: Any
) -> None:
    name = register(client, new_token(), notificationType=channel)["subscription_id"]
    body = {"notificationType": channel, "token": new_token(), field: value}
    for answer in (client("PATCH", f"{SUBSCRIPTIONS}/{name}", {field: value}), client("POST", SUBSCRIPTIONS, body)):
        assert_problem(answer, 422, "invalid")
        assert [error["field"] for error in answer.json["errors"]] == [field]


def test_a_move_to_a_webhook_drops_the_options_that_it_does_not_have(client: Any, worker: ApiWorker) -> None:
    options: Any = {"device_key": bytes(range(32)), "wake_every_minutes": 30}
    before = Registration("xmtp", client.key, Channel.APNS, new_token(), **options)
    row = subscriptions.register(worker.connection, before, now=now_ms())
    assert isinstance(row, Subscription)
    address = WebhookAddress(client=client.key.hex(), installation_id="i", token="t").text
    after = Registration("xmtp", client.key, Channel.WEBHOOK, address)
    subscriptions.move(worker.connection, row, after, now=now_ms())
    left = Subscription.get(row.subscription_id).attribute_values
    assert left["channel"] == "webhook"
    assert not {"device_key", "wake_every_minutes"} & {name for name, value in left.items() if value is not None}


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


def test_an_id_that_is_none_is_no_address(client: Any) -> None:
    assert_problem(client("GET", f"{SUBSCRIPTIONS}/none"), 404, "no-route")
    wrong = client("POST", f"{SUBSCRIPTIONS}/{uuid4()}")
    assert_problem(wrong, 405, "wrong-method")
    assert wrong.headers["Allow"] == "GET, PATCH"
    assert client("GET", RULES).headers["Allow"] == "DELETE, POST, PUT"
    assert json.loads(client("GET", f"{SUBSCRIPTIONS}/{uuid4()}/token").text)["status"] == 405


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
