"""Requests of one client that meet each other's transactions: DynamoDB refuses the writes of one item among them."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from clarion.tables import Subscription
from tests.api.conflicts import conflicts
from tests.api.proving import NOBODYS, RULES, SUBSCRIPTIONS, Inbox, new_token, prove, register
from tests.api.test_limits import counted
from tests.api.test_problems import assert_problem

MANY = [{"sender_pubkey": uuid4().hex * 2, "topic": "01" * 32} for _ in range(100)]
"""More than one transaction takes."""
type Ask = Callable[[Any, str], Any]


def _pending(new_client: Any) -> tuple[Any, str]:
    """A client, and its subscription for a token that another one has."""
    token = new_token()
    register(new_client(), token)
    client = new_client()
    return client, register(client, token)["subscription_id"]


def assert_contended(answer: Any, refused: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Worth another try, and no failure of the service's."""
    assert refused, "nothing was refused"
    assert_problem(answer, 503, "contended")
    assert answer.headers["Retry-After"] == "1"
    assert counted(capsys) == {"answered_5xx"}


@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_a_large_change_of_rules_that_meets_transactions_is_contended(
    client: Any, method: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name = register(client, new_token())["subscription_id"]
    with conflicts(Subscription) as refused:
        answer = client(method, RULES, {"subscription_id": name, "rules": MANY})
    assert_contended(answer, refused, capsys)


def test_a_large_removal_of_rules_that_meets_transactions_is_contended(
    client: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    name = register(client, new_token())["subscription_id"]
    assert client("PUT", RULES, {"subscription_id": name, "rules": MANY}).status == 204
    with conflicts(Subscription) as refused:
        answer = client("DELETE", RULES, {"subscription_id": name, "rules": MANY})
    assert_contended(answer, refused, capsys)


@pytest.mark.parametrize(
    "ask",
    [
        lambda client, name: prove(client, name, NOBODYS),
        lambda client, name: client("POST", f"{SUBSCRIPTIONS}/{name}/proof/request"),
    ],
    ids=["proof", "another code"],
)
def test_a_proof_that_meets_transactions_is_contended(
    new_client: Any, inbox: Inbox, ask: Ask, capsys: pytest.CaptureFixture[str]
) -> None:
    client, name = _pending(new_client)
    with conflicts(Subscription) as refused:
        answer = ask(client, name)
    assert_contended(answer, refused, capsys)


def test_what_changes_by_transactions_alone_meets_no_such_refusal(client: Any) -> None:
    with conflicts(Subscription) as refused:
        name = register(client, new_token())["subscription_id"]
        assert client("PATCH", f"{SUBSCRIPTIONS}/{name}", {"environment": "sandbox"}).status == 200
        assert client("PUT", f"{SUBSCRIPTIONS}/{name}/token", {"token": new_token()}).status == 200
        assert client("PUT", RULES, {"subscription_id": name, "rules": MANY[:99]}).status == 204
        assert client("POST", RULES, {"subscription_id": name, "rules": MANY[:99]}).status == 201
        assert client("DELETE", RULES, {"subscription_id": name, "rules": MANY[:99]}).status == 200
        assert client("DELETE", SUBSCRIPTIONS, {"subscription_ids": [name]}).status == 204
    assert refused == []
