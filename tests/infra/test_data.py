"""What outlasts the other stacks lies in a stack of its own, to which nothing is tied."""

import json
from collections.abc import Mapping
from typing import Any

from aws_cdk import Stack

from infra.environments import DEV, PROD
from tests.infra.templates import Deployment, defined, deployed

STATEFUL = {"AWS::DynamoDB::GlobalTable", "AWS::KMS::Key", "AWS::S3::Bucket", "AWS::SecretsManager::Secret"}


def ending(deployment: Deployment, name: str) -> Mapping[str, Any]:
    (template,) = [template for stack, template in deployment.items() if stack.endswith(f"-{name}")]
    return template


def test_nothing_that_is_kept_lies_in_the_other_stacks(deployment: Deployment) -> None:
    others = [template for stack, template in deployment.items() if not stack.endswith("-data")]
    assert others
    resources = [each for template in others for each in template["Resources"].values()]
    assert STATEFUL & {each["Type"] for each in resources} == set()
    assert {each.get("DeletionPolicy", "Delete") for each in resources} == {"Delete"}
    assert {each.get("UpdateReplacePolicy", "Delete") for each in resources} == {"Delete"}


def test_the_data_stack_holds_what_is_kept(deployment: Deployment) -> None:
    assert {each["Type"] for each in ending(deployment, "data")["Resources"].values()} >= STATEFUL


def test_no_stack_is_tied_to_the_data_stack(deployment: Deployment) -> None:
    """Neither by an export nor by an output, which is read again only with another template."""
    assert ending(deployment, "data").get("Outputs", {}) == {}
    for text in (json.dumps(template) for stack, template in deployment.items() if not stack.endswith("-data")):
        assert "Fn::ImportValue" not in text
        assert "-data" not in text


def test_what_the_data_stack_publishes_is_what_the_others_read(deployment: Deployment) -> None:
    published = {each["Name"] for each in deployed(deployment, "AWS::SSM::Parameter")}
    read = {
        each["Default"]
        for template in deployment.values()
        for name, each in template["Parameters"].items()
        if each["Type"] == "AWS::SSM::Parameter::Value<String>" and name != "BootstrapVersion"
    }
    assert read == published


def test_the_data_stack_is_deployed_before_the_others_and_alone_protected() -> None:
    clarion = defined(PROD)
    assert clarion.data_stack in clarion.dependencies
    assert protection(clarion.data_stack, clarion) == (True, False)
    dev = defined(DEV)
    assert protection(dev.data_stack, dev) == (False, False)


def protection(*stacks: Stack) -> tuple[bool, ...]:
    return tuple(bool(stack.termination_protection) for stack in stacks)


def test_only_this_stack_s_buckets_may_send_to_its_queue(deployment: Deployment) -> None:
    (name,) = [stack for stack in deployment if stack.endswith("-data")]
    (sending,) = [
        statement
        for policy in deployed(deployment, "AWS::SQS::QueuePolicy")
        for statement in policy["PolicyDocument"]["Statement"]
        if statement["Principal"] == {"Service": "s3.amazonaws.com"}
    ]
    assert f":s3:::{name}-*" in json.dumps(sending["Condition"]["ArnLike"]["aws:SourceArn"])
