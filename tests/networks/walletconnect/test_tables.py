"""What WalletConnect keeps: buckets, what was seen once, topics, notifications, and rows that show no key."""

import random
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moto import mock_aws

from clarion import tables
from clarion.networks.walletconnect import notifications, topics
from clarion.networks.walletconnect.buckets import LINK, NOTIFY_OF_SUBSCRIBER, BucketSize, TokenBucket, take
from clarion.networks.walletconnect.commands import DappNotification
from clarion.networks.walletconnect.identity_cache import IdentityDocument, cached_identity
from clarion.networks.walletconnect.needs import NEEDS
from clarion.networks.walletconnect.notifications import (
    AddressedNotification,
    NotificationKey,
    SentNotification,
    key_of_link,
    link_id,
)
from clarion.networks.walletconnect.projects import DappApp, Project, ProjectState, has_secret, secret_hash
from clarion.networks.walletconnect.seen import first_seen
from clarion.networks.walletconnect.subscriptions import NotifySubscription
from clarion.networks.walletconnect.tables import MODELS
from clarion.networks.walletconnect.topics import FollowedTopic, TopicKind, find_topic, followed, topics_since
from clarion.networks.walletconnect.watchers import PLACES, Watcher, watchers_of
from tests.match.scene import credentials

NOW = 1_800_000_000_000


@pytest.fixture(scope="module", autouse=True)
def stored() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch, mock_aws():
        for name, value in credentials().items():
            patch.setenv(name, value)
        tables.bind("", own=MODELS)
        for model in MODELS:
            model.create_table(billing_mode="PAY_PER_REQUEST")
        yield


def test_each_table_that_is_needed_has_its_model() -> None:
    assert {model.Meta.table_name for model in MODELS} == {table.name for table in NEEDS.tables}
    for table in NEEDS.tables:
        model = next(one for one in MODELS if one.Meta.table_name == table.name)
        described = model.describe_table()
        keys = [key["AttributeName"] for key in described["KeySchema"]]
        assert keys == [name for name, _ in (key for key in (table.hash_key, table.range_key) if key)]
        indexes = {one["IndexName"] for one in described.get("GlobalSecondaryIndexes", [])}
        assert indexes == {index.name for index in table.indexes}


# ---- buckets ---------------------------------------------------------------------------------------------------------


def test_buckets_are_apart_from_each_other() -> None:
    assert all(take(LINK, "one", NOW) for _ in range(LINK.most))
    assert not take(LINK, "one", NOW)
    assert take(LINK, "other", NOW)
    assert take(NOTIFY_OF_SUBSCRIBER, "one", NOW)


def test_more_than_a_bucket_holds_is_never_there() -> None:
    assert not take(LINK, "too much", NOW, LINK.most + 1)


@pytest.mark.parametrize("size", [LINK, NOTIFY_OF_SUBSCRIBER])
def test_a_bucket_is_remembered_until_it_is_full(size: BucketSize) -> None:
    assert take(size, "emptied", NOW, size.most)
    row = TokenBucket.get(f"{size.name} emptied")
    assert take(size, "emptied", int(row.ttl) * 1000, size.most)


# ---- seen once -------------------------------------------------------------------------------------------------------


def test_whoever_comes_first_is_remembered() -> None:
    first = first_seen("a token", "one", at_ms=NOW, until=NOW // 1000)
    again = first_seen("a token", "one", at_ms=NOW + 5, until=NOW // 1000 + 5)
    replayed = first_seen("a token", "other", at_ms=NOW + 6, until=NOW // 1000 + 6)
    assert {(row.holder, int(row.at)) for row in (first, again, replayed)} == {("one", NOW)}
    assert [row.times for row in (first, again, replayed)] == [1, 2, 3]


# ---- topics ----------------------------------------------------------------------------------------------------------


def test_topics_are_listed_by_when_they_were_added() -> None:
    names = [f"{number:02x}" * 32 for number in range(0, 256, 8)]
    for place, name in enumerate(names):
        followed(name, TopicKind.APP, "app.example.com", NOW + place).save()
    assert sorted(topics_since()) == names
    assert sorted(topics_since(NOW + 30)) == names[30:]
    buckets = Counter(int(row.bucket) for row in FollowedTopic.scan())
    assert set(buckets) <= set(range(topics.BUCKETS))


def test_a_topic_says_what_it_is_for() -> None:
    ref = topics.subscription_ref("app.example.com", "eip155:1:0xab")
    followed("ff" * 32, TopicKind.SUBSCRIPTION, ref, NOW).save()
    row = find_topic("ff" * 32)
    assert row is not None
    assert topics.split_ref(row.ref) == ("app.example.com", "eip155:1:0xab")
    assert find_topic("00" * 31 + "ff") is None


# ---- notifications ---------------------------------------------------------------------------------------------------


def addressed(subscription_id: str) -> AddressedNotification:
    notification = DappNotification(id="one", type=str(UUID(int=1)), title="Hello", body="World")
    return AddressedNotification("0" * 32, notification, subscription_id, NOW)


@given(st.lists(st.integers(0, 2**48 - 1), min_size=2, max_size=10, unique=True))
def test_ids_of_notifications_sort_by_time(times: list[int]) -> None:
    subscription = str(UUID(int=7))
    named = [notifications.notification_id("0" * 32, "one", subscription, at) for at in sorted(times)]
    assert all(earlier < later for earlier, later in pairwise(named))
    assert {UUID(name).version for name in named} == {7}
    assert [UUID(name).int >> 80 for name in named] == sorted(times)


def test_a_notification_has_an_id_for_each_subscriber_and_the_same_again() -> None:
    ids = [
        notifications.notification_id(project, given_id, subscription, NOW)
        for project, given_id, subscription in [("a", "1", "s"), ("b", "1", "s"), ("a", "2", "s"), ("a", "1", "t")]
    ]
    assert len(set(ids)) == len(ids)
    assert ids[0] == notifications.notification_id("a", "1", "s", NOW)


@given(st.uuids(), st.integers(0, 2**32 - 1), st.uuids())
def test_a_link_leads_to_its_notification(subscription: UUID, number: int, notification: UUID) -> None:
    key = NotificationKey(str(subscription), number, str(notification))
    assert key_of_link(link_id(key)) == key


@pytest.mark.parametrize("link", ["", "AAAA", "A" * 44, "?" * 43, str(UUID(int=1))])
def test_what_is_no_link_leads_nowhere(link: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        key_of_link(link)


def test_a_subscribers_notifications_come_newest_first_while_they_are_kept() -> None:
    subscription, numbers = str(uuid4()), random.Random(5).sample(range(1000), 12)
    now = NOW // 1000
    for number in numbers:
        row = addressed(subscription).row(number, "notify.example.com")
        row.ttl = now if number == min(numbers) else now + 1
        assert notifications.add(row)
    listed = [row.number for row in notifications.newest_first(subscription, now)]
    assert listed == sorted(numbers, reverse=True)[:-1]


def test_a_number_is_taken_once() -> None:
    row = addressed(str(uuid4())).row(1, "notify.example.com")
    assert notifications.add(row)
    row.is_read = True
    assert not notifications.add(row)
    found = notifications.find_notification(row.subscription_id, 1)
    assert found is not None
    assert not found.is_read


def test_a_link_is_no_help_in_finding_others() -> None:
    """Of the same subscriber, whose numbers follow each other."""
    row = addressed(str(uuid4())).row(1, "notify.example.com")
    assert notifications.add(row)
    key = NotificationKey(row.subscription_id, 1, row.notification_id)
    found = notifications.find_linked(link_id(key))
    assert found is not None
    assert found.notification_id == row.notification_id
    for other in (key._replace(number=2), key._replace(notification_id=str(uuid4()))):
        assert notifications.find_linked(link_id(other)) is None


# ---- the others ------------------------------------------------------------------------------------------------------


def test_a_watcher_watches_until_its_time_is_over() -> None:
    account, now = "eip155:1:0xAB", NOW // 1000
    for place, app, ttl in zip(PLACES, ("app.example.com", "*"), (now + 1, now), strict=False):
        Watcher(account.lower(), place, response_key=b"k" * 32, identity_key="did:key:z6Mk", app=app, ttl=ttl).save()
    assert [row.app for row in watchers_of(account, now)] == ["app.example.com"]


def test_an_identity_is_known_for_its_key_server_and_for_its_time() -> None:
    now = NOW // 1000
    IdentityDocument("z6Mk", ksu="https://keys.one.example", cacao={"h": {}}, ttl=now + 1).save()
    found = cached_identity("z6Mk", "https://keys.one.example", now)
    assert found is not None
    assert found.cacao == {"h": {}}
    assert cached_identity("z6Mk", "https://keys.two.example", now) is None
    assert cached_identity("z6Mk", "https://keys.one.example", now + 1) is None
    assert cached_identity("z6Mother", "https://keys.one.example", now) is None


def test_a_project_is_known_by_its_secret() -> None:
    project = Project("0" * 32, secret_hash=secret_hash("right"), name="A dapp", created_at=NOW)
    assert has_secret(project, "right")
    assert not has_secret(project, "wrong")
    assert not has_secret(None, "right")
    assert project.state == ProjectState.ACTIVE


def test_no_key_is_in_a_rows_repr() -> None:
    key = b"a key of 32 bytes, to be hidden."
    columns: dict[str, Any] = {
        "topic": "5a",
        "state": "active",
        "hash": "",
        "profile": "shipped",
        "identity_key": "did:key:z6Mk",
    }
    rows = [
        Project("0" * 32, secret_hash=key, name="A dapp", created_at=NOW),
        DappApp("app.example.com", project_id="0" * 32, subscribe_key=key, authentication_key=key, created_at=NOW),
        NotifySubscription("app.example.com", "eip155:1:0xab", subscription_id="s", sym_key=key, **columns),
        Watcher("eip155:1:0xab", "w", response_key=key, identity_key="did:key:z6Mk", app="*", ttl=NOW),
        SentNotification("s", 1, message="a key of 32 bytes, to be hidden."),
    ]
    assert not [row for row in rows if key.decode() in repr(row)]
