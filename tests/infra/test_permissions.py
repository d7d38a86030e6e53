"""Least privilege where no test sees the role at work; `tests/system/test_permissions.py` has the others."""

from collections.abc import Callable, Mapping

import pytest
from aws_cdk.assertions import Template

from clarion.channels import CHANNELS, PROVIDERS
from clarion.wake_ups import WAKING
from infra.environments import PROD
from tests.grants import COMPONENTS, Call, Permissions, allows, key_uses, listed, permissions

CANARIED = {f"{PROD.prefix}{name}" for name in ("match", "pages", *PROD.channels)}
PERMITTED: Mapping[str, Permissions] = {
    "starting ingest": {
        "ecr:BatchCheckLayerAvailability": {"the deployment's images"},
        "ecr:BatchGetImage": {"the deployment's images"},
        "ecr:GetDownloadUrlForLayer": {"the deployment's images"},
        "ecr:GetAuthorizationToken": {"*"},
        "logs:CreateLogStream": {"/aws/ecs/clarion-prod-ingest"},
        "logs:PutLogEvents": {"/aws/ecs/clarion-prod-ingest"},
    },
    "filling the lake": {
        "kms:Decrypt": {"key by way of s3"},
        "kms:GenerateDataKey": {"key by way of s3"},
        "s3:GetBucketLocation": {"DataLake"},
        "s3:ListBucket": {"DataLake"},
        "s3:ListBucketMultipartUploads": {"DataLake"},
        "s3:PutObject": {"DataLake/events/*", "DataLake/errors/*"},
        "s3:AbortMultipartUpload": {"DataLake/events/*", "DataLake/errors/*"},
        "logs:PutLogEvents": {"/aws/kinesisfirehose/clarion-prod-events"},
    },
    "trying a version": {
        "lambda:GetAlias": CANARIED,
        "lambda:UpdateAlias": CANARIED,
        "lambda:GetProvisionedConcurrencyConfig": {f"{name}:live" for name in CANARIED},
        "cloudwatch:DescribeAlarms": {"alarm:*"},
    },
    "logging refused connections": {
        "logs:CreateLogStream": {"/aws/vpc/clarion-prod-ingest"},
        "logs:DescribeLogStreams": {"/aws/vpc/clarion-prod-ingest"},
        "logs:PutLogEvents": {"/aws/vpc/clarion-prod-ingest"},
    },
}


@pytest.fixture(scope="module")
def permitted(prod: Template) -> Mapping[str, Permissions]:
    return permissions(prod)


@pytest.mark.parametrize("role", PERMITTED)
def test_a_role_may_do_exactly_what_it_needs(permitted: Mapping[str, Permissions], role: str) -> None:
    assert permitted[role] == PERMITTED[role]


def test_a_call_needs_a_grant_of_its_action_on_its_resource(permitted: Mapping[str, Permissions]) -> None:
    """What the recorded calls of the deployed stack are held against."""
    for action, resource, allowed in (
        ("dynamodb:DeleteItem", "clarion-prod-tokens", True),
        ("dynamodb:PutItem", "clarion-prod-tokens", False),
        ("dynamodb:DeleteItem", "clarion-prod-rules", False),
        ("kms:Decrypt", "key by way of dynamodb", True),
        ("kms:Decrypt", "key by way of s3", False),
    ):
        assert allows(permitted["apns"], Call("apns", action, resource)) == allowed
    reading = Call("match", "s3:GetObject", "DataOversize/envelopes/of-some-receipt")
    assert allows(permitted["match"], reading)
    assert not allows(permitted["match"], reading._replace(resource="DataOversize/ingest/seen/1"))
    assert set(key_uses([reading])) == {Call("match", "kms:Decrypt", "key by way of s3")}


def test_who_ends_subscriptions_may_delete_all_that_is_theirs(template_with: Callable[..., Template]) -> None:
    """A pending subscription has an expiry among the wake-ups, whatever its channel."""
    ending = [name for name, row in CHANNELS.items() if PROVIDERS[row.provider].ends_subscriptions]
    granted = permissions(template_with(channels=ending))
    owned = {f"{PROD.prefix}tokens", f"{PROD.prefix}wake_ups"}
    assert {name: granted[name]["dynamodb:DeleteItem"] for name in ending} == dict.fromkeys(ending, owned)


def test_wake_ups_go_to_no_queue_of_calls_or_alerts(permitted: Mapping[str, Permissions]) -> None:
    queues = (*(f"{channel}-held" for channel in WAKING), "cleanup", "late-events")
    assert permitted["schedule"]["sqs:SendMessage"] == {f"{PROD.prefix}{queue}" for queue in queues}


def test_no_role_is_left_out(prod: Template, permitted: Mapping[str, Permissions]) -> None:
    missing = set(CHANNELS) - set(PROD.channels)
    assert permitted.keys() == {*COMPONENTS} - missing | PERMITTED.keys()
    roles = prod.find_resources("AWS::IAM::Role")
    assert len(roles) == len(permitted)
    for role in roles.values():
        assert role["Properties"].keys() <= {"AssumeRolePolicyDocument", "Tags"}
    prod.resource_count_is("AWS::IAM::ManagedPolicy", 0)
    prod.resource_count_is("AWS::IAM::User", 0)


def test_secrets_are_there_and_readable_for_the_apps_that_need_them(template_with: Callable[..., Template]) -> None:
    first = {**dict(PROD.apps[0]), "apns_sandbox": True}
    tablet = {"name": "tablet", "alert_title": "Tablet", "bundle_id": "io.pcf.tablet", "providers": ["apns"]}
    robot = {"name": "robot", "alert_title": "Robot", "providers": ["fcm"]}
    template = template_with(apps=[first, tablet, robot])
    read = {
        name: granted.get("secretsmanager:GetSecretValue", set()) for name, granted in permissions(template).items()
    }
    of_first = {"clarion-prod-apns", "clarion-prod-apns-sandbox"}
    assert read == {
        "match": set(),
        "pages": set(),
        "apns": {*of_first, "clarion-prod-apns-tablet"},
        "voip": {*of_first, "clarion-prod-apns-tablet"},
        "fcm": {"clarion-prod-fcm", "clarion-prod-fcm-robot"},
        "cleanup": set(),
        "deliveries": set(),
        "late-events": set(),
        "schedule": set(),
        "api": {*of_first, "clarion-prod-fcm", "clarion-prod-origin"},
        "authorizer": {"clarion-prod-jwt"},
        "filling the lake": set(),
        "trying a version": set(),
    }
    secrets = template.find_resources("AWS::SecretsManager::Secret").values()
    assert {secret["Properties"]["Name"] for secret in secrets} == set().union(*read.values())


def test_no_policy_names_every_action(template_of: Callable[[str], Template]) -> None:
    for policy in template_of("prod").find_resources("AWS::IAM::Policy").values():
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]:
            assert not [action for action in listed(statement["Action"]) if "*" in action]


def test_who_neither_pushes_nor_changes_a_subscription_reads_none_of_its_token(prod: Template) -> None:
    reading = [
        statement
        for policy in prod.find_resources("AWS::IAM::Policy").values()
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        if "dynamodb:Attributes" in str(statement.get("Condition"))
    ]
    assert len(reading) == len(("match", "pages", "cleanup"))
    for statement in reading:
        assert statement["Action"] == "dynamodb:BatchGetItem"
        assert "token" not in statement["Condition"]["ForAllValues:StringEquals"]["dynamodb:Attributes"]
        assert statement["Condition"]["StringEqualsIfExists"] == {"dynamodb:Select": "SPECIFIC_ATTRIBUTES"}


def test_another_account_s_bucket_or_key_is_out_of_reach(prod: Template) -> None:
    """Their names are read from SSM, where somebody may have put another one."""
    own = {"Ref": "AWS::AccountId"}
    for policy in prod.find_resources("AWS::IAM::Policy").values():
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]:
            if listed(statement["Action"])[0].partition(":")[0] in {"s3", "kms"}:
                assert statement["Condition"]["StringEquals"]["aws:ResourceAccount"] == own
