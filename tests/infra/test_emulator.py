"""Starts the real emulator and deploys the real stack into it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from secrets import token_urlsafe
from subprocess import DEVNULL, PIPE

import boto3
import httpx
import pytest
from botocore.exceptions import ClientError

from clarion.tables import MODELS, table_name
from infra.config import Stubs
from local.device import Device
from local.emulator import Deployment, Emulator, deployed

pytestmark = pytest.mark.system
HOLDER = """
import sys, time
from local.emulator import started
with started("test-leash") as emulator:
    print(emulator.port, flush=True)
    time.sleep(60)
"""


@pytest.fixture(scope="module")
def clarion() -> Iterator[Deployment]:
    with deployed("test-infra", Stubs()) as deployment:
        yield deployment


def test_the_stack_deploys_into_the_emulator_and_tells_where_things_are(clarion: Deployment) -> None:
    emulator, outputs = clarion.emulator, clarion.outputs
    dynamodb = emulator.session.client("dynamodb", endpoint_url=emulator.endpoint)
    sqs = emulator.session.client("sqs", endpoint_url=emulator.endpoint)
    tables = {table_name(outputs.table_prefix, model) for model in MODELS}
    assert set(dynamodb.list_tables()["TableNames"]) == tables
    for url in (outputs.statements_queue_url, outputs.apns_queue_url, outputs.voip_queue_url, outputs.fcm_queue_url):
        attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["RedrivePolicy"])["Attributes"]
        assert "-dead" in attributes["RedrivePolicy"]


def test_a_function_can_do_no_more_than_its_role_may(clarion: Deployment) -> None:
    emulator = clarion.emulator
    iam = emulator.session.client("iam", endpoint_url=emulator.endpoint)
    sts = emulator.session.client("sts", endpoint_url=emulator.endpoint)
    (role,) = (role for role in iam.list_roles()["Roles"] if "AuthorizerRole" in role["RoleName"])
    keys = sts.assume_role(RoleArn=role["Arn"], RoleSessionName="authorizer")["Credentials"]
    session = boto3.Session(keys["AccessKeyId"], keys["SecretAccessKey"], keys["SessionToken"], region_name="us-east-1")
    secrets = session.client("secretsmanager", endpoint_url=emulator.endpoint)
    assert secrets.get_secret_value(SecretId=clarion.outputs.jwt_secret_id)["Name"] == "clarion-local-jwt"
    with pytest.raises(ClientError, match="not authorized to perform: secretsmanager:GetSecretValue"):
        secrets.get_secret_value(SecretId=clarion.outputs.apns_secret_id)


@pytest.fixture(scope="module")
def bearer(clarion: Deployment) -> str:
    """The credential of some client of the existing solution."""
    emulator, key = clarion.emulator, token_urlsafe(32)
    secrets = emulator.session.client("secretsmanager", endpoint_url=emulator.endpoint)
    secrets.put_secret_value(SecretId=clarion.outputs.jwt_secret_id, SecretString=json.dumps({"secret": key}))
    return f"Bearer {Device('somebody').api_token(key)}"


def problem(clarion: Deployment, method: str, path: str, bearer: str) -> str:
    """The problem that the API answers with."""
    headers = {"Host": clarion.api_host, "Authorization": bearer}
    answer = httpx.request(method, f"{clarion.api_url}{path}", headers=headers, timeout=30)
    assert answer.headers["content-type"] == "application/problem+json"
    return str(answer.json()["type"]).removeprefix("urn:clarion:problem:")


def test_what_the_api_does_not_have_is_a_problem_too(clarion: Deployment, bearer: str) -> None:
    assert problem(clarion, "GET", "/v1/nothing", bearer) == "no-route"
    assert problem(clarion, "PATCH", "/v1/notify", bearer) == "wrong-method"
    assert problem(clarion, "GET", "/v1/auth/tokens", "none") == "wrong-method"
    assert problem(clarion, "GET", "/v1/nothing", "none") == "unauthenticated"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_emulator_dies_with_the_program_that_started_it(number: signal.Signals) -> None:
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", HOLDER]
    with subprocess.Popen(command, cwd=root, stdout=PIPE, stderr=DEVNULL, text=True, start_new_session=True) as holder:
        assert holder.stdout
        emulator = Emulator(port=int(holder.stdout.readline()), folder=root)
        assert emulator.answers()
        os.killpg(holder.pid, number)
    deadline = time.monotonic() + 10
    while emulator.answers():
        assert time.monotonic() < deadline
        time.sleep(0.1)
