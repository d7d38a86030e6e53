"""Clients that prove the same token at the same time, whatever the order of their requests, and whichever crashes."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.worker import ApiWorker
from clarion import base64url, subscriptions
from clarion.channels import Channel
from clarion.clock import now_ms
from clarion.decisions import SubscriptionStatus
from clarion.endings import Death, declare_dead
from clarion.networks import STATEMENTS
from clarion.proofs import ProofCode
from clarion.rulesets import Owner
from clarion.subscriptions import Registration
from clarion.tables import Subscription, Token, WakeUp
from clarion.tokens import token_hash
from clarion.wake_ups import slot_of
from tests.api.test_races import (
    SCHEDULES,
    Op,
    Runner,
    race,
    watched,  # noqa: F401 - a fixture
)

HOLDER = b"h" * 32
CRASHES = st.none() | st.integers(0, 6)


def registered(worker: ApiWorker, client_id: bytes, token: str, code: ProofCode | None = None) -> str:
    registration = Registration(*Owner(STATEMENTS, client_id), Channel.APNS, token, code=code)
    row = subscriptions.register(worker.connection, registration, now=now_ms())
    assert isinstance(row, Subscription)
    return row.subscription_id


def check_one_owner(token: str, names: list[str]) -> str | None:
    """The token's owner is the one subscription that is active; None if there is neither."""
    rows = Subscription.batch_get(names, consistent_read=True)
    active = [row.subscription_id for row in rows if row.status == SubscriptionStatus.ACTIVE]
    owners = [row.subscription_id for row in Token.query(token_hash(Channel.APNS, token), consistent_read=True)]
    assert owners == active
    assert len(owners) <= 1
    return owners[0] if owners else None


@pytest.mark.usefixtures("watched")
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(crashes=st.lists(CRASHES, min_size=2, max_size=3), dies=st.booleans(), schedule=SCHEDULES)
def test_whoever_proves_at_the_same_time_one_owns_the_token(
    worker: ApiWorker,
    new_client: Callable[[], Any],
    crashes: list[int | None],
    dies: bool,
    schedule: list[tuple[int, int]],
) -> None:
    token, clients = uuid4().hex * 2, [new_client() for _ in crashes]
    codes = [ProofCode.new(now_ms()) for _ in crashes]
    held = registered(worker, HOLDER, token)
    names = [registered(worker, client.key, token, code) for client, code in zip(clients, codes, strict=True)]

    def perform(op: Op) -> int:
        if op.kind == "die":
            return len(declare_dead(worker.connection, Subscription.get(held), Death("Unregistered", at=now_ms())))
        which = int(op.kind)
        path = f"/v1/subscriptions/{names[which]}/proof"
        return int(clients[which]("POST", path, {"code": base64url.encode(codes[which].secret)}).status)

    runners = [Runner(Op(str(which)), crash_after) for which, crash_after in enumerate(crashes)]
    runners += [Runner(Op("die"), None)] if dies else []
    race(runners, iter(schedule), perform)

    provers = runners[: len(crashes)]
    assert {runner.answer for runner in provers if not runner.error} <= {200, 503}
    owner = check_one_owner(token, [held, *names])
    proven = {names[int(runner.op.kind)] for runner in provers if runner.answer == 200}
    assert owner in proven or not proven or any(runner.error for runner in provers)
    assert owner or dies, "nobody has it"
    for name in proven - {owner}:
        assert Subscription.get(name).status_reason == "replaced"


@pytest.mark.usefixtures("watched")
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(crashes=st.tuples(CRASHES, CRASHES, CRASHES), schedule=SCHEDULES)
def test_whoever_replaces_its_token_meanwhile_one_owns_each(
    worker: ApiWorker,
    new_client: Callable[[], Any],
    crashes: tuple[int | None, int | None, int | None],
    schedule: list[tuple[int, int]],
) -> None:
    """Its holder moves to another token, another client proves the one it had, and a third registers it."""
    token, other, code = uuid4().hex * 2, uuid4().hex * 2, ProofCode.new(now_ms())
    holder, prover, third = new_client(), new_client(), new_client()
    held, pending = registered(worker, holder.key, token), registered(worker, prover.key, token, code)
    requests = {
        "move": lambda: holder("PUT", f"/v1/subscriptions/{held}/token", {"token": other}),
        "prove": lambda: prover("POST", f"/v1/subscriptions/{pending}/proof", {"code": base64url.encode(code.secret)}),
        "register": lambda: third("POST", "/v1/subscriptions", {"notificationType": "apns", "token": token}),
    }
    runners = [Runner(Op(kind), crash_after) for kind, crash_after in zip(requests, crashes, strict=True)]
    race(runners, iter(schedule), lambda op: requests[op.kind]().status)

    assert {runner.answer for runner in runners if not runner.error} <= {200, 201, 409, 503}
    made = [row.subscription_id for row in subscriptions.of_owner(Owner(STATEMENTS, third.key))]
    rows = {row.subscription_id: row for row in Subscription.batch_get([held, pending, *made], consistent_read=True)}
    for one in (token, other):
        check_one_owner(one, [name for name, row in rows.items() if row.token == one])


@pytest.mark.usefixtures("watched")
@pytest.mark.parametrize("requests_before", range(1, 7))
@pytest.mark.parametrize("kind", ["move", "change"])
def test_whatever_changes_meanwhile_a_removed_subscription_leaves_nothing(
    new_client: Callable[[], Any], kind: str, requests_before: int
) -> None:
    """Between two requests of the removal it gets another token, or another period of its wake-ups."""
    client, tokens = new_client(), [uuid4().hex * 2 for _ in range(2)]
    body = {"notificationType": "apns", "token": tokens[0], "wake_every_minutes": 30}
    name = client("POST", "/v1/subscriptions", body).json["subscription_id"]
    path = f"/v1/subscriptions/{name}"
    requests = {
        "remove": lambda: client("DELETE", "/v1/subscriptions", {"subscription_ids": [name]}),
        "move": lambda: client("PUT", f"{path}/token", {"token": tokens[1]}),
        "change": lambda: client("PATCH", path, {"wake_every_minutes": 20}),
    }
    removal, other = runners = [Runner(Op("remove"), None), Runner(Op(kind), None)]

    race(runners, iter([(0, 1 + requests_before), (1, 1000)]), lambda op: requests[op.kind]().status)

    assert removal.answer == 204
    assert other.answer in {200, 404}
    assert not [row for token in tokens for row in Token.query(token_hash(Channel.APNS, token))]
    mine = WakeUp.subscription_id == name
    assert not [slot for minutes in (20, 30) for slot in WakeUp.query(slot_of(name, minutes), mine)]


@pytest.mark.parametrize("kind", ["register", "move"])
def test_a_token_whose_subscription_is_gone_is_free(
    worker: ApiWorker, new_client: Callable[[], Any], kind: str
) -> None:
    """A row of `tokens` alone keeps nobody from registering the token."""
    token, client = uuid4().hex * 2, new_client()
    Subscription(registered(worker, HOLDER, token)).delete()
    if kind == "register":
        made = client("POST", "/v1/subscriptions", {"notificationType": "apns", "token": token})
    else:
        name = registered(worker, client.key, uuid4().hex * 2)
        made = client("PUT", f"/v1/subscriptions/{name}/token", {"token": token})
    assert made.json["status"] == "active"
    assert check_one_owner(token, [made.json["subscription_id"]]) is not None
