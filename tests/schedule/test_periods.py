"""Which periods are looked for every minute."""

import pytest
from pynamodb.transactions import TransactWrite

from clarion import wake_ups
from clarion.tables import Subscription, WakeUp
from schedule.periods import examined_at, periods_in_use, remove_if_unused
from tests.schedule.conftest import AT, Account

HOUR = 60


def leave(account: Account, row: Subscription) -> None:
    with TransactWrite(connection=account.connection) as write:
        wake_ups.remove_wake_up(write, row)


@pytest.fixture
def left(account: Account) -> Subscription:
    """The one subscription of its period was woken until just now."""
    row = account.subscribe(wake_every_minutes=25)
    leave(account, row)
    return row


@pytest.mark.usefixtures("left")
def test_a_period_that_nobody_has_any_more_is_removed(account: Account) -> None:
    account.subscribe(wake_every_minutes=30)
    for period in periods_in_use():
        remove_if_unused(period, AT + HOUR + 1)
    assert periods_in_use() == [30]
    remove_if_unused(25, AT + HOUR + 1)


def test_a_period_that_somebody_has_stays_in_whatever_slot(account: Account) -> None:
    for row in (account.due_at(AT, 25), account.due_at(AT + 24, 25)):
        remove_if_unused(25, AT + HOUR + 1)
        assert periods_in_use() == [25]
        leave(account, row)


@pytest.mark.usefixtures("left")
def test_whoever_is_about_to_join_keeps_the_period() -> None:
    """Its note is there, and its entry not yet."""
    WakeUp(wake_ups.PERIODS, "25", minute=AT + 1).save()
    remove_if_unused(25, AT + HOUR + 1)
    assert periods_in_use() == [25]


@pytest.mark.usefixtures("left")
def test_whoever_joins_when_all_slots_have_been_read_keeps_the_period(account: Account) -> None:
    def join(**_: object) -> None:
        account.subscribe(wake_every_minutes=25, created_at=(AT + HOUR + 1) * 60_000)

    events = WakeUp._get_connection().connection.client.meta.events
    events.register("before-call.dynamodb.DeleteItem", join)
    remove_if_unused(25, AT + HOUR + 1)
    events.unregister("before-call.dynamodb.DeleteItem", join)
    assert periods_in_use() == [25]


def test_each_period_is_examined_once_a_day() -> None:
    day = [examined_at(minute) for minute in range(AT, AT + 1440)]
    assert sorted(day) == list(range(1, wake_ups.MOST_MINUTES + 1))
