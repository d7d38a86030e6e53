"""Late events reach Firehose, many messages to a record; what it refuses again is received again."""

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from clarion.event_log import RECORD_BYTES, EventStream
from clarion.sqs import Received
from late_events import handler as late_events

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext
    from mypy_boto3_firehose import FirehoseClient


class Firehose:
    """Refuses every record that holds `refused`."""

    def __init__(self, refused: bytes) -> None:
        self._refused = refused
        self.records: list[bytes] = []

    def put_record_batch(self, *, DeliveryStreamName: str, Records: list[dict[str, bytes]]) -> dict[str, Any]:  # noqa: N803 - boto
        refused = [self._refused in record["Data"] for record in Records]
        self.records += [record["Data"] for record in Records if self._refused not in record["Data"]]
        return {
            "FailedPutCount": sum(refused),
            "RequestResponses": [{"ErrorCode": "Slow"} if one else {} for one in refused],
        }


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Its name; it fills the bucket `lake`."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("CLARION_EVENTS_STREAM", "events")
    with mock_aws():
        boto3.client("s3").create_bucket(Bucket="lake")
        lake = {"RoleARN": "arn:aws:iam::123456789012:role/lake", "BucketARN": "arn:aws:s3:::lake"}
        boto3.client("firehose").create_delivery_stream(
            DeliveryStreamName="events",
            ExtendedS3DestinationConfiguration=lake,  # type: ignore[arg-type] # the stub's TypedDict
        )
        yield "events"
    late_events._stream.cache_clear()


def invoke(*bodies: str) -> dict[str, Any]:
    records = [
        {"messageId": str(number), "receiptHandle": "", "body": body, "attributes": {"ApproximateReceiveCount": "1"}}
        for number, body in enumerate(bodies)
    ]
    context: Any = SimpleNamespace(get_remaining_time_in_millis=lambda: 30_000)
    return cast("dict[str, Any]", late_events.handler({"Records": records}, cast("LambdaContext", context)))


def in_the_lake() -> list[str]:
    s3 = boto3.client("s3")
    listed = s3.list_objects_v2(Bucket="lake").get("Contents", [])
    return [
        line for one in listed for line in s3.get_object(Bucket="lake", Key=one["Key"])["Body"].read().decode().split()
    ]


@pytest.mark.usefixtures("stream")
def test_late_events_are_in_the_lake_as_any_others() -> None:
    lines = [json.dumps({"number": number}, separators=(",", ":")) for number in range(3)]

    assert invoke(f"{lines[0]}\n{lines[1]}\n", f"{lines[2]}\n") == {"batchItemFailures": []}

    assert in_the_lake() == lines


@pytest.mark.usefixtures("stream")
def test_without_a_firehose_the_invocation_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLARION_EVENTS_STREAM", "gone")

    with pytest.raises(ClientError):
        invoke("line\n")


def test_messages_share_records_and_those_of_a_refused_record_are_received_again() -> None:
    half = RECORD_BYTES // 2
    bodies = [letter * (half - 1) + "\n" for letter in "aabcd"]
    received = [Received(str(number), "", body, 1) for number, body in enumerate(bodies)]
    firehose = Firehose(refused=b"b")

    refused = late_events.put(EventStream(cast("FirehoseClient", firehose), "events"), received)

    assert [one.message_id for one in refused] == ["2", "3"]
    assert firehose.records == [(bodies[0] + bodies[1]).encode(), bodies[4].encode()]
