"""Which subscription is due when, and the entries that follow each change of one."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moto import mock_aws
from pynamodb.connection import Connection
from pynamodb.transactions import TransactWrite

from clarion import tables, wake_ups
from clarion.channels import Channel
from clarion.decisions import SubscriptionStatus
from clarion.endings import Death, declare_dead
from clarion.networks import STATEMENTS
from clarion.subscriptions import Registration, move, remove
from clarion.tables import TRANSACTION_SUBSCRIPTIONS, Subscription, Token, WakeUp
from clarion.tokens import token_hash
from clarion.wake_ups import LEAST_MINUTES, MOST_MINUTES, PERIODS, due_slots, expiry_slots, slot_of
from tests.match.scene import credentials

HOUR_MS = 3_600_000
NOW = 500_000 * HOUR_MS
CLIENT = b"c" * 32

names = st.uuids(version=4).map(str)
periods = st.integers(LEAST_MINUTES, MOST_MINUTES)
minutes = st.integers(0, 1 << 32)


# ---- the wheel ------------------------------------------------------------------------------------------------------


@given(names, periods, minutes)
def test_a_subscription_is_due_exactly_once_in_any_period(name: str, period: int, begin: int) -> None:
    ticks = (due_slots([period], minute - 1, minute) for minute in range(begin, begin + period))
    due = [slot for tick in ticks for slot, *_ in tick]
    assert due.count(slot_of(name, period)) == 1


@given(names, periods, minutes)
def test_a_slot_says_when_it_is_due_again(name: str, period: int, begin: int) -> None:
    [again] = [
        due.next_minute for due in due_slots([period], begin - period, begin) if due.slot == slot_of(name, period)
    ]
    assert begin < again <= begin + period
    assert slot_of(name, period) in {due.slot for due in due_slots([period], again - 1, again)}


@given(st.sets(periods, max_size=5), minutes, st.integers(1, 3 * MOST_MINUTES))
def test_after_a_gap_each_slot_that_was_due_in_it_is_there_once(used: set[int], begin: int, gap: int) -> None:
    found = [due.slot for due in due_slots(used, begin, begin + gap)]
    ticks = (due_slots(used, minute - 1, minute) for minute in range(begin + 1, begin + gap + 1))
    assert len(set(found)) == len(found)
    assert set(found) == {slot for tick in ticks for slot, *_ in tick}


def test_subscriptions_are_spread_evenly() -> None:
    """With 1,000 expected in each of 20 slots, five standard deviations are 160."""
    slots = Counter(slot_of(str(UUID(int=number, version=4)), 20) for number in range(20_000))
    assert len(slots) == 20
    assert all(840 < count < 1_160 for count in slots.values())


@given(st.integers(1 << 20, 1 << 32), st.integers(1, 10_000))
def test_whoever_expires_is_found_within_the_hour_after(at: int, gap: int) -> None:
    """If nothing is missed for longer than since `after`."""
    found = expiry_slots(at - gap, at)
    assert found[-1] == wake_ups.expiry_slot(at // 60 - 1)
    assert wake_ups.expiry_slot((at - gap) // 60) in found or (at - gap) // 60 == at // 60
    assert len(found) >= 24


# ---- the entries ----------------------------------------------------------------------------------------------------


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection]:
    for name, value in credentials().items():
        monkeypatch.setenv(name, value)
    with mock_aws():
        connection = tables.bind("")
        for model in (Subscription, Token, WakeUp):
            model.create_table(billing_mode="PAY_PER_REQUEST")
        yield connection


@pytest.fixture
def subscribe(connection: Connection) -> Callable[..., Subscription]:
    def subscribe(status: SubscriptionStatus = SubscriptionStatus.ACTIVE, **others: Any) -> Subscription:
        row = Subscription(
            str(uuid4()),
            **{"client_id": CLIENT, "network": STATEMENTS, "channel": "apns", "token": uuid4().hex * 2, **others},
            status=status.value,
            generation=0,
            rule_count=0,
            revision=0,
            created_at=NOW,
            updated_at=NOW,
        )
        with TransactWrite(connection=connection) as write:
            write.save(row)
            wake_ups.add_wake_up(write, row)
            wake_ups.add_expiry(write, row)
        return row

    return subscribe


def entries() -> list[tuple[str, str]]:
    """Without the periods in use."""
    return [(row.slot, row.subscription_id) for row in WakeUp.scan() if row.slot != PERIODS]


def periods_in_use() -> list[str]:
    return [row.subscription_id for row in WakeUp.query(PERIODS)]


def moved_to(row: Subscription, token: str, channel: Channel = Channel.APNS) -> Registration:
    return Registration(row.network, row.client_id, channel, token)


def test_who_is_to_be_woken_has_an_entry_with_what_a_push_needs(subscribe: Callable[..., Subscription]) -> None:
    row = subscribe(wake_every_minutes=30)
    [found] = WakeUp.query(slot_of(row.subscription_id, 30))
    assert (found.network, found.channel, found.client_id) == (row.network, row.channel, row.client_id)
    assert periods_in_use() == ["30"]


@pytest.mark.parametrize("others", [{}, {"channel": "voip", "wake_every_minutes": 30}])
def test_who_is_not_to_be_woken_has_none(subscribe: Callable[..., Subscription], others: dict[str, Any]) -> None:
    subscribe(**others)
    assert not entries()
    assert not periods_in_use()


def test_who_is_pending_is_not_woken_and_lies_in_the_hour_of_its_expiry(subscribe: Callable[..., Subscription]) -> None:
    row = subscribe(SubscriptionStatus.PENDING, wake_every_minutes=30)
    assert entries() == [(f"pending:{500_000 + 24}", row.subscription_id)]


@pytest.mark.parametrize("status", [SubscriptionStatus.ACTIVE, SubscriptionStatus.PENDING])
def test_a_removed_subscription_leaves_nothing(
    connection: Connection, subscribe: Callable[..., Subscription], status: SubscriptionStatus
) -> None:
    row = subscribe(status, wake_every_minutes=30)
    assert remove(connection, [row.subscription_id], moved_to(row, row.token).owner)
    assert not entries()


def test_as_many_as_a_client_may_have_are_removed_at_once(
    connection: Connection, subscribe: Callable[..., Subscription]
) -> None:
    rows = [subscribe(wake_every_minutes=20) for _ in range(TRANSACTION_SUBSCRIPTIONS)]
    assert remove(connection, [row.subscription_id for row in rows], moved_to(rows[0], rows[0].token).owner)
    assert not entries()


def test_a_dead_token_ends_the_wake_ups(connection: Connection, subscribe: Callable[..., Subscription]) -> None:
    row = subscribe(wake_every_minutes=30)
    assert declare_dead(connection, row, Death("Unregistered", NOW))
    assert not entries()


def test_a_token_that_is_anothers_by_now_leaves_the_wake_ups(
    connection: Connection, subscribe: Callable[..., Subscription]
) -> None:
    """Its subscription has not ended either."""
    row = subscribe(wake_every_minutes=30)
    other = subscribe(token=row.token)
    Token(
        token_hash(Channel.APNS, other.token), STATEMENTS, subscription_id=other.subscription_id, client_id=CLIENT
    ).save()
    assert not declare_dead(connection, row, Death("Unregistered", NOW))
    assert len(entries()) == 1


def test_another_token_leaves_the_wake_ups_as_they_are(
    connection: Connection, subscribe: Callable[..., Subscription]
) -> None:
    row = subscribe(wake_every_minutes=30)
    before = entries()
    assert isinstance(move(connection, row, moved_to(row, "ab" * 32), now=NOW), Subscription)
    assert entries() == before


def test_wake_ups_follow_to_another_channel_that_has_them(
    connection: Connection, subscribe: Callable[..., Subscription]
) -> None:
    row = subscribe(wake_every_minutes=30)
    assert isinstance(move(connection, row, moved_to(row, "f" * 140, Channel.FCM), now=NOW), Subscription)
    [found] = WakeUp.query(slot_of(row.subscription_id, 30))
    assert found.channel == Channel.FCM


def test_wake_ups_end_on_a_channel_that_has_none(
    connection: Connection, subscribe: Callable[..., Subscription]
) -> None:
    row = subscribe(wake_every_minutes=30)
    moved = move(connection, row, moved_to(row, "ab" * 32, Channel.VOIP), now=NOW)
    assert isinstance(moved, Subscription)
    assert moved.attribute_values["wake_every_minutes"] is None
    assert not entries()


def test_a_dead_subscription_that_is_given_another_token_is_woken_again(
    connection: Connection, subscribe: Callable[..., Subscription]
) -> None:
    row = subscribe(wake_every_minutes=30)
    [dead] = declare_dead(connection, row, Death("Unregistered", NOW))
    assert isinstance(move(connection, dead, moved_to(row, "ab" * 32), now=NOW), Subscription)
    assert entries() == [(slot_of(row.subscription_id, 30), row.subscription_id)]


def test_another_period_is_another_slot(connection: Connection, subscribe: Callable[..., Subscription]) -> None:
    row = subscribe(wake_every_minutes=30)
    changed = Subscription(**{**row.attribute_values, "wake_every_minutes": 31})
    with TransactWrite(connection=connection) as write:
        wake_ups.change_wake_up(write, row, changed)
    assert entries() == [(slot_of(row.subscription_id, 31), row.subscription_id)]
    assert periods_in_use() == ["30", "31"]
