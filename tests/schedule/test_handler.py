"""The Lambda that EventBridge calls."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

import boto3
import pytest
from pynamodb.exceptions import PynamoDBException

from clarion.decisions import SubscriptionStatus
from clarion.proofs import PENDING_MS
from clarion.tables import Subscription, WakeUp
from clarion.wake_ups import PERIODS
from schedule import handler
from tests.schedule.conftest import AT, Account

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

HOUR = AT // 60 * 60


class Context:
    def get_remaining_time_in_millis(self) -> int:
        return 300_000


@pytest.fixture(autouse=True)
def deployed(account: Account, monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    environment = {
        "TABLE_PREFIX": "",
        "EVENTS_STREAM": "lake",
        "LATE_EVENTS_QUEUE_URL": "late-events",
        "HELD_QUEUES": json.dumps({channel: account.queues[channel] for channel in ("apns", "fcm")}),
        "CLEANUP_QUEUE_URL": account.queues["cleanup"],
    }
    for name, value in environment.items():
        monkeypatch.setenv(f"CLARION_{name}", value)
    handler._schedule.cache_clear()
    yield account
    handler._schedule.cache_clear()


def call(minute: int) -> None:
    """https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-run-lambda-schedule.html"""
    time = datetime.fromtimestamp(minute * 60, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    event = {"source": "aws.events", "detail-type": "Scheduled Event", "time": time, "detail": {}}
    handler.handler(event, cast("LambdaContext", Context()))


def metrics(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Since the last look."""
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines() if '"_aws"' in line]
    return {name: value for line in lines for name, value in line.items()}


def test_a_call_wakes_who_is_due_and_counts_it(account: Account, capsys: pytest.CaptureFixture[str]) -> None:
    row = account.due_at(AT)
    call(AT)
    assert account.woken() == [row.subscription_id]
    found = metrics(capsys)
    assert (found["service"], found["wake_ups_sent"]) == ("schedule", [1])
    assert not found.keys() & {"ticks_missed", "wake_ups_unsent", "subscriptions_expired", "expiries_failed"}


def test_a_call_with_nothing_to_do_records_nothing(account: Account, capsys: pytest.CaptureFixture[str]) -> None:
    call(AT)
    assert metrics(capsys) == {}


def test_minutes_that_were_left_out_are_made_up_for_and_counted(
    account: Account, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [account.due_at(minute) for minute in (AT + 1, AT + 2)]
    call(AT)
    metrics(capsys)
    call(AT + 2)
    assert sorted(account.woken()) == sorted(row.subscription_id for row in rows)
    assert metrics(capsys)["ticks_missed"] == [1]


@pytest.mark.parametrize(("first", "then"), [(HOUR - 1, HOUR), (HOUR - 2, HOUR + 1), (HOUR - 200, HOUR + 30)])
def test_the_first_call_of_an_hour_ends_what_was_never_proven(
    account: Account, capsys: pytest.CaptureFixture[str], first: int, then: int
) -> None:
    call(first)
    metrics(capsys)
    row = account.subscribe(SubscriptionStatus.PENDING, created_at=HOUR * 60_000 - PENDING_MS - 1)
    call(then)
    assert Subscription.get(row.subscription_id).status == "expired"
    assert metrics(capsys)["subscriptions_expired"] == [1]


def test_events_that_the_lake_did_not_take_are_counted(account: Account, capsys: pytest.CaptureFixture[str]) -> None:
    account.subscribe(SubscriptionStatus.PENDING, created_at=HOUR * 60_000 - PENDING_MS - 1)
    boto3.client("firehose").delete_delivery_stream(DeliveryStreamName="lake")
    call(HOUR)
    assert metrics(capsys)["events_lost"] == [1]


def test_each_minute_examines_one_period() -> None:
    WakeUp(PERIODS, "25", minute=AT).save()
    WakeUp(PERIODS, "26", minute=AT).save()
    next_day = AT // 1440 * 1440 + 1440
    call(next_day + 25)
    assert [row.subscription_id for row in WakeUp.query(PERIODS)] == ["26"]


def test_trouble_at_the_tables_fails_the_call_and_the_next_one_makes_up_for_it(
    account: Account, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    row = account.due_at(AT)
    call(AT - 1)
    with monkeypatch.context() as patched:
        patched.setattr(WakeUp, "query", refused)
        with pytest.raises(PynamoDBException):
            call(AT)
    metrics(capsys)
    call(AT + 1)
    assert account.woken() == [row.subscription_id]
    assert metrics(capsys)["ticks_missed"] == [1]


def refused(*_: object, **__: object) -> None:
    raise PynamoDBException("throttled")
