"""What CloudWatch is asked for, and what follows from its answer."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import boto3
import pytest
from botocore.stub import Stubber
from moto import mock_aws

from pipeline.compaction.counters import KEPT_MS, NotCounted, records_by_hour
from pipeline.period import DAY_MS, HOUR_MS, Period, hour_path

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch import CloudWatchClient

STREAM = "clarion-test-events"
NOW = int(datetime.now(UTC).timestamp() * 1000)
AT = NOW // HOUR_MS * HOUR_MS - 4 * HOUR_MS
PERIOD = Period(AT, AT + 3 * HOUR_MS)


@pytest.fixture
def cloudwatch() -> Iterator["CloudWatchClient"]:
    with mock_aws():
        yield boto3.client("cloudwatch", "us-east-1")


def take(client: "CloudWatchClient", minute: int, records: int, stream: str = STREAM) -> None:
    """As Firehose records what it took in, `minute` minutes after AT."""
    client.put_metric_data(
        Namespace="AWS/Firehose",
        MetricData=[{
            "MetricName": "IncomingRecords",
            "Dimensions": [{"Name": "DeliveryStreamName", "Value": stream}],
            "Timestamp": datetime.fromtimestamp(AT / 1000, UTC) + timedelta(minutes=minute),
            "Value": records,
        }],
    )  # fmt: skip


def counted(client: "CloudWatchClient", period: Period = PERIOD, *, has_files: bool = True) -> list[int]:
    found = records_by_hour(client, STREAM, period, NOW, lambda: has_files)
    return [found[hour] for hour in period.hours()]


def test_records_are_counted_by_the_hour(cloudwatch: "CloudWatchClient") -> None:
    for minute, records in ((20, 3), (59, 4), (120 + 30, 5)):
        take(cloudwatch, minute, records)
    assert counted(cloudwatch) == [7, 0, 5]


def test_what_may_lie_in_a_file_of_the_hour_before_is_not_counted(cloudwatch: "CloudWatchClient") -> None:
    for minute in (60, 74, 75):
        take(cloudwatch, minute, 1)
    assert counted(cloudwatch) == [0, 1, 0]


def test_other_streams_are_not_counted(cloudwatch: "CloudWatchClient") -> None:
    take(cloudwatch, 30, 9, stream="another")
    assert counted(cloudwatch, has_files=False) == [0, 0, 0]


def test_where_files_have_arrived_a_stream_without_any_figure_is_another_one(cloudwatch: "CloudWatchClient") -> None:
    take(cloudwatch, 30, 9, stream="another")
    with pytest.raises(NotCounted, match=STREAM):
        counted(cloudwatch)
    take(cloudwatch, 2, 1)
    assert counted(cloudwatch) == [0, 0, 0]


@pytest.mark.parametrize("status", ["InternalError", "PartialData", "Forbidden"])
def test_an_answer_that_is_not_complete_counts_nothing(cloudwatch: "CloudWatchClient", status: str) -> None:
    result = {"Id": "records", "StatusCode": status, "Timestamps": [], "Values": []}
    with Stubber(cloudwatch) as answers:
        answers.add_response("get_metric_data", {"MetricDataResults": [result]})
        with pytest.raises(NotCounted, match=status):
            counted(cloudwatch)


def test_hours_are_those_of_utc_wherever_the_machine_is(
    cloudwatch: "CloudWatchClient", monkeypatch: pytest.MonkeyPatch
) -> None:
    """In India an hour begins half an hour later."""
    for minute in (5, 50):
        take(cloudwatch, minute, 100 + minute)
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        assert counted(cloudwatch) == [150, 0, 0]
    finally:
        monkeypatch.undo()
        time.tzset()


def test_nothing_is_said_of_what_cloudwatch_has_forgotten_or_does_not_know_yet(cloudwatch: "CloudWatchClient") -> None:
    def hours(period: Period) -> dict[str, int]:
        return records_by_hour(cloudwatch, STREAM, period, NOW, lambda: False)

    assert hours(Period(NOW + HOUR_MS, NOW + DAY_MS)) == {}
    assert hours(Period(0, NOW - KEPT_MS)) == {}
    partly = hours(Period(NOW - KEPT_MS - DAY_MS, NOW + DAY_MS))
    assert (min(partly), max(partly)) == (hour_path(NOW - KEPT_MS), hour_path(NOW))
