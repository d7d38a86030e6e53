"""Pending subscriptions end a day after they were made, and nothing else does."""

import math
import time

import pytest

from clarion.cleanup import CleanupQueue
from clarion.decisions import SubscriptionStatus
from clarion.endings import DEAD_SECONDS, expire
from clarion.messages import CleanupMessage
from clarion.proofs import PENDING_MS
from clarion.tables import Subscription, WakeUp
from schedule.expiries import Expiries, ExpiryReport
from tests.events import event_log
from tests.schedule.conftest import AT, AT_MS, Account

NEVER = math.inf
PENDING = SubscriptionStatus.PENDING
HOUR_MS = 3_600_000
HOUR = AT // 60 * 60
"""Its first minute, at which whatever expired in the hour before is ended."""
YESTERDAY = HOUR * 60_000 - PENDING_MS


@pytest.fixture
def expiries(account: Account) -> Expiries:
    cleanup = CleanupQueue(account.sqs, account.queues["cleanup"])
    # moto keeps no conditions when several threads call it at once
    return Expiries(cleanup=cleanup, events=event_log(), threads=1)


def run(expiries: Expiries, at: int = HOUR) -> ExpiryReport:
    report = expiries.run(at - 1, at, NEVER)
    expiries.events.flush()
    return report


def now(row: Subscription) -> Subscription:
    return Subscription.get(row.subscription_id, consistent_read=True)


def test_what_was_not_proven_for_a_day_is_expired(account: Account, expiries: Expiries) -> None:
    row = account.subscribe(PENDING, created_at=YESTERDAY - 1)
    assert run(expiries) == ExpiryReport(ended=1)
    ended = now(row)
    assert ended.status == "expired"
    assert not ended.status_reason
    assert (ended.revision, ended.generation, ended.rule_count) == (4, 4, 0)
    assert ended.ttl == HOUR * 60 + DEAD_SECONDS
    [request] = account.drain("cleanup")
    assert list(map(str, CleanupMessage.model_validate_json(request).subscription_ids)) == [row.subscription_id]
    [event] = account.events()
    assert (event["event"], event["status"], event["revision"]) == ("subscription", "expired", 4)
    assert not list(WakeUp.scan())


def test_what_is_not_a_day_old_waits(account: Account, expiries: Expiries) -> None:
    row = account.subscribe(PENDING, created_at=YESTERDAY)
    assert run(expiries) == ExpiryReport()
    assert now(row).status == PENDING
    assert run(expiries, HOUR + 60) == ExpiryReport(ended=1)


def test_hours_that_were_left_out_are_made_up_for(account: Account, expiries: Expiries) -> None:
    """Those of a day always, and those since the last call however long it was."""
    row = account.subscribe(PENDING, created_at=YESTERDAY - 23 * HOUR_MS)
    older = account.subscribe(PENDING, created_at=YESTERDAY - 70 * HOUR_MS)
    assert run(expiries) == ExpiryReport(ended=1)
    assert (now(row).status, now(older).status) == ("expired", "pending")
    expiries.run(HOUR - 60 * 60, HOUR, NEVER)
    assert now(older).status == "expired"


def test_what_was_proven_or_removed_meanwhile_is_left_alone(account: Account, expiries: Expiries) -> None:
    proven, removed = (account.subscribe(PENDING, created_at=YESTERDAY - 1) for _ in range(2))
    proven.update([Subscription.status.set("active")])
    removed.delete()
    assert run(expiries) == ExpiryReport()
    assert now(proven).status == "active"
    assert not list(WakeUp.scan())


def test_what_was_proven_at_that_moment_stays(account: Account) -> None:
    row = account.subscribe(PENDING, created_at=YESTERDAY - 1)
    now(row).update([Subscription.status.set("active")])
    assert expire(row, AT_MS) is None
    assert now(row).status == "active"


def test_whose_rules_changed_at_that_moment_is_tried_again(account: Account, expiries: Expiries) -> None:
    """Its entry stays."""
    row = account.subscribe(PENDING, created_at=YESTERDAY - 1)
    stale = now(row)
    row.update([Subscription.revision.set(4)])
    assert expire(stale, AT_MS) is None
    assert run(expiries) == ExpiryReport(ended=1)


def test_what_cannot_be_ended_is_counted_and_comes_again(account: Account, expiries: Expiries) -> None:
    row, other = (account.subscribe(PENDING, created_at=YESTERDAY - 1) for _ in range(2))
    entry = next(each for each in WakeUp.scan() if each.subscription_id == row.subscription_id)
    WakeUp(entry.slot, "no UUID").save()
    Subscription(**{**row.attribute_values, "subscription_id": "no UUID"}).save()
    assert run(expiries) == ExpiryReport(ended=2, failed=1)
    assert now(other).status == "expired"
    assert [each.subscription_id for each in WakeUp.scan()] == ["no UUID"]


def test_what_there_is_no_time_for_comes_again(account: Account, expiries: Expiries) -> None:
    row = account.subscribe(PENDING, created_at=YESTERDAY - 1)
    assert expiries.run(HOUR - 1, HOUR, until=time.monotonic() - 1) == ExpiryReport(failed=1)
    assert run(expiries, HOUR + 60) == ExpiryReport(ended=1)
    assert now(row).status == "expired"
