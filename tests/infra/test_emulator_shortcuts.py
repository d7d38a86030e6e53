"""That the emulator answers by `local.emulator_shortcuts` as it does without them."""

import json
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from local.emulator import MINISTACK, REGION, Emulator, started

pytestmark = pytest.mark.system
PATIENCE_S = 60
"""What a busy machine may take."""
TRUST = {"Effect": "Allow", "Principal": {"AWS": "*", "Service": "firehose.amazonaws.com"}, "Action": "sts:AssumeRole"}
CALLERS = """
import emulator_shortcuts
from ministack.core import iam_evaluator
from ministack.services import iam, sts
from ministack.core.responses import set_request_account_id
set_request_account_id("test")
sts.register_session("ASIAROLE", {
    "Arn": "arn:aws:sts::000000000000:assumed-role/role/session", "UserId": "r:s",
    "SecretAccessKey": "secret", "SessionToken": "token"})
for key in "test", "ASIAROLE", "AKIANOBODY", "":
    headers = {"authorization": f"AWS4-HMAC-SHA256 Credential={key}/20260101/us-east-1/sqs/aws4_request"}
    assert emulator_shortcuts.caller_arn(headers) == iam_evaluator.request_caller_arn(headers), key
    print(emulator_shortcuts.caller_arn(headers))
"""
OUTPUT = """
import queue, threading, time, types
from emulator_shortcuts import output
worker = types.SimpleNamespace(_stderr_queue=queue.Queue())
threading.Timer(0.02, worker._stderr_queue.put, ["late"]).start()
print(output(worker))
began = time.monotonic()
print([output(worker)], 0.04 < time.monotonic() - began < 5)
"""


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with started("test-shortcuts") as emulator:
        yield emulator


def client(emulator: Emulator, service: str, session: boto3.Session | None = None) -> Any:
    session = session or emulator.session
    return session.client(service, endpoint_url=emulator.endpoint)  # type: ignore[call-overload] # by literals


def policy(*statements: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": statements})


def test_records_that_come_within_a_moment_share_a_file(emulator: Emulator) -> None:
    s3, firehose = client(emulator, "s3"), client(emulator, "firehose")
    role = client(emulator, "iam").create_role(RoleName="firehose", AssumeRolePolicyDocument=policy(TRUST))["Role"]
    s3.create_bucket(Bucket="lake")
    destination = {"RoleARN": role["Arn"], "BucketARN": "arn:aws:s3:::lake"}
    firehose.create_delivery_stream(DeliveryStreamName="events", ExtendedS3DestinationConfiguration=destination)

    records = [{"Data": f"{number}\n".encode()} for number in (1, 2, 3)]
    firehose.put_record_batch(DeliveryStreamName="events", Records=records)

    deadline = time.monotonic() + PATIENCE_S
    while not (files := s3.list_objects_v2(Bucket="lake").get("Contents", [])):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    [file] = files
    assert s3.get_object(Bucket="lake", Key=file["Key"])["Body"].read() == b"1\n2\n3\n"


def test_a_policy_counts_as_it_is_now(emulator: Emulator) -> None:
    iam, sqs = client(emulator, "iam"), client(emulator, "sqs")
    role = iam.create_role(RoleName="reader", AssumeRolePolicyDocument=policy(TRUST))["Role"]
    found = client(emulator, "sts").assume_role(RoleArn=role["Arn"], RoleSessionName="session")["Credentials"]
    keys = found["AccessKeyId"], found["SecretAccessKey"], found["SessionToken"]
    as_role = client(emulator, "sqs", boto3.Session(*keys, region_name=REGION))
    url = sqs.create_queue(QueueName="queue")["QueueUrl"]
    allowed = {"Effect": "Allow", "Action": "sqs:GetQueueAttributes", "Resource": "*"}

    for effect, may in ("Allow", True), ("Deny", False), ("Allow", True):
        document = policy({**allowed, "Effect": effect})
        iam.put_role_policy(RoleName="reader", PolicyName="reads", PolicyDocument=document)
        if may:
            as_role.get_queue_attributes(QueueUrl=url)
        else:
            with pytest.raises(ClientError, match="AccessDenied"):
                as_role.get_queue_attributes(QueueUrl=url)


@pytest.mark.parametrize(
    ("program", "printed"),
    [
        pytest.param(
            CALLERS,
            "arn:aws:iam::000000000000:root\narn:aws:sts::000000000000:assumed-role/role/session\n"
            + "arn:aws:iam::000000000000:root\n" * 2,
            id="who calls is known without policies",
        ),
        pytest.param(OUTPUT, "late\n[''] True\n", id="a line that a function logs late is awaited"),
    ],
)
def test_the_shorter_way_leads_to_the_same(program: str, printed: str) -> None:
    python, script = MINISTACK
    ended = subprocess.run([python, "-c", program], cwd=script.parent, capture_output=True, text=True, check=False)
    assert ended.stdout == printed, ended.stderr
