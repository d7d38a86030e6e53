"""Token buckets over DynamoDB: exact, however many workers ask at once."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api.networks.walletconnect.kept_notifications import Keeping, NewestNotification, newest_notification
from api.networks.walletconnect.worker import DappApiWorker
from clarion.networks.walletconnect import buckets
from clarion.networks.walletconnect.buckets import NOTIFY_OF_PROJECT, NOTIFY_OF_SUBSCRIBER, BucketSize
from clarion.networks.walletconnect.commands import DappNotification
from clarion.networks.walletconnect.notifications import AddressedNotification, SentNotification
from tests.dapps import TYPE, Dapp

WORKERS, REQUESTS, SECONDS, HOURS = 32, 2_000, 10, 10
BEGIN = 1_795_000_000_000


class Bucket(NamedTuple):
    """What is left of one at `now`, by counting."""

    left: int
    now: int

    def at(self, size: BucketSize, now: int) -> "Bucket":
        refills = now // size.interval - self.now // size.interval
        return Bucket(min(size.most, self.left + refills * size.refill), now)


@pytest.fixture
def one_request_at_a_time(walletconnect_worker: DappApiWorker) -> Iterator[None]:
    """As DynamoDB does for one item; what stands for it here takes several at once apart."""
    events, lock = walletconnect_worker.connection.client.meta.events, threading.Lock()

    def begin(**_: object) -> None:
        lock.acquire()

    def end(**_: object) -> None:
        lock.release()

    events.register("before-call.dynamodb", begin)
    events.register("after-call.dynamodb", end)
    yield
    events.unregister("before-call.dynamodb", begin)
    events.unregister("after-call.dynamodb", end)


@pytest.mark.usefixtures("one_request_at_a_time")
def test_of_2000_requests_by_32_workers_exactly_those_pass_that_have_a_token() -> None:
    key = uuid4().hex

    def take(at: int) -> bool:
        return buckets.take(NOTIFY_OF_PROJECT, key, at)

    with ThreadPoolExecutor(WORKERS) as pool:
        passed = [sum(pool.map(take, [BEGIN + second * 1000] * (REQUESTS // SECONDS))) for second in range(SECONDS)]

    assert passed == [NOTIFY_OF_PROJECT.most] + [NOTIFY_OF_PROJECT.refill] * (SECONDS - 1)


def keeping(subscription_id: str, given_id: str, at: int, issued_at: int | None = None) -> Keeping:
    notification = DappNotification(id=given_id, type=TYPE, title="Hello", body="World")
    addressed = AddressedNotification("0" * 32, notification, subscription_id, at if issued_at is None else issued_at)
    return Keeping(addressed, "notify.example.org", at)


@pytest.mark.usefixtures("one_request_at_a_time")
def test_of_2000_notifications_by_32_workers_exactly_those_are_kept_that_have_a_token() -> None:
    """Two tokens an hour come back to the subscriber."""
    subscription_id, hour = str(uuid4()), NOTIFY_OF_SUBSCRIBER.interval

    def keep(at: int) -> bool:
        return keeping(subscription_id, uuid4().hex, at).keep(newest_notification(subscription_id)) is not None

    with ThreadPoolExecutor(WORKERS) as pool:
        kept = [sum(pool.map(keep, [BEGIN + number * hour] * (REQUESTS // HOURS))) for number in range(HOURS)]

    assert kept == [NOTIFY_OF_SUBSCRIBER.most] + [NOTIFY_OF_SUBSCRIBER.refill] * (HOURS - 1)
    rows = list(SentNotification.query(subscription_id, consistent_read=True))
    assert [row.number for row in rows] == list(range(1, sum(kept) + 1))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 90), st.integers(0, 60)), min_size=1, max_size=90))
@settings(max_examples=30)
@pytest.mark.usefixtures("walletconnect_worker")
def test_a_subscriber_has_each_notification_once_however_old_what_is_known(asked: list[tuple[int, int, int]]) -> None:
    """Each request comes some minutes after the one before, for one of four ids or else a new one, and what it has read
    is so many notifications old. Whoever uses an id first has read before.
    """
    subscription_id, known = str(uuid4()), [NewestNotification()]
    bucket, first_used, kept = Bucket(NOTIFY_OF_SUBSCRIBER.most, BEGIN), dict[str, int](), dict[str, int]()
    for given_id, old, minutes in asked:
        bucket = bucket.at(NOTIFY_OF_SUBSCRIBER, bucket.now + minutes * 60_000)
        name, newest = str(given_id or uuid4()), known[max(0, len(known) - 1 - old)]
        repeated, issued_at = name in first_used, first_used.setdefault(name, bucket.now)
        one = keeping(subscription_id, name, bucket.now, issued_at)
        row = one.keep_unless_kept(newest, newest.number_before(issued_at)) if repeated else one.keep(newest)
        if name in kept:
            assert row is not None
            assert row.number == kept[name]
        elif bucket.left:
            assert row is not None
            known.append(NewestNotification.of(row))
            bucket, kept[name] = bucket._replace(left=bucket.left - 1), int(row.number)
        else:
            assert row is None
    assert sorted(kept.values()) == list(range(1, len(kept) + 1))


@pytest.mark.usefixtures("one_request_at_a_time")
def test_a_subscriber_is_sent_exactly_50_however_many_requests_are_for_it(dapp: Dapp) -> None:
    """Each names it with others, at once."""
    account = dapp.subscriber()
    dapp.clock.pass_seconds(60)
    requests = [[account, dapp.subscriber()] for _ in range(NOTIFY_OF_PROJECT.most)]

    with ThreadPoolExecutor(WORKERS) as pool:
        replies = list(pool.map(lambda accounts: dapp.notify(*accounts), requests))
    dapp.clock.pass_seconds(20)
    for _ in range(NOTIFY_OF_PROJECT.most):
        replies += [dapp.notify(account), dapp.notify(account)]
        dapp.clock.pass_seconds(1)

    assert {reply.status for reply in replies} == {200}
    assert sum(account in reply.json["sent"] for reply in replies) == NOTIFY_OF_SUBSCRIBER.most


@given(
    st.builds(
        BucketSize,
        st.just("made up"),
        most=st.integers(1, 5),
        interval=st.sampled_from([500, 1_000, 3_600_000]),
        refill=st.integers(1, 6),
    ),
    st.lists(st.tuples(st.integers(0, 4_000), st.integers(1, 6)), min_size=1, max_size=12),
)
@pytest.mark.usefixtures("walletconnect_worker")
def test_a_bucket_holds_what_counting_says(size: BucketSize, asked: list[tuple[int, int]]) -> None:
    """Each request comes some thousandths of four intervals after the one before."""
    key, bucket = uuid4().hex, Bucket(size.most, BEGIN)
    for later, tokens in asked:
        bucket = bucket.at(size, bucket.now + later * size.interval // 1000)
        passes = tokens <= bucket.left
        assert buckets.take(size, key, bucket.now, tokens) is passes
        bucket = bucket._replace(left=bucket.left - tokens * passes)


def test_the_sizes_are_those_of_the_notify_server_that_was_shipped() -> None:
    """Most, interval in seconds, refill. Deletes are not limited, as one that is refused would be lost."""
    shipped = {
        "notify_project": (20, 1, 2),
        "notify_subscriber": (50, 3_600, 2),
        "subscribers_get": (5, 1, 1),
        "subscribers_post": (100, 1, 100),
        "subscribe_topic": (100, 60, 1),
        "welcome": (100, 60, 1),
        "mark_all_as_read": (100, 60, 1),
        "link": (20, 1, 2),
        "subscribe_client": (500, 86_400, 100),
        "subscribe_project": (50_000, 1, 1),
        "update_topic": (100, 1, 1),
        "watch_client": (100, 1, 1),
        "history_topic": (100, 0.5, 1),
    }
    ours = {buckets.KEY_SERVER_REQUESTS, buckets.LISTS_OF_ACCOUNT}
    sizes = {value for value in vars(buckets).values() if isinstance(value, BucketSize)} - ours
    assert {size.name: (size.most, size.interval / 1000, size.refill) for size in sizes} == shipped
