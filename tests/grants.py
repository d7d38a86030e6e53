"""What each role of a synthesised template may do, by action and resource, named without account, region and stage."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from aws_cdk.assertions import Template

from clarion.channels import CHANNELS

type Permissions = dict[str, set[str]]
"""Resources by action."""
type Resource = Mapping[str, Any]
"""Of a template."""

PREFIX = "clarion-prod-"
IMAGES = "cdk-hnb659fds-container-assets-${AWS::AccountId}-us-east-1"
"""Where CDK keeps the images of all deployments."""
NAMES = ("TableName", "QueueName", "Name", "LogGroupName", "DeliveryStreamName", "FunctionName")
BY_NAME = re.compile(r"^:(table/|secret:)?|-\?{6}$")
"""What the name of a table, a queue or a secret has about it in an ARN."""
NAMED_BY_ARN = re.compile(r"^arn:aws:(s3:::|dynamodb:[\w-]+:ACCOUNT:table/)")
COMPONENTS = (
    "match",
    "pages",
    *CHANNELS,
    "cleanup",
    "deliveries",
    "late-events",
    "schedule",
    "api",
    "authorizer",
    "ingest",
)
"""Whose roles are Clarion's own code's. Each call that it makes, and each grant, is tested in the emulator."""

NTF_ROLE = "NtfRole"
"""By what its role is found: the task that takes it on is of another stack, and deployed with SimpleX alone."""
WRITING = {"PutObject", "PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem"}


class Call(NamedTuple):
    """What a component asked for."""

    component: str
    action: str
    resource: str


def permissions(template: Template) -> Mapping[str, Permissions]:
    """Of each role, by what takes it on: a function by its name without prefix."""
    resources: Mapping[str, Any] = template.to_json()["Resources"]
    return {name: _of(role, resources) for name, role in _roles(resources)}


def _roles(resources: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, resource in resources.items():
        properties = resource.get("Properties", {})
        match resource["Type"]:
            case "AWS::IAM::Role" if name.startswith(NTF_ROLE):
                yield "ntf", {"Fn::GetAtt": [name, "Arn"]}
            case "AWS::Lambda::Function":
                yield properties["FunctionName"].removeprefix(PREFIX), properties["Role"]
            case "AWS::ECS::TaskDefinition":
                yield "ingest", properties["TaskRoleArn"]
                yield "starting ingest", properties["ExecutionRoleArn"]
            case "AWS::KinesisFirehose::DeliveryStream":
                yield "filling the lake", properties["ExtendedS3DestinationConfiguration"]["RoleARN"]
            case "AWS::CodeDeploy::DeploymentGroup":
                yield "trying a version", properties["ServiceRoleArn"]
            case "AWS::EC2::FlowLog":
                yield "logging refused connections", properties["DeliverLogsPermissionArn"]


def _of(role: Mapping[str, Any], resources: Mapping[str, Any]) -> Permissions:
    granted: Permissions = defaultdict(set)
    for statement in _statements(role["Fn::GetAtt"][0], resources):
        assert statement.keys() <= {"Effect", "Action", "Resource", "Condition"}, statement
        assert statement["Effect"] == "Allow", statement
        for action in listed(statement["Action"]):
            granted[action] |= {_readable(each, statement, resources) for each in listed(statement["Resource"])}
    return dict(granted)


def _statements(role: str, resources: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    assert "ManagedPolicyArns" not in resources[role]["Properties"]
    for resource in resources.values():
        if resource["Type"] == "AWS::IAM::Policy" and {"Ref": role} in resource["Properties"]["Roles"]:
            yield from resource["Properties"]["PolicyDocument"]["Statement"]


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _readable(arn: Any, statement: Mapping[str, Any], resources: Mapping[str, Any]) -> str:
    match arn:
        case str():
            return arn
        case {"Fn::Join": ["", [str(service), _, ":repository/", {"Fn::Sub": str(name)}]]}:
            assert (service, name) == ("arn:aws:ecr:us-east-1:", IMAGES)
            return "the deployment's images"
        case {"Fn::Join": ["", [{"Fn::GetAtt": _} as resource, str(rest)]]}:
            return _readable(resource, statement, resources) + rest
        case {"Fn::Join": ["", [str(_), {"Ref": str(reference)}, *rest]]}:
            return _named(reference, "".join(rest))
        case {"Ref": _}:
            service = statement["Condition"]["StringEquals"]["kms:ViaService"]
            own = {"kms:ViaService": service, "aws:ResourceAccount": {"Ref": "AWS::AccountId"}}
            assert statement["Condition"] == {"StringEquals": own}, statement
            return f"key by way of {service.split('.')[0]}"
        case {"Fn::GetAtt": [logical, _]}:
            properties = resources[logical]["Properties"]
            return next((str(properties[name]) for name in NAMES if name in properties), str(logical)[:-8])
    raise AssertionError(arn)


def _named(reference: str, rest: str) -> str:
    """A bucket by the parameter that has its name, and all else by the name that follows the account's number."""
    return BY_NAME.sub("", rest) if reference == "AWS::AccountId" else reference[:-8] + rest


def allows(grants: Permissions, call: Call) -> bool:
    """The emulator names no stream that is read: any will do for it."""
    patterns = grants.get(call.action, set())
    return any(call.resource == "*" or fnmatchcase(call.resource, pattern) for pattern in patterns)


def key_uses(calls: Iterable[Call]) -> Iterator[Call]:
    """What the services ask of the key on behalf of whoever calls them, besides what the emulator sees.

    https://docs.aws.amazon.com/AmazonS3/latest/userguide/UsingKMSEncryption.html
    https://docs.aws.amazon.com/secretsmanager/latest/userguide/security-encryption.html
    """
    for component, action, _ in calls:
        service, _, verb = action.partition(":")
        if service in {"dynamodb", "s3", "secretsmanager"}:
            yield Call(component, "kms:Decrypt", f"key by way of {service}")
        if verb in WRITING:
            yield Call(component, "kms:GenerateDataKey", f"key by way of {service}")


def readable(value: Any) -> str:
    """What CloudFormation fills in later, by name."""
    match value:
        case str():
            return value
        case {"Fn::Join": [str(between), list(parts)]}:
            return between.join(readable(part) for part in parts)
        case {"Fn::GetStackOutput": {"OutputName": str(output)}}:
            return re.sub(r"^PublishOutput(FnGetAtt|Ref)(\w+?)([0-9A-F]{8})(\w*)[0-9A-F]{8}$", r"\2", output)
        case {"Ref": "AWS::AccountId"}:
            return "ACCOUNT"
        case {"Ref": str(name)} | {"Fn::GetAtt": [str(name), _]}:
            return re.sub(r"[0-9A-F]{8}$", "", name)
        case {"Fn::Sub": str(text)}:
            return text
    raise AssertionError(value)


def of_kind(resources: Mapping[str, Resource], kind: str) -> dict[str, Resource]:
    """Properties by the constructs' names."""
    found = {name: each["Properties"] for name, each in resources.items() if each["Type"] == kind}
    return {re.sub(r"[0-9A-F]{8}$", "", name): properties for name, properties in found.items()}


def permissions_of_job(resources: Mapping[str, Resource], role: str) -> Permissions:
    """Of a role of the pipeline's stack, by the construct's name."""
    granted: Permissions = {}
    policy = of_kind(resources, "AWS::IAM::Policy")[f"{role}DefaultPolicy"]
    for statement in policy["PolicyDocument"]["Statement"]:
        for action in listed(statement["Action"]):
            for resource in listed(statement["Resource"]):
                name = NAMED_BY_ARN.sub("", readable(resource))
                via = statement.get("Condition", {}).get("StringEquals", {}).get("kms:ViaService")
                granted.setdefault(action, set()).add(f"key by way of {via.split('.')[0]}" if via else name)
    return granted
