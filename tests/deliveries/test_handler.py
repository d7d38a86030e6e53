"""From a file of the lake to its index, in S3 and SQS in-process, and from there to the client that asks."""

import gzip
import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote_plus
from uuid import UUID, uuid4

import boto3
import pytest
from moto import mock_aws

from api import deliveries as api
from api.deliveries import DeliveryList, look_back
from clarion.channels import Channel
from clarion.decisions import NotificationDecision, Purpose, PushDecision
from clarion.events import NotificationDecided, PushTried
from clarion.networks import STATEMENTS
from clarion.tables import Subscription
from deliveries.handler import handler

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

NOW = datetime(2026, 11, 20, 16, 30, tzinfo=UTC)
EVENTS = "events/day=2026-11-20/hour=16/"


@pytest.fixture(autouse=True)
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws():
        boto3.client("s3").create_bucket(Bucket="lake")
        yield "lake"


def pushed(
    subscription_id: UUID,
    decision: PushDecision,
    at: datetime,
    attempt: int = 1,
    purpose: Purpose = Purpose.NOTIFICATION,
) -> PushTried:
    return PushTried(
        purpose=purpose,
        network=STATEMENTS,
        at=int(at.timestamp() * 1000),
        receipt=uuid4(),
        envelope_id=b"i" * 32,
        decision=decision,
        subscription_id=subscription_id,
        channel=Channel.APNS,
        attempt=attempt,
        latency_ms=119,
    )


def limited(subscription_id: UUID, at: datetime) -> NotificationDecided:
    return NotificationDecided(
        network=STATEMENTS,
        at=int(at.timestamp() * 1000),
        receipt=uuid4(),
        envelope_id=b"i" * 32,
        decision=NotificationDecision.RATE_LIMITED,
        subscription_id=subscription_id,
        client_id=b"c",
        channel=Channel.APNS,
        key=b"k",
    )


def write(key: str, *lines: bytes) -> None:
    text = b"".join(lines)
    boto3.client("s3").put_object(Bucket="lake", Key=key, Body=gzip.compress(text) if key.endswith(".gz") else text)


def notify(*keys: str) -> list[str]:
    """The messages that fail when S3 announces `keys`, a message each."""
    records = [
        {
            "messageId": key,
            "body": json.dumps({"Records": [{"s3": {"bucket": {"name": "lake"}, "object": {"key": quote_plus(key)}}}]}),
        }
        for key in keys
    ]
    answer = handler({"Records": records}, cast("LambdaContext", None))
    return [one["itemIdentifier"] for one in answer["batchItemFailures"]]


def look(subscription_id: UUID, now: datetime = NOW, began_at: int = 0) -> DeliveryList:
    row = Subscription(str(subscription_id), network=STATEMENTS, began_at=began_at)
    return look_back(boto3.client("s3"), "lake", row, now, until=time.monotonic() + 60)


def index_keys() -> list[str]:
    listed = boto3.client("s3").list_objects_v2(Bucket="lake", Prefix="deliveries/")
    return [one["Key"] for one in listed.get("Contents", [])]


def test_a_client_sees_what_became_of_its_own_pushes_the_last_first() -> None:
    mine, other = uuid4(), uuid4()
    write(
        f"{EVENTS}a.jsonl.gz",
        pushed(mine, PushDecision.RETRY, NOW - timedelta(minutes=9)).to_line(),
        pushed(other, PushDecision.DELIVERED, NOW - timedelta(minutes=8)).to_line(),
        pushed(mine, PushDecision.DELIVERED, NOW - timedelta(minutes=7), attempt=2).to_line(),
        limited(mine, NOW - timedelta(minutes=6)).to_line(),
    )
    assert notify(f"{EVENTS}a.jsonl.gz") == []
    found = look(mine).deliveries
    assert [(one.decision, one.attempt, one.latency_ms) for one in found] == [
        (NotificationDecision.RATE_LIMITED, None, None),
        (PushDecision.DELIVERED, 2, 119),
        (PushDecision.RETRY, 1, 119),
    ]
    assert found[0].at == NOW - timedelta(minutes=6)
    assert look(uuid4()).deliveries == []


def test_files_that_are_not_zipped_and_lines_that_cannot_be_read_are_no_obstacle() -> None:
    mine = uuid4()
    broken = b'{"event":"push","decision":"of another version"}\n'
    write(f"{EVENTS}a.jsonl", broken, b"\xff\n", pushed(mine, PushDecision.STALE, NOW).to_line())
    assert notify(f"{EVENTS}a.jsonl") == []
    assert [one.decision for one in look(mine).deliveries] == [PushDecision.STALE]


def test_the_same_file_twice_makes_one_index() -> None:
    mine = uuid4()
    write(f"{EVENTS}a.jsonl.gz", pushed(mine, PushDecision.DELIVERED, NOW).to_line())
    assert notify(f"{EVENTS}a.jsonl.gz", f"{EVENTS}a.jsonl.gz") == []
    assert len(look(mine).deliveries) == 1


def test_a_file_without_pushes_makes_no_index() -> None:
    write(f"{EVENTS}a.jsonl.gz", b'{"event":"limits"}\n')
    assert notify(f"{EVENTS}a.jsonl.gz") == []
    assert index_keys() == []


def test_a_file_that_cannot_be_read_comes_again_and_the_others_are_done() -> None:
    mine = uuid4()
    write(f"{EVENTS}good.jsonl.gz", pushed(mine, PushDecision.DELIVERED, NOW).to_line())
    boto3.client("s3").put_object(Bucket="lake", Key=f"{EVENTS}torn.jsonl.gz", Body=b"no gzip")
    missing, torn = f"{EVENTS}missing.jsonl.gz", f"{EVENTS}torn.jsonl.gz"
    assert notify(missing, torn, f"{EVENTS}good.jsonl.gz") == [missing, torn]
    assert len(look(mine).deliveries) == 1


def test_the_message_that_s3_sends_to_try_the_queue_is_done_with() -> None:
    body: dict[str, Any] = {"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "lake"}
    answer = handler({"Records": [{"messageId": "test", "body": json.dumps(body)}]}, cast("LambdaContext", None))
    assert answer["batchItemFailures"] == []


def test_what_is_older_than_a_day_is_not_shown() -> None:
    mine = uuid4()
    write("events/day=2026-11-19/hour=15/a.jsonl", pushed(mine, PushDecision.STALE, NOW - timedelta(days=1)).to_line())
    write(
        "events/day=2026-11-19/hour=17/a.jsonl", pushed(mine, PushDecision.RETRY, NOW - timedelta(hours=23)).to_line()
    )
    assert notify("events/day=2026-11-19/hour=15/a.jsonl", "events/day=2026-11-19/hour=17/a.jsonl") == []
    found = look(mine)
    assert [one.decision for one in found.deliveries] == [PushDecision.RETRY]
    assert found.since == NOW - timedelta(days=1)


def test_where_there_are_many_files_the_answer_says_how_far_back_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "MOST_FILES", 2)
    monkeypatch.setattr(api, "READERS", 1)
    mine = uuid4()
    keys = [f"{EVENTS}{minute}.jsonl" for minute in "123"]
    for minute, key in enumerate(keys):
        write(key, pushed(mine, PushDecision.DELIVERED, NOW + timedelta(minutes=minute)).to_line())
    assert notify(*keys) == []
    found = look(mine)
    assert len(found.deliveries) == 2
    assert found.since > NOW - timedelta(days=1)


def test_an_answer_with_as_many_entries_as_it_may_have_goes_no_further_back_than_the_last_of_them() -> None:
    mine, now = uuid4(), datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    ages = [timedelta(seconds=second) for second in range(api.MOST_DELIVERIES + 1)]
    key = f"events/day={now:%Y-%m-%d}/hour={now:%H}/a.jsonl"
    write(key, *(pushed(mine, PushDecision.DELIVERED, now - age).to_line() for age in ages))
    assert notify(key) == []
    found = look(mine, now)
    assert len(found.deliveries) == api.MOST_DELIVERIES
    assert found.since == found.deliveries[-1].at == now - ages[-2]


@pytest.mark.parametrize("purpose", [Purpose.WAKE_UP, Purpose.VERIFICATION])
def test_wake_ups_and_codes_leave_the_place_to_what_a_client_asks_about(purpose: Purpose) -> None:
    mine = uuid4()
    write(
        f"{EVENTS}a.jsonl",
        pushed(mine, PushDecision.DELIVERED, NOW, purpose=purpose).to_line(),
        pushed(mine, PushDecision.REFUSED, NOW).to_line(),
    )
    assert notify(f"{EVENTS}a.jsonl") == []
    assert [one.decision for one in look(mine).deliveries] == [PushDecision.REFUSED]


def test_for_a_subscription_that_was_just_made_no_older_file_is_read() -> None:
    mine, made = uuid4(), NOW - timedelta(minutes=1)
    write("events/day=2026-11-20/hour=15/a.jsonl", pushed(mine, PushDecision.STALE, NOW).to_line())
    assert notify("events/day=2026-11-20/hour=15/a.jsonl") == []
    found = look(mine, began_at=int(made.timestamp() * 1000))
    assert (found.deliveries, found.since) == ([], made)
