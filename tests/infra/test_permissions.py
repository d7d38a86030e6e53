"""Least privilege, stated: every action on every resource that each role may take, and nothing else."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from aws_cdk.assertions import Template

from infra.environments import PROD

type Permissions = dict[str, set[str]]
NAMES = ("TableName", "QueueName", "Name", "LogGroupName", "DeliveryStreamName", "FunctionName")

IMAGES = "cdk-hnb659fds-container-assets-${AWS::AccountId}-us-east-1"
"""Where CDK keeps the images of all deployments."""

CONSUME = ("sqs:ReceiveMessage", "sqs:ChangeMessageVisibility", "sqs:GetQueueUrl", "sqs:DeleteMessage")
COMMON = {
    "xray:PutTraceSegments": {"*"},
    "xray:PutTelemetryRecords": {"*"},
}


def logging(name: str) -> Permissions:
    group = {f"/aws/lambda/clarion-prod-{name}"}
    return {"logs:CreateLogStream": group, "logs:PutLogEvents": group}


def consuming(*queues: str) -> Permissions:
    return {action: {f"clarion-prod-{queue}" for queue in queues} for action in (*CONSUME, "sqs:GetQueueAttributes")}


def using_key(*services: str) -> Permissions:
    return {action: {f"key by way of {name}" for name in services} for action in ("kms:Decrypt", "kms:GenerateDataKey")}


def dispatching(channel: str, secret: str, *held: str) -> Permissions:
    return {
        **COMMON,
        **logging(channel),
        **consuming(channel, *held),
        **using_key("dynamodb", "secretsmanager"),
        "sqs:SendMessage": {f"clarion-prod-{queue}" for queue in (f"{channel}-dead", "cleanup", *held)},
        "dynamodb:BatchGetItem": {"clarion-prod-subscriptions"},
        "dynamodb:UpdateItem": {"clarion-prod-subscriptions"},
        "dynamodb:DeleteItem": {"clarion-prod-tokens"},
        "secretsmanager:GetSecretValue": {f"clarion-prod-{secret}"},
        "firehose:PutRecordBatch": {"clarion-prod-events"},
    }


PERMITTED: Mapping[str, Permissions] = {
    "match": {
        **COMMON,
        **logging("match"),
        **consuming("statements"),
        **using_key("dynamodb", "s3"),
        "sqs:SendMessage": {
            "clarion-prod-apns",
            "clarion-prod-voip",
            "clarion-prod-fcm",
            "clarion-prod-statements",
            "clarion-prod-statements-dead",
        },
        "dynamodb:Query": {"clarion-prod-rules/index/by_sender_topic", "clarion-prod-rate_limits"},
        "dynamodb:BatchGetItem": {"clarion-prod-rules", "clarion-prod-subscriptions"},
        "dynamodb:GetItem": {"clarion-prod-rate_limits"},
        "dynamodb:PutItem": {"clarion-prod-push_records", "clarion-prod-rate_limits"},
        "s3:ListBucket": {"LakeOversize"},
        "s3:GetObject": {"LakeOversize/statements/*"},
        "firehose:PutRecordBatch": {"clarion-prod-events"},
    },
    "apns": dispatching("apns", "apns", "apns-held"),
    "voip": dispatching("voip", "apns"),
    "fcm": dispatching("fcm", "fcm", "fcm-held"),
    "cleanup": {
        **COMMON,
        **logging("cleanup"),
        **consuming("cleanup"),
        **using_key("dynamodb"),
        "dynamodb:BatchGetItem": {"clarion-prod-subscriptions"},
        "dynamodb:Query": {"clarion-prod-rules"},
        "dynamodb:BatchWriteItem": {"clarion-prod-rules"},
    },
    "api": {
        **COMMON,
        **logging("api"),
        "sqs:SendMessage": {"clarion-prod-cleanup"},
        **using_key("dynamodb", "secretsmanager"),
        "dynamodb:Query": {"clarion-prod-subscriptions/index/by_client", "clarion-prod-rules"},
        "dynamodb:BatchGetItem": {"clarion-prod-subscriptions", "clarion-prod-tokens", "clarion-prod-rules"},
        "dynamodb:PutItem": {"clarion-prod-subscriptions", "clarion-prod-tokens", "clarion-prod-rules"},
        "dynamodb:UpdateItem": {"clarion-prod-subscriptions", "clarion-prod-quotas"},
        "secretsmanager:GetSecretValue": {"clarion-prod-apns", "clarion-prod-fcm", "clarion-prod-origin"},
        "dynamodb:DeleteItem": {"clarion-prod-subscriptions", "clarion-prod-tokens", "clarion-prod-rules"},
        "dynamodb:BatchWriteItem": {"clarion-prod-rules"},
        "firehose:PutRecordBatch": {"clarion-prod-events"},
    },
    "authorizer": {
        **COMMON,
        **logging("authorizer"),
        **using_key("secretsmanager"),
        "secretsmanager:GetSecretValue": {"clarion-prod-jwt"},
    },
    "ingest": {
        **using_key("dynamodb", "s3"),
        "sqs:SendMessage": {"clarion-prod-statements"},
        "firehose:PutRecordBatch": {"clarion-prod-events"},
        "dynamodb:GetItem": {"clarion-prod-leases"},
        "dynamodb:PutItem": {"clarion-prod-leases"},
        "dynamodb:DescribeTable": {"clarion-prod-rules"},
        "dynamodb:Scan": {"clarion-prod-rules"},
        "dynamodb:DescribeStream": {"clarion-prod-rules/stream"},
        "dynamodb:GetShardIterator": {"clarion-prod-rules/stream"},
        "dynamodb:GetRecords": {"clarion-prod-rules/stream"},
        "s3:ListBucket": {"LakeOversize"},
        "s3:GetObject": {"LakeOversize/ingest/seen/*"},
        "s3:PutObject": {"LakeOversize/ingest/seen/*", "LakeOversize/statements/*"},
        "s3:DeleteObject": {"LakeOversize/ingest/seen/*"},
    },
    "starting ingest": {
        "ecr:BatchCheckLayerAvailability": {"the deployment's images"},
        "ecr:BatchGetImage": {"the deployment's images"},
        "ecr:GetDownloadUrlForLayer": {"the deployment's images"},
        "ecr:GetAuthorizationToken": {"*"},
        "logs:CreateLogStream": {"/aws/ecs/clarion-prod-ingest"},
        "logs:PutLogEvents": {"/aws/ecs/clarion-prod-ingest"},
    },
    "filling the lake": {
        **using_key("s3"),
        "s3:GetBucketLocation": {"LakeBucket"},
        "s3:ListBucket": {"LakeBucket"},
        "s3:ListBucketMultipartUploads": {"LakeBucket"},
        "s3:PutObject": {"LakeBucket/events/*", "LakeBucket/errors/*"},
        "s3:AbortMultipartUpload": {"LakeBucket/events/*", "LakeBucket/errors/*"},
        "logs:PutLogEvents": {"/aws/kinesisfirehose/clarion-prod-events"},
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


def permissions(template: Template) -> Mapping[str, Permissions]:
    """Of each role, by what takes it on: a function by its name without prefix."""
    resources: Mapping[str, Any] = template.to_json()["Resources"]
    return {name: _of(role, resources) for name, role in _roles(resources)}


def _roles(resources: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for resource in resources.values():
        properties = resource.get("Properties", {})
        match resource["Type"]:
            case "AWS::Lambda::Function":
                yield properties["FunctionName"].removeprefix("clarion-prod-"), properties["Role"]
            case "AWS::ECS::TaskDefinition":
                yield "ingest", properties["TaskRoleArn"]
                yield "starting ingest", properties["ExecutionRoleArn"]
            case "AWS::KinesisFirehose::DeliveryStream":
                yield "filling the lake", properties["ExtendedS3DestinationConfiguration"]["RoleARN"]
            case "AWS::EC2::FlowLog":
                yield "logging refused connections", properties["DeliverLogsPermissionArn"]


def _of(role: Mapping[str, Any], resources: Mapping[str, Any]) -> Permissions:
    told: Permissions = defaultdict(set)
    for statement in _statements(role["Fn::GetAtt"][0], resources):
        for action in _listed(statement["Action"]):
            told[action] |= {_readable(each, statement, resources) for each in _listed(statement["Resource"])}
    return dict(told)


def _statements(role: str, resources: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    assert "ManagedPolicyArns" not in resources[role]["Properties"]
    for resource in resources.values():
        if resource["Type"] == "AWS::IAM::Policy" and {"Ref": role} in resource["Properties"]["Roles"]:
            yield from resource["Properties"]["PolicyDocument"]["Statement"]


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _readable(arn: Any, statement: Mapping[str, Any], resources: Mapping[str, Any]) -> str:
    match arn:
        case str():
            return arn
        case {"Fn::Join": ["", [str(service), _, ":repository/", {"Fn::Sub": str(name)}]]}:
            assert (service, name) == ("arn:aws:ecr:us-east-1:", IMAGES)
            return "the deployment's images"
        case {"Fn::Join": ["", [resource, str(rest)]]}:
            return _readable(resource, statement, resources) + rest
        case {"Fn::GetAtt": [logical, "StreamArn"]}:
            return f"{resources[logical]['Properties']['TableName']}/stream"
        case {"Fn::GetAtt": [logical, _]}:
            if "Condition" in statement:
                (service,) = statement["Condition"]["StringEquals"].values()
                return f"key by way of {service.split('.')[0]}"
            properties = resources[logical]["Properties"]
            return next((str(properties[name]) for name in NAMES if name in properties), str(logical)[:-8])
    raise AssertionError(arn)


@pytest.mark.parametrize("role", PERMITTED)
def test_a_role_may_do_exactly_what_it_needs(permitted: Mapping[str, Permissions], role: str) -> None:
    assert permitted[role] == PERMITTED[role]


def test_no_role_is_left_out(prod: Template, permitted: Mapping[str, Permissions]) -> None:
    assert permitted.keys() == PERMITTED.keys()
    roles = prod.find_resources("AWS::IAM::Role")
    assert len(roles) == len(permitted)
    for role in roles.values():
        assert role["Properties"].keys() <= {"AssumeRolePolicyDocument", "Tags"}
    prod.resource_count_is("AWS::IAM::ManagedPolicy", 0)
    prod.resource_count_is("AWS::IAM::User", 0)


def test_secrets_are_there_and_readable_for_the_apps_that_need_them(template_with: Callable[..., Template]) -> None:
    first = {**dict(PROD.apps[0]), "apns_sandbox": True}
    tablet = {"name": "tablet", "alert_title": "Tablet", "bundle_id": "io.pcf.tablet", "fcm": False}
    robot = {"name": "robot", "alert_title": "Robot"}
    template = template_with(apps=[first, tablet, robot])
    read = {name: told.get("secretsmanager:GetSecretValue", set()) for name, told in permissions(template).items()}
    of_first = {"clarion-prod-apns", "clarion-prod-apns-sandbox"}
    assert read == {
        "match": set(),
        "apns": {*of_first, "clarion-prod-apns-tablet"},
        "voip": {*of_first, "clarion-prod-apns-tablet"},
        "fcm": {"clarion-prod-fcm", "clarion-prod-fcm-robot"},
        "cleanup": set(),
        "api": {*of_first, "clarion-prod-fcm", "clarion-prod-origin"},
        "authorizer": {"clarion-prod-jwt"},
        "filling the lake": set(),
    }
    secrets = template.find_resources("AWS::SecretsManager::Secret").values()
    assert {secret["Properties"]["Name"] for secret in secrets} == set().union(*read.values())


def test_no_policy_names_every_action(template_of: Callable[[str], Template]) -> None:
    for policy in template_of("prod").find_resources("AWS::IAM::Policy").values():
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]:
            assert not [action for action in _listed(statement["Action"]) if "*" in action]
