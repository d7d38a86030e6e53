"""What the live system's own counters say has come: CloudWatch's records of what Firehose took in."""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from botocore.config import Config

from pipeline.period import DAY_MS, FIREHOSE_BUFFER_MS, HOUR_MS, Period, hour_path

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch import CloudWatchClient
    from mypy_boto3_cloudwatch.type_defs import MetricStatTypeDef

CLOUDWATCH_CONFIG = Config(connect_timeout=5, read_timeout=10, retries={"total_max_attempts": 3})
BUFFERED = timedelta(milliseconds=FIREHOSE_BUFFER_MS)
"""Firehose names a file by the hour of its first record."""
STEP = timedelta(minutes=5)
KEPT_MS = 63 * DAY_MS
"""How long CloudWatch keeps figures of five minutes. They are fewer than the 100,800 that one answer may have."""


class NotCounted(Exception):  # noqa: N818 - it says what has happened
    """CloudWatch has answered, and not with all that it was asked for."""


def records_by_hour(
    client: "CloudWatchClient", stream: str, period: Period, now: int, has_files: Callable[[], bool]
) -> dict[str, int]:
    """How many records must at least lie under each hour of arrival, by one request.

    What comes in an hour's first minutes may lie in a file that was begun in the hour before, so it isn't counted. A
    record has one line or more. If CloudWatch has no figure at all, the stream has taken nothing, or there is none of
    that name: so it is asked whether the period `has_files`. Raises `NotCounted`.
    https://docs.aws.amazon.com/firehose/latest/dev/monitoring-with-cloudwatch-metrics.html
    """
    asked = Period(max(period.start // HOUR_MS * HOUR_MS, now - KEPT_MS), min(period.end, now))
    if asked.start >= asked.end:
        return {}
    stat: MetricStatTypeDef = {
        "Metric": {
            "Namespace": "AWS/Firehose",
            "MetricName": "IncomingRecords",
            "Dimensions": [{"Name": "DeliveryStreamName", "Value": stream}],
        },
        "Period": int(STEP.total_seconds()),
        "Stat": "Sum",
    }
    pages = client.get_paginator("get_metric_data").paginate(
        MetricDataQueries=[{"Id": "records", "MetricStat": stat}],
        StartTime=datetime.fromtimestamp(asked.start / 1000, UTC),
        EndTime=datetime.fromtimestamp(asked.end / 1000, UTC),
    )
    results = [result for page in pages for result in page["MetricDataResults"]]
    statuses = {result["StatusCode"] for result in results}
    if statuses != {"Complete"}:
        raise NotCounted(f"the figures are {', '.join(sorted(statuses)) or 'missing'}")
    counted = Counter(dict.fromkeys(asked.hours(), 0))
    for result in results:
        for at, value in zip(result["Timestamps"], result["Values"], strict=True):
            # They come in the machine's own time zone.
            if timedelta(minutes=at.astimezone(UTC).minute) >= BUFFERED:
                counted[hour_path(int(at.timestamp() * 1000))] += int(value)
    if not any(result["Values"] for result in results) and has_files():
        raise NotCounted(f"there are no figures of {stream}, though files have arrived")
    return dict(counted)
