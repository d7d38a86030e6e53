"""What `cdk deploy` leaves behind."""

import asyncio

import boto3
import httpx
import pytest
from botocore.exceptions import ClientError

from clarion.networks import network
from clarion.tables import MODELS, table_name
from infra.environments import EMULATOR
from local.device import Device
from local.emulator import REGION, difference, synthesise
from local.outside import API_SECRET
from local.system import PATIENCE, System

pytestmark = [pytest.mark.system, pytest.mark.asyncio(loop_scope="session")]


async def test_the_stack_has_its_tables_and_for_every_queue_one_for_dead_letters(system: System) -> None:
    outputs, sqs = system.deployment.outputs, system.client("sqs")
    of_networks = {table.name for name in EMULATOR.networks for table in network(name).needs.tables}
    tables = {
        *(table_name(outputs.table_prefix, model) for model in MODELS),
        *(f"{outputs.table_prefix}{name}" for name in of_networks),
    }
    assert set(system.client("dynamodb").list_tables()["TableNames"]) == tables
    for url in map(outputs.queue_url, ("envelopes", "apns", "voip", "fcm")):
        attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["RedrivePolicy"])["Attributes"]
        assert "-dead" in attributes["RedrivePolicy"]


async def test_whatever_feeds_a_function_feeds_the_alias_of_its_newest_version(system: System) -> None:
    functions = system.client("lambda")
    for name in (each["FunctionName"] for each in functions.list_functions()["Functions"]):
        versions = functions.list_versions_by_function(FunctionName=name)["Versions"]
        newest = max(int(each["Version"]) for each in versions if each["Version"].isdigit())
        assert functions.get_alias(FunctionName=name, Name="live")["FunctionVersion"] == str(newest)
    mappings = functions.list_event_source_mappings()["EventSourceMappings"]
    assert mappings
    assert {each["FunctionArn"].rpartition(":")[2] for each in mappings} == {"live"}


async def test_a_diff_right_after_the_deployment_is_clean(system: System) -> None:
    emulator = system.deployment.emulator
    assembly = await asyncio.to_thread(synthesise, emulator, system.stand_ins, name="cdk-again.out")
    found = await asyncio.to_thread(difference, emulator, assembly)
    assert not found, found


async def test_a_function_can_do_no_more_than_its_role_may(system: System) -> None:
    outputs, emulator = system.deployment.outputs, system.deployment.emulator
    (role,) = (role for role in system.client("iam").list_roles()["Roles"] if "AuthorizerRole" in role["RoleName"])
    keys = system.client("sts").assume_role(RoleArn=role["Arn"], RoleSessionName="trespasser")["Credentials"]
    session = boto3.Session(keys["AccessKeyId"], keys["SecretAccessKey"], keys["SessionToken"], region_name=REGION)
    secrets = session.client("secretsmanager", endpoint_url=emulator.endpoint)
    assert secrets.get_secret_value(SecretId=outputs.jwt_secret_id)["Name"] == "clarion-local-jwt"
    with pytest.raises(ClientError, match="not authorized to perform: secretsmanager:GetSecretValue"):
        secrets.get_secret_value(SecretId=outputs.apns_secret_id)


async def test_a_direct_push_reaches_both_providers(system: System) -> None:
    async with system.api_of(Device("Alice, who has been given tokens")) as api:
        answers = [
            await api.push_directly(token, "0123456789abcdef" * 2, b"directly")
            for token in ("d1" * 32, "d-" + "D" * 140)
        ]
    assert [(answer["success"], answer["platform"]) for answer in answers] == [(True, "ios"), (True, "android")]


async def problem(system: System, method: str, path: str, bearer: str) -> str:
    """The problem that the API answers with."""
    headers = {"Host": system.deployment.api_host, "Authorization": bearer}
    async with httpx.AsyncClient(base_url=system.deployment.api_url, timeout=PATIENCE) as client:
        answer = await client.request(method, path, headers=headers)
    assert answer.headers["content-type"] == "application/problem+json"
    return str(answer.json()["type"]).removeprefix("urn:clarion:problem:")


async def test_what_the_api_does_not_have_is_a_problem_too(system: System) -> None:
    bearer = f"Bearer {Device('somebody').api_token(API_SECRET)}"
    assert await problem(system, "GET", "/v1/nothing", bearer) == "no-route"
    assert await problem(system, "PATCH", "/v1/notify", bearer) == "wrong-method"
    assert await problem(system, "GET", "/v1/auth/tokens", "none") == "wrong-method"
    assert await problem(system, "GET", "/v1/nothing", "none") == "unauthenticated"
