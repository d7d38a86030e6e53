from collections.abc import Iterator

import pytest
from moto import mock_aws
from pynamodb.connection import Connection
from pynamodb.exceptions import TransactWriteError

from clarion import tables
from clarion.channels import Channel
from clarion.decisions import SubscriptionStatus
from clarion.tables import Subscription, Token
from clarion.tokens import declare_dead, token_hash

CREATED_AT = 1_000_000
NOW = 9_000_000


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws():
        tables.bind("")
        Subscription.create_table(billing_mode="PAY_PER_REQUEST")
        Token.create_table(billing_mode="PAY_PER_REQUEST")
        yield Connection()


@pytest.fixture
def tried(connection: Connection) -> Subscription:
    subscription = Subscription(
        "a-subscription",
        client_id=b"c" * 32,
        channel="apns",
        token="a1" * 32,
        status="active",
        generation=1,
        rule_count=0,
        revision=0,
        created_at=CREATED_AT,
        updated_at=CREATED_AT,
    )
    subscription.save()
    owner = Token(token_hash(Channel.APNS, subscription.token))
    owner.subscription_id, owner.client_id = subscription.subscription_id, subscription.client_id
    owner.save()
    return Subscription.get(subscription.subscription_id)


def _token_is_taken(subscription: Subscription) -> bool:
    return Token.count(token_hash(Channel.APNS, subscription.token)) == 1


def test_a_dead_token_makes_its_subscription_invalid_and_is_free_for_a_new_one(
    connection: Connection, tried: Subscription
) -> None:
    assert declare_dead(connection, tried, reason="Unregistered", gone_since=CREATED_AT, now=NOW)

    tried.refresh()
    assert (tried.status, tried.status_reason, tried.updated_at) == (SubscriptionStatus.INVALID, "Unregistered", NOW)
    assert tried.revision == 1
    assert not _token_is_taken(tried)


def test_a_token_registered_after_the_providers_timestamp_lives(connection: Connection, tried: Subscription) -> None:
    assert not declare_dead(connection, tried, reason="Unregistered", gone_since=CREATED_AT - 1, now=NOW)

    tried.refresh()
    assert tried.status == SubscriptionStatus.ACTIVE
    assert _token_is_taken(tried)


def test_a_token_that_is_no_longer_the_one_tried_lives(connection: Connection, tried: Subscription) -> None:
    Subscription(tried.subscription_id).update([Subscription.token.set("b2" * 32)])

    assert not declare_dead(connection, tried, reason="BadDeviceToken", gone_since=None, now=NOW)

    tried.refresh()
    assert tried.status == SubscriptionStatus.ACTIVE


def test_declaring_twice_changes_nothing_more(connection: Connection, tried: Subscription) -> None:
    assert declare_dead(connection, tried, reason="BadDeviceToken", gone_since=None, now=NOW)
    assert not declare_dead(connection, tried, reason="Unregistered", gone_since=None, now=NOW + 1)

    tried.refresh()
    assert tried.status_reason == "BadDeviceToken"


def test_a_subscription_that_is_gone_is_not_brought_back(connection: Connection, tried: Subscription) -> None:
    tried.delete()

    assert not declare_dead(connection, tried, reason="Unregistered", gone_since=None, now=NOW)

    assert Subscription.count(tried.subscription_id) == 0


def test_a_token_freed_for_another_subscription_is_not_taken_from_it(
    connection: Connection, tried: Subscription
) -> None:
    newer = Token(token_hash(Channel.APNS, tried.token))
    newer.subscription_id, newer.client_id = "another", b"d" * 32
    newer.save()

    assert not declare_dead(connection, tried, reason="Unregistered", gone_since=None, now=NOW)

    assert _token_is_taken(tried)


def _calls(connection: Connection) -> list[str]:
    """The names of DynamoDB's operations, as they are called from now on."""
    called: list[str] = []
    connection.client.meta.events.register("before-call.dynamodb", lambda model, **_: called.append(model.name))
    return called


def test_a_death_is_one_transaction_without_any_read(connection: Connection, tried: Subscription) -> None:
    called = _calls(Subscription._get_connection().connection)
    called_by_transactions = _calls(connection)

    assert declare_dead(connection, tried, reason="Unregistered", gone_since=None, now=NOW)

    assert (called, called_by_transactions) == ([], ["TransactWriteItems"])


def test_the_row_that_was_tried_is_left_as_it_was_read(connection: Connection, tried: Subscription) -> None:
    """Several pushes of one batch share it."""
    ended = declare_dead(connection, tried, reason="Unregistered", gone_since=None, now=NOW)

    assert ended
    assert (ended.status, ended.client_id, tried.status) == ("invalid", tried.client_id, "active")


def _change_before_each_write(connection: Connection, subscription_id: str, times: int) -> None:
    left = iter(range(times))

    def change(**_: object) -> None:
        if next(left, None) is not None:
            Subscription(subscription_id).update([Subscription.revision.add(1)])

    connection.client.meta.events.register("before-call.dynamodb.TransactWriteItems", change)


def test_a_death_outlasts_changes_in_between(connection: Connection, tried: Subscription) -> None:
    _change_before_each_write(connection, tried.subscription_id, times=2)

    ended = declare_dead(connection, tried, reason="Unregistered", gone_since=None, now=NOW)

    assert ended
    assert ended.revision == 3
    assert not _token_is_taken(tried)


def test_a_death_that_could_not_be_recorded_is_no_silence(connection: Connection, tried: Subscription) -> None:
    _change_before_each_write(connection, tried.subscription_id, times=100)

    with pytest.raises(TransactWriteError):
        declare_dead(connection, tried, reason="Unregistered", gone_since=None, now=NOW)

    tried.refresh()
    assert tried.status == SubscriptionStatus.ACTIVE
    assert _token_is_taken(tried)


def test_the_same_text_at_two_providers_is_two_tokens() -> None:
    assert token_hash(Channel.APNS, "a1") != token_hash(Channel.VOIP, "a1")
