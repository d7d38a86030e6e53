"""Whom a minute wakes, and what becomes of those whom no queue takes."""

import math
import time
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from clarion.channels import Channel
from clarion.decisions import Purpose, Wanted
from clarion.networks import STATEMENTS
from clarion.own_pushes import compose
from clarion.tables import WakeUp
from clarion.wake_ups import DueSlot, due_slots, slot_of
from schedule.periods import periods_in_use
from schedule.waking import WakeUps
from tests.match.scene import InTurn
from tests.schedule.conftest import AT, AT_MS, CLIENT, Account

NEVER = math.inf


@pytest.fixture
def sender(account: Account) -> WakeUps:
    queues = {channel: account.queues[channel] for channel in (Channel.APNS, Channel.FCM)}
    return WakeUps(sqs=account.sqs, held_queues=queues, executor=InTurn())


def slots(after: int, at: int) -> Iterator[DueSlot]:
    return due_slots(periods_in_use(), after, at)


@pytest.mark.parametrize("channel", [Channel.APNS, Channel.FCM])
def test_who_is_due_gets_a_background_push_that_is_good_until_the_next(
    account: Account, sender: WakeUps, channel: Channel
) -> None:
    row = account.due_at(AT, 30, channel=channel)
    report = sender.run(slots(AT - 1, AT), NEVER)
    [push] = account.pushes()
    assert (report.sent, report.unsent) == (1, 0)
    assert (push.network, push.purpose, push.wanted) == (STATEMENTS, Purpose.WAKE_UP, Wanted.BACKGROUND)
    assert (str(push.subscription_id), push.client_id, push.channel) == (row.subscription_id, CLIENT, channel)
    assert (push.observed_at, push.expires_at) == (AT_MS, (AT + 30) * 60)
    assert row.subscription_id in str(compose(channel, push).body)


def test_in_each_minute_of_a_period_others_are_woken_and_everybody_once(account: Account, sender: WakeUps) -> None:
    rows = [account.subscribe(wake_every_minutes=period) for period in (20, 20, 20, 21)]
    woken = []
    for minute in range(AT, AT + 20):
        sender.run(slots(minute - 1, minute), NEVER)
        due = account.woken()
        assert all(slot_of(name, 20).endswith(f":{minute % 20}") for name in due if name != rows[3].subscription_id)
        woken += due
    assert sorted(set(woken) - {rows[3].subscription_id}) == sorted(row.subscription_id for row in rows[:3])
    assert len(woken) == len(set(woken))


def test_after_a_gap_everybody_who_was_due_in_it_is_woken_once(account: Account, sender: WakeUps) -> None:
    rows = [account.due_at(minute) for minute in (AT - 7, AT - 1, AT)]
    sender.run(slots(AT - 50, AT), NEVER)
    assert sorted(account.woken()) == sorted(row.subscription_id for row in rows)


@pytest.mark.parametrize("late", [0, 1, 4])
def test_a_wake_up_is_observed_when_its_minute_begins_however_late_it_is_sent(
    account: Account, sender: WakeUps, late: int
) -> None:
    account.due_at(AT)
    sender.run(slots(AT - 1, AT + late), NEVER)
    [push] = account.pushes()
    assert (push.observed_at, push.expires_at) == (AT_MS, (AT + 20) * 60)


def test_a_minute_that_comes_again_repeats_its_pushes_under_the_same_ids(account: Account, sender: WakeUps) -> None:
    account.due_at(AT)
    for _ in range(2):
        sender.run(slots(AT - 1, AT), NEVER)
    first, second = account.pushes()
    assert first.envelope_id == second.envelope_id
    sender.run(slots(AT + 19, AT + 20), NEVER)
    [third] = account.pushes()
    assert third.envelope_id != first.envelope_id


def test_who_is_due_at_another_time_or_nobody_costs_no_request_to_a_queue(account: Account, sender: WakeUps) -> None:
    account.due_at(AT + 1)
    assert sender.run(slots(AT - 1, AT), NEVER).sent == 0
    assert not account.pushes()


def test_a_channel_that_is_deployed_no_more_wakes_nobody(account: Account) -> None:
    account.due_at(AT, channel=Channel.FCM)
    sender = WakeUps(sqs=account.sqs, held_queues={Channel.APNS: account.queues["apns"]}, executor=InTurn())
    report = sender.run(slots(AT - 1, AT), NEVER)
    assert (report.sent, report.unsent) == (0, 0)


def test_an_entry_that_cannot_be_read_is_counted_and_keeps_nobody_asleep(account: Account, sender: WakeUps) -> None:
    row = account.due_at(AT)
    WakeUp(f"20:{AT % 20}", "no UUID", network=STATEMENTS, channel="apns", client_id=CLIENT).save()
    report = sender.run(slots(AT - 1, AT), NEVER)
    assert (report.sent, report.unsent) == (1, 1)
    assert account.woken() == [row.subscription_id]


def test_what_a_queue_refuses_once_is_sent_all_the_same(account: Account, sender: WakeUps) -> None:
    refuse(account, times=1)
    account.due_at(AT)
    report = sender.run(slots(AT - 1, AT), NEVER)
    assert (report.sent, report.unsent, len(account.pushes())) == (1, 0, 1)


def test_what_a_queue_refuses_again_is_counted(account: Account, sender: WakeUps) -> None:
    refuse(account, times=2)
    account.due_at(AT)
    report = sender.run(slots(AT - 1, AT), NEVER)
    assert (report.sent, report.unsent, len(account.pushes())) == (0, 1, 0)


def refuse(account: Account, *, times: int) -> None:
    """The next requests fail, as when SQS has trouble."""
    left = iter(range(times))

    def fail(**_: Any) -> None:
        if next(left, None) is not None:
            raise ClientError({"Error": {"Code": "InternalError", "Message": ""}}, "SendMessageBatch")

    account.sqs.meta.events.register("before-call.sqs.SendMessageBatch", fail)


def test_what_there_is_no_time_for_is_counted(account: Account, sender: WakeUps) -> None:
    account.due_at(AT)
    report = sender.run(slots(AT - 1, AT), until=time.monotonic() - 1)
    assert (report.sent, report.unsent, len(account.pushes())) == (0, 1, 0)
