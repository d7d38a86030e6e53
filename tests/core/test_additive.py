"""Subscriptions of an additive network hold a token beside all others, and nobody's stands in their way."""

from collections.abc import Iterator
from dataclasses import replace
from uuid import UUID

import pytest
from moto import mock_aws
from pynamodb.connection import Connection

from clarion import tables
from clarion.channels import Channel
from clarion.decisions import SubscriptionStatus
from clarion.endings import Death, declare_dead
from clarion.networks import STATEMENTS, ZULIP
from clarion.proofs import ProofCode
from clarion.rulesets import Owner
from clarion.subscriptions import Registration, TokenTaken, holder, move, register, remove
from clarion.tables import Subscription, Token, find_subscription
from clarion.takeovers import take_over
from clarion.tokens import token_hash

TOKEN = "C0FFEE" * 11
SERVER, CLIENT = b"s" * 16, b"c" * 32
DEVICE, SECOND_DEVICE = (str(UUID(int=number)) for number in (7, 8))
NOW = 1_700_000_000_000
FIRST = Registration(
    ZULIP, SERVER, Channel.APNS, TOKEN, app="first", subscription_id=DEVICE, network_data=b"sealed at noon"
)
SECOND = replace(FIRST, subscription_id=SECOND_DEVICE, client_id=b"t" * 16)
STATEMENT = Registration(STATEMENTS, CLIENT, Channel.APNS, TOKEN)


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws():
        connection = tables.bind("")
        for model in (Subscription, Token, tables.WakeUp):
            model.create_table(billing_mode="PAY_PER_REQUEST")
        yield connection


def registered(connection: Connection, registration: Registration, now: int = NOW) -> Subscription:
    made = register(connection, registration, now=now)
    assert isinstance(made, Subscription)
    return made


def holders() -> set[str]:
    return {row.subscription_id for row in Token.query(token_hash(Channel.APNS, TOKEN))}


def test_several_hold_one_token_beside_a_client_of_another_network(connection: Connection) -> None:
    rows = [registered(connection, registration) for registration in (FIRST, STATEMENT, SECOND)]
    assert {row.status for row in rows} == {SubscriptionStatus.ACTIVE}
    assert holders() == {row.subscription_id for row in rows}


def test_a_token_that_they_hold_is_free_for_a_client(connection: Connection) -> None:
    registered(connection, FIRST)
    assert holder(STATEMENT) is None


def test_the_same_one_is_registered_once(connection: Connection) -> None:
    registered(connection, FIRST)
    assert register(connection, FIRST, now=NOW + 1) == TokenTaken(DEVICE, Owner(ZULIP, SERVER))


def test_a_takeover_among_clients_leaves_them_alone(connection: Connection) -> None:
    device, owner = registered(connection, FIRST), registered(connection, STATEMENT)
    pending = registered(connection, replace(STATEMENT, client_id=b"d" * 32, code=ProofCode.new(NOW)))

    ended = take_over(connection, pending, now=NOW + 1, request_cleanup=lambda _: None)

    assert ended
    assert [row.subscription_id for row in ended] == [owner.subscription_id, pending.subscription_id]
    assert holders() == {device.subscription_id, pending.subscription_id}


def test_one_that_has_ended_begins_anew_under_its_id(connection: Connection) -> None:
    row = registered(connection, FIRST)
    [ended] = declare_dead(connection, row, Death("Unregistered", NOW + 1))

    moved = move(connection, ended, replace(FIRST, network_data=b"sealed at night"), now=NOW + 2)

    revived = find_subscription(DEVICE)
    assert isinstance(moved, Subscription)
    assert revived
    assert revived.status == SubscriptionStatus.ACTIVE
    assert {"status_reason", "ttl"} & revived.attribute_values.keys() == set()
    assert (revived.began_at, revived.created_at, revived.network_data) == (NOW + 2, NOW + 2, b"sealed at night")
    assert revived.revision > ended.revision
    assert holders() == {DEVICE}


def test_what_is_said_of_its_earlier_life_does_not_end_it(connection: Connection) -> None:
    first_life = registered(connection, FIRST)
    [ended] = declare_dead(connection, first_life, Death("Unregistered", NOW + 1))
    assert isinstance(move(connection, ended, FIRST, now=NOW + 2), Subscription)

    assert not declare_dead(connection, first_life, Death("Unregistered", NOW + 3))

    revived = find_subscription(DEVICE)
    assert revived
    assert revived.status == SubscriptionStatus.ACTIVE
    assert holders() == {DEVICE}


def test_one_that_is_removed_frees_the_token_for_nobody_else(connection: Connection) -> None:
    for registration in (FIRST, SECOND):
        registered(connection, registration)

    assert remove(connection, [DEVICE], FIRST.owner)

    assert find_subscription(DEVICE) is None
    assert holders() == {SECOND_DEVICE}


def test_neither_the_token_nor_what_the_network_keeps_is_shown(connection: Connection) -> None:
    assert TOKEN not in repr(FIRST)
    assert "noon" not in repr(FIRST)
    assert "noon" not in repr(registered(connection, FIRST))
