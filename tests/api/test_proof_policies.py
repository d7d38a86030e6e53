"""When a token has to be proven, and who learns whose it is."""

from typing import Any

import pytest

from clarion.channels import Channel
from clarion.decisions import TokenProof
from tests.api.proving import SUBSCRIPTIONS, Inbox, new_token, owner_of, prove, register
from tests.api.test_problems import assert_problem


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


def test_under_never_a_takeover_that_was_begun_before_ends_without_the_token(
    new_client: Any, policy: Any, inbox: Inbox
) -> None:
    token, client, other = new_token(), new_client(), new_client()
    held = register(other, token)["subscription_id"]
    name = register(client, token)["subscription_id"]
    code = inbox.code()
    client.worker = policy(token_proof=TokenProof.NEVER)
    refusals = (
        prove(client, name, code),
        client("POST", f"{SUBSCRIPTIONS}/{name}/proof/request"),
        client("PUT", f"{SUBSCRIPTIONS}/{name}/token", {"token": token}),
    )
    for refused in refusals:
        assert_problem(refused, 409, "token-taken")
        assert set(refused.json) == {"type", "title", "status"}
    assert owner_of(token) == [held]
    assert inbox.pushes() == []
    other("DELETE", SUBSCRIPTIONS, {"subscription_ids": [held]})
    assert prove(client, name, code).json == {"subscription_id": name, "status": "active"}


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
