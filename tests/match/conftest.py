from collections.abc import Iterator

import boto3
import pytest
from moto import mock_aws

from clarion import tables
from match.room import Room
from match.settings import MatchSettings
from tests.match.scene import Clock, Queues, Scene

PREFIX = "clarion-test-"


@pytest.fixture(scope="module")
def aws() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch, mock_aws():
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "testing")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        yield


@pytest.fixture(scope="module")
def queues(aws: None) -> Queues:
    sqs = boto3.client("sqs")
    names = ("statements", "apns", "voip", "fcm")
    return Queues({name: sqs.create_queue(QueueName=name)["QueueUrl"] for name in names})


@pytest.fixture(scope="module")
def environment(queues: Queues) -> dict[str, str]:
    """A deployment's resources, and the variables that name them."""
    tables.bind(PREFIX)
    for model in tables.MODELS:
        model.create_table(billing_mode="PAY_PER_REQUEST")
    for bucket in ("lake", "oversize"):
        boto3.client("s3").create_bucket(Bucket=bucket)
    lake = {"RoleARN": "arn:aws:iam::123456789012:role/lake", "BucketARN": "arn:aws:s3:::lake"}
    boto3.client("firehose").create_delivery_stream(
        DeliveryStreamName="lake",
        ExtendedS3DestinationConfiguration=lake,  # type: ignore[arg-type] # the stub's TypedDict
    )
    return {
        "CLARION_TABLE_PREFIX": PREFIX,
        "CLARION_EVENTS_STREAM": "lake",
        "CLARION_OVERSIZE_BUCKET": "oversize",
        **{f"CLARION_{name.upper()}_QUEUE_URL": url for name, url in queues.urls.items()},
    }


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def scene(environment: dict[str, str], clock: Clock, queues: Queues) -> Scene:
    return Scene(Room.open(MatchSettings.from_environment(environment), clock), clock, queues)
