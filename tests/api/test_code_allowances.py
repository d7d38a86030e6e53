"""How many codes are pushed, to whom."""

from dataclasses import replace
from typing import Any

import pytest

from api.worker import ApiWorker
from clarion.channels import Channel
from clarion.clock import now_ms
from tests.api.proving import HOUR, SUBSCRIPTIONS, Inbox, new_token, prove, register
from tests.api.test_problems import assert_problem


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


def test_a_code_is_asked_for_with_or_without_a_body(new_client: Any, inbox: Inbox) -> None:
    client, token = new_client(), new_token()
    register(new_client(), token)
    path = f"{SUBSCRIPTIONS}/{register(client, token)['subscription_id']}/proof/request"
    form = {"content-type": "application/x-www-form-urlencoded"}
    assert client("POST", path, raw="", **form).status == 202
    assert client("POST", path, raw='{"x": 1').status == 202
    assert_problem(client("POST", path, raw="x=1", **form), 415, "unsupported-media-type")


def test_one_client_has_twenty_codes_an_hour(new_client: Any, worker: ApiWorker, inbox: Inbox) -> None:
    at, client = now_ms(), new_client()
    client.worker = replace(worker, now=lambda: at)
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
