"""What the data stack has published in SSM for the other stacks, against what it has.

Whoever writes a parameter would have the next deployment go by another key or bucket.
"""

from collections.abc import Iterator

import boto3
from botocore.exceptions import ClientError

from console.doctor import stacks
from console.doctor.plan import DeploymentPlan, PlannedStack
from console.doctor.report import Check

TODO = "deploy nothing before you know who has changed it, and it names {physical} again"


def check_parameters(plan: DeploymentPlan) -> Iterator[Check]:
    """Of stacks that are there."""
    for stack in plan.stacks:
        if published := dict(_published(stack)):
            for each in stacks.resources(stack.name):
                if name := published.get(each["LogicalResourceId"]):
                    yield _check_parameter(name, each["PhysicalResourceId"])


def _published(stack: PlannedStack) -> Iterator[tuple[str, str]]:
    """By the logical name of what a parameter names, the parameter's own."""
    for each in stack.resources("AWS::SSM::Parameter"):
        match each["Value"]:
            case {"Ref": str(logical)} | {"Fn::GetAtt": [str(logical), _]}:
                yield logical, each["Name"]


def _check_parameter(name: str, physical: str) -> Check:
    """It has the name of a bucket, or a key's ARN, which ends with what CloudFormation calls the key."""
    try:
        found = boto3.client("ssm").get_parameter(Name=name)["Parameter"]["Value"]
    except ClientError as error:
        if error.response["Error"]["Code"] != "ParameterNotFound":
            raise
        found = "not there"
    good = found.rpartition("/")[2] == physical
    return Check(name=f"parameter {name}", found=found, todo=None if good else TODO.format(physical=physical))
