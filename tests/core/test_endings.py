from collections.abc import Iterator
from uuid import UUID

import pytest
from moto import mock_aws
from pynamodb.connection import Connection
from pynamodb.exceptions import TransactWriteError

from clarion import tables
from clarion.channels import Channel
from clarion.decisions import SubscriptionStatus
from clarion.endings import HOLDERS, Death, declare_dead, end_holders
from clarion.messages import DeadTokenMessage
from clarion.networks import STATEMENTS, XMTP, ZULIP
from clarion.tables import Subscription, Token
from clarion.tokens import holder_of, token_hash, token_of

CREATED_AT = 1_000_000
NOW = 9_000_000


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws():
        connection = tables.bind("")
        Subscription.create_table(billing_mode="PAY_PER_REQUEST")
        Token.create_table(billing_mode="PAY_PER_REQUEST")
        yield connection


TOKEN = "a1" * 32
OTHER = "0a1b2c3d-0000-4000-8000-000000000001"


def subscribe(name: str, network: str = STATEMENTS, *, created_at: int = CREATED_AT) -> Subscription:
    row = Subscription(
        name,
        client_id=b"c" * 32,
        network=network,
        channel="apns",
        token=TOKEN,
        status="active",
        generation=1,
        rule_count=0,
        revision=0,
        created_at=created_at,
        updated_at=created_at,
    )
    row.save()
    token_of(row).save()
    return Subscription.get(name)


@pytest.fixture
def tried(connection: Connection) -> Subscription:
    return subscribe("a-subscription")


def _token_is_taken(subscription: Subscription) -> bool:
    holder = holder_of(subscription.network, subscription.subscription_id)
    return Token.count(token_hash(Channel.APNS, TOKEN), Token.holder == holder) == 1


def test_a_dead_token_makes_its_subscription_invalid_and_is_free_for_a_new_one(
    connection: Connection, tried: Subscription
) -> None:
    assert declare_dead(connection, tried, Death("Unregistered", NOW, since=CREATED_AT))

    tried.refresh()
    assert (tried.status, tried.status_reason, tried.updated_at) == (SubscriptionStatus.INVALID, "Unregistered", NOW)
    assert tried.revision == 1
    assert not _token_is_taken(tried)


def test_a_token_registered_after_the_providers_timestamp_lives(connection: Connection, tried: Subscription) -> None:
    assert not declare_dead(connection, tried, Death("Unregistered", NOW, since=CREATED_AT - 1))

    tried.refresh()
    assert tried.status == SubscriptionStatus.ACTIVE
    assert _token_is_taken(tried)


def test_a_token_that_is_no_longer_the_one_tried_lives(connection: Connection, tried: Subscription) -> None:
    Subscription(tried.subscription_id).update([Subscription.token.set("b2" * 32)])

    assert not declare_dead(connection, tried, Death("BadDeviceToken", NOW))

    tried.refresh()
    assert tried.status == SubscriptionStatus.ACTIVE


def test_declaring_twice_changes_nothing_more(connection: Connection, tried: Subscription) -> None:
    assert declare_dead(connection, tried, Death("BadDeviceToken", NOW))
    assert not declare_dead(connection, tried, Death("Unregistered", NOW + 1))

    tried.refresh()
    assert tried.status_reason == "BadDeviceToken"


def test_a_subscription_that_is_gone_is_not_brought_back(connection: Connection, tried: Subscription) -> None:
    tried.delete()

    assert not declare_dead(connection, tried, Death("Unregistered", NOW))

    assert Subscription.count(tried.subscription_id) == 0


def test_a_token_freed_for_another_subscription_is_not_taken_from_it(
    connection: Connection, tried: Subscription
) -> None:
    key = token_hash(Channel.APNS, tried.token)
    newer = Token(key, STATEMENTS, subscription_id="another", client_id=b"d" * 32)
    newer.save()

    assert not declare_dead(connection, tried, Death("Unregistered", NOW))

    assert _token_is_taken(tried)


def _calls(connection: Connection) -> list[str]:
    """The names of DynamoDB's operations, as they are called from now on."""
    called: list[str] = []
    connection.client.meta.events.register("before-call.dynamodb", lambda model, **_: called.append(model.name))
    return called


def test_a_death_is_one_query_for_other_holders_and_one_transaction(
    connection: Connection, tried: Subscription
) -> None:
    called = _calls(connection)

    assert declare_dead(connection, tried, Death("Unregistered", NOW))

    assert called == ["Query", "TransactWriteItems"]


def test_a_dead_token_ends_the_subscriptions_of_all_its_holders(connection: Connection, tried: Subscription) -> None:
    other = subscribe(OTHER, XMTP)
    requested: list[list[str]] = []

    ended = declare_dead(connection, tried, Death("Unregistered", NOW), request_cleanup=requested.append)

    assert [(row.subscription_id, row.status) for row in ended] == [
        (OTHER, "invalid"),
        ("a-subscription", "invalid"),
    ]
    assert requested == [[OTHER, "a-subscription"]]
    assert Token.count(token_hash(Channel.APNS, TOKEN)) == 0
    other.refresh()
    assert other.status_reason == "Unregistered"


def test_a_dead_token_ends_every_subscription_of_an_additive_network(connection: Connection) -> None:
    devices = [subscribe(str(UUID(int=number)), ZULIP) for number in range(3)]
    subscribe(OTHER)

    ended = declare_dead(connection, devices[0], Death("Unregistered", NOW))

    assert {row.subscription_id for row in ended} == {OTHER, *(row.subscription_id for row in devices)}
    assert Token.count(token_hash(Channel.APNS, TOKEN)) == 0


@pytest.mark.parametrize(("count", "ended", "asked"), [(HOLDERS - 1, HOLDERS - 1, 0), (HOLDERS + 9, HOLDERS + 1, 1)])
def test_a_page_of_holders_ends_and_for_more_there_is_a_request_before(
    connection: Connection, count: int, ended: int, asked: int
) -> None:
    devices = [subscribe(str(UUID(int=number)), ZULIP) for number in range(count)]
    called, requests, pages = _calls(connection), list[DeadTokenMessage](), list[list[str]]()

    def request_endings(message: DeadTokenMessage) -> None:
        assert "TransactWriteItems" not in called
        requests.append(message)

    rows = declare_dead(
        connection,
        devices[-1],
        Death("Unregistered", NOW),
        request_cleanup=pages.append,
        request_endings=request_endings,
    )

    assert (len(rows), len(requests), len(pages[0])) == (ended, asked, ended)
    left = [row for message in requests for row in end_holders(connection, message)]
    assert len(left) == count - ended
    assert Token.count(token_hash(Channel.APNS, TOKEN)) == 0


def test_the_others_of_a_token_end_where_it_is_dead_alone(connection: Connection) -> None:
    devices = [subscribe(str(UUID(int=number)), ZULIP) for number in range(4)]
    devices[1].update([Subscription.app.set("second")])
    devices[2].update([Subscription.token.set("b2" * 32)])
    devices[3].update([Subscription.created_at.set(NOW)])
    dead = DeadTokenMessage(
        token_hash=token_hash(Channel.APNS, TOKEN),
        environment="production",
        reason="Unregistered",
        at=NOW,
        since=NOW - 1,
    )

    assert [row.subscription_id for row in end_holders(connection, dead)] == [devices[0].subscription_id]


def test_a_late_answer_about_an_earlier_registration_ends_nothing(connection: Connection, tried: Subscription) -> None:
    """FCM does not say since when a token is dead."""
    Subscription(tried.subscription_id).update(
        [Subscription.revision.set(2), Subscription.created_at.set(CREATED_AT + 1)]
    )

    assert not declare_dead(connection, tried, Death("UNREGISTERED", NOW))

    tried.refresh()
    assert tried.status == SubscriptionStatus.ACTIVE


@pytest.mark.parametrize("changes", [{"app": "second"}, {"environment": "sandbox"}])
def test_an_answer_about_another_app_or_environment_ends_no_other_holders_subscription(
    connection: Connection, tried: Subscription, changes: dict[str, str]
) -> None:
    other = subscribe(OTHER, XMTP)
    other.update([getattr(Subscription, name).set(value) for name, value in changes.items()])

    assert [row.subscription_id for row in declare_dead(connection, tried, Death("Unregistered", NOW))] == [
        "a-subscription"
    ]


def test_an_answer_that_may_be_the_apps_fault_ends_no_other_holders_subscription(
    connection: Connection, tried: Subscription
) -> None:
    subscribe(OTHER, XMTP)

    ended = declare_dead(connection, tried, Death("BadDeviceToken", NOW, certain=False))

    assert [row.subscription_id for row in ended] == ["a-subscription"]


def test_a_subscription_that_does_not_hold_its_token_ends_no_other(connection: Connection, tried: Subscription) -> None:
    subscribe(OTHER, XMTP)
    Token(token_hash(Channel.APNS, TOKEN), STATEMENTS).delete()

    ended = declare_dead(connection, tried, Death("Unregistered", NOW))

    assert OTHER not in [row.subscription_id for row in ended]


def test_a_holders_row_that_cannot_be_read_keeps_nobody_alive(connection: Connection, tried: Subscription) -> None:
    subscribe("no-uuid", XMTP)

    ended = declare_dead(connection, tried, Death("Unregistered", NOW))

    assert [row.subscription_id for row in ended] == ["a-subscription"]


def test_another_holder_that_registered_after_the_providers_timestamp_lives(
    connection: Connection, tried: Subscription
) -> None:
    later = subscribe(OTHER, XMTP, created_at=CREATED_AT + 10)

    ended = declare_dead(connection, tried, Death("Unregistered", NOW, since=CREATED_AT))

    assert [row.subscription_id for row in ended] == ["a-subscription"]
    later.refresh()
    assert later.status == SubscriptionStatus.ACTIVE
    assert _token_is_taken(later)


def test_a_holder_whose_subscription_has_another_token_by_now_lives(
    connection: Connection, tried: Subscription
) -> None:
    changed = subscribe("changed", XMTP)
    changed.update([Subscription.token.set("b2" * 32)])

    ended = declare_dead(connection, tried, Death("Unregistered", NOW))

    assert [row.subscription_id for row in ended] == ["a-subscription"]
    changed.refresh()
    assert changed.status == SubscriptionStatus.ACTIVE


def test_the_row_that_was_tried_is_left_as_it_was_read(connection: Connection, tried: Subscription) -> None:
    """Several pushes of one batch share it."""
    [ended] = declare_dead(connection, tried, Death("Unregistered", NOW))

    assert (ended.status, ended.client_id, tried.status) == ("invalid", tried.client_id, "active")


def _change_before_each_write(connection: Connection, subscription_id: str, times: int) -> None:
    left = iter(range(times))

    def change(**_: object) -> None:
        if next(left, None) is not None:
            Subscription(subscription_id).update([Subscription.revision.add(1)])

    connection.client.meta.events.register("before-call.dynamodb.TransactWriteItems", change)


def test_a_death_outlasts_changes_in_between(connection: Connection, tried: Subscription) -> None:
    _change_before_each_write(connection, tried.subscription_id, times=2)

    [ended] = declare_dead(connection, tried, Death("Unregistered", NOW))

    assert ended.revision == 3
    assert not _token_is_taken(tried)


def test_a_death_that_could_not_be_recorded_raises(connection: Connection, tried: Subscription) -> None:
    _change_before_each_write(connection, tried.subscription_id, times=100)

    with pytest.raises(TransactWriteError):
        declare_dead(connection, tried, Death("Unregistered", NOW))

    tried.refresh()
    assert tried.status == SubscriptionStatus.ACTIVE
    assert _token_is_taken(tried)
