"""The stacks as they are in the account: in which state, why, and what belongs to them."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import boto3

from console.deployment import described
from console.doctor.plan import DeploymentPlan
from console.doctor.report import Check

if TYPE_CHECKING:
    from mypy_boto3_cloudformation import CloudFormationClient
    from mypy_boto3_cloudformation.type_defs import StackEventTypeDef, StackResourceSummaryTypeDef, StackTypeDef

FIRST = "docs/recovering.md#a-first-deployment-that-fails"
DELETE = "aws cloudformation delete-stack --stack-name {name}"
TODO = {
    "CREATE_FAILED": f"mend the cause, then make deploy again, and let it roll back what is left: {FIRST}",
    "ROLLBACK_COMPLETE": "mend the cause, then make deploy again, which deletes it first",
    "ROLLBACK_FAILED": f"mend the cause, then {DELETE}",
    "REVIEW_IN_PROGRESS": f"it holds nothing: {DELETE}",
    "DELETE_FAILED": f"mend the cause, then {DELETE}",
    "UPDATE_FAILED": "mend the cause, then make deploy again",
    "UPDATE_ROLLBACK_FAILED": "mend the cause, then aws cloudformation continue-update-rollback --stack-name {name}",
}
"""https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/view-stack-events.html"""
OF_DATA = {
    "CREATE_FAILED": f"mend the cause, then make deploy with STACKS={{name}} OPTIONS=--no-rollback goes on there: {FIRST}",
    "ROLLBACK_FAILED": f"mend the cause, then remove it: {FIRST}",
    "DELETE_FAILED": "delete what is in the way, then the stack: docs/recovering.md#the-data-stack",
}
"""What is another for the data stack, whose tables are protected, and whose buckets hold something."""
PROTECTED = f"mend the cause, then end the stack's protection and delete it: {FIRST}"
"""Of one that CDK can't delete before it deploys again."""
WAIT = "wait until it has ended: aws cloudformation describe-stacks --stack-name {name}"
GONE = {"DELETE_COMPLETE", "CREATE_FAILED"}
"""States in which a resource is none of the stack's, although the stack still lists it."""
BEGUN = {"CREATE_IN_PROGRESS", "UPDATE_IN_PROGRESS"}
FAILED = {"CREATE_FAILED", "UPDATE_FAILED"}
CONSEQUENCE = "cancelled"
"""CloudFormation cancels what it was about to make when something else has failed."""

DATA = "-data"
"""How the name of the stack ends that keeps the data."""

type Owned = Mapping[str, set[str]]
"""By kind, what CloudFormation calls the resources of our stacks."""


def check_stacks(plan: DeploymentPlan) -> Iterator[Check]:
    cloudformation = boto3.client("cloudformation")
    for stack in plan.stacks:
        there = described(cloudformation, stack.name)
        yield _check_state(cloudformation, there) if there else Check(name=f"stack {stack.name}", found="not there yet")


def owned(plan: DeploymentPlan) -> Owned:
    found: dict[str, set[str]] = defaultdict(set)
    for stack in plan.stacks:
        for each in resources(stack.name):
            found[each["ResourceType"]].add(each.get("PhysicalResourceId", ""))
    return found


def resources(stack: str) -> "Iterator[StackResourceSummaryTypeDef]":
    """What it has; nothing if it is not there."""
    cloudformation = boto3.client("cloudformation")
    if described(cloudformation, stack):
        for page in cloudformation.get_paginator("list_stack_resources").paginate(StackName=stack):
            yield from (each for each in page["StackResourceSummaries"] if each["ResourceStatus"] not in GONE)


def _check_state(cloudformation: "CloudFormationClient", stack: "StackTypeDef") -> Check:
    name, status = stack["StackName"], stack["StackStatus"]
    todos = {**TODO, **OF_DATA} if name.endswith(DATA) else TODO
    todo = todos.get(status) or (WAIT if status.endswith("_IN_PROGRESS") else None)
    if status == "ROLLBACK_COMPLETE" and stack.get("EnableTerminationProtection"):
        todo = PROTECTED
    cause = _cause(cloudformation, name) if todo and "cause" in todo else None
    found = f"{status} ({cause})" if cause else status
    return Check(name=f"stack {name}", found=found, todo=todo.format(name=name) if todo else None)


def _cause(cloudformation: "CloudFormationClient", name: str) -> str | None:
    """What failed first in the last attempt."""
    cause = None
    for event in _last_attempt(cloudformation, name):
        reason = event.get("ResourceStatusReason", "")
        if event["ResourceStatus"] in FAILED and CONSEQUENCE not in reason:
            cause = " ".join(f"{event['LogicalResourceId']}: {reason}".split())
    return cause


def _last_attempt(cloudformation: "CloudFormationClient", name: str) -> "Iterator[StackEventTypeDef]":
    """What became of the resources, the newest first."""
    for page in cloudformation.get_paginator("describe_stack_events").paginate(StackName=name):
        for event in page["StackEvents"]:
            if event["PhysicalResourceId"] != event["StackId"]:
                yield event
            elif event["ResourceStatus"] in BEGUN:
                return
