"""The index of deliveries finds what was put in, and reads little for it."""

from collections.abc import Callable
from random import Random
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clarion.channels import Channel
from clarion.decisions import NotificationDecision, PushDecision
from clarion.deliveries import DECISIONS, DeliveryRecord, find, pack, without
from clarion.events import NotificationDecided
from clarion.networks import STATEMENTS

DELIVERIES = st.builds(
    DeliveryRecord,
    st.one_of(st.uuids(), st.sampled_from([UUID(int=1), UUID(int=2), UUID(int=2**128 - 1)])),
    st.integers(0, 2**48),
    st.sampled_from(DECISIONS),
    st.none() | st.integers(0, 2**32 - 2),
    st.none() | st.integers(1, 2**16 - 1),
)


class Reader:
    """An object of S3, and how much of it was read."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.read_bytes: list[int] = []

    def __call__(self, begin: int, end: int) -> bytes:
        self.read_bytes.append(end - begin)
        return self.content[begin:end]

    def find(self, subscription_id: UUID, limit: int = 1_000) -> list[DeliveryRecord]:
        return find(len(self.content), subscription_id, limit, self)


@given(st.lists(DELIVERIES, max_size=200))
def test_every_subscription_finds_its_own_deliveries_and_no_others(deliveries: list[DeliveryRecord]) -> None:
    index = Reader(pack(deliveries))
    for subscription_id in {one.subscription_id for one in deliveries} | {UUID(int=7)}:
        own = [one for one in deliveries if one.subscription_id == subscription_id]
        found = index.find(subscription_id)
        assert sorted(found, key=str) == sorted(own, key=str)
        assert [one.at for one in found] == sorted((one.at for one in own), reverse=True)


@given(st.lists(DELIVERIES, max_size=200), st.integers(1, 5))
def test_of_many_deliveries_the_last_ones_are_found(deliveries: list[DeliveryRecord], limit: int) -> None:
    index = Reader(pack(deliveries))
    for subscription_id in {one.subscription_id for one in deliveries}:
        times = sorted((one.at for one in deliveries if one.subscription_id == subscription_id), reverse=True)
        assert [one.at for one in index.find(subscription_id, limit)] == times[:limit]


@pytest.fixture(scope="module")
def crowd() -> list[DeliveryRecord]:
    random = Random(4)
    ids = [UUID(int=random.getrandbits(128), version=4) for _ in range(50_000)]
    return [DeliveryRecord(name, at, PushDecision.DELIVERED, 120, 1) for at, name in enumerate(ids)]


def test_one_read_of_a_hundredth_finds_one_of_fifty_thousand(crowd: list[DeliveryRecord]) -> None:
    content = pack(crowd)
    for one in crowd[::500]:
        index = Reader(content)
        assert index.find(one.subscription_id) == [one]
        assert len(index.read_bytes) == 1
        assert sum(index.read_bytes) < len(content) / 30


def test_a_subscription_with_most_of_a_file_gets_its_last_without_reading_all(crowd: list[DeliveryRecord]) -> None:
    busy = UUID(int=2**127)
    index = Reader(pack([*crowd, *(DeliveryRecord(busy, at, PushDecision.RETRY, 5, 2) for at in range(50_000))]))
    assert [one.at for one in index.find(busy, 50)] == [*range(49_999, 49_949, -1)]
    assert sum(index.read_bytes) < 2.5 * len(index.content)


def test_what_says_nothing_yet_is_left_out(notified: Callable[[NotificationDecision], DeliveryRecord | None]) -> None:
    assert notified(NotificationDecision.QUEUED) is None
    assert notified(NotificationDecision.DUPLICATE) is None
    limited = notified(NotificationDecision.RATE_LIMITED)
    assert limited is not None
    assert (limited.latency_ms, limited.attempt) == (None, None)


@pytest.fixture
def notified() -> Callable[[NotificationDecision], DeliveryRecord | None]:
    def make(decision: NotificationDecision) -> DeliveryRecord | None:
        event = NotificationDecided(
            network=STATEMENTS,
            at=1,
            receipt=uuid4(),
            envelope_id=b"i" * 32,
            decision=decision,
            subscription_id=uuid4(),
            client_id=b"c",
            channel=Channel.APNS,
            key=b"k",
        )
        return DeliveryRecord.of(event)

    return make


def test_every_decision_that_ends_something_has_a_place() -> None:
    silent = {NotificationDecision.QUEUED, NotificationDecision.DUPLICATE}
    assert set(DECISIONS) == {*NotificationDecision, *PushDecision} - silent
    assert len(DECISIONS) == len(set(DECISIONS))


@given(st.lists(DELIVERIES))
def test_what_is_left_out_leaves_the_object_as_it_would_be_without_it(records: list[DeliveryRecord]) -> None:
    out = {UUID(int=1), UUID(int=2)}
    left = [one for one in records if one.subscription_id not in out]
    content, removed = without(pack(records), out)
    assert (content, removed) == (pack(left), len(records) - len(left))
