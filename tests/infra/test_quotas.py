"""What AWS allows of a name, a size and a number, and finds out as late as at the deployment."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from aws_cdk.assertions import Template

from infra.config import MOST_APPS
from tests.infra.templates import Deployment, dashboard_widgets, deployed, function_of, measured, queue_of
from tests.infra.test_settings import APPS, EVERYTHING

NAMES = {
    "AWS::ApiGatewayV2::Api": ("Name", 128),
    "AWS::CloudWatch::Alarm": ("AlarmName", 255),
    "AWS::CloudWatch::Dashboard": ("DashboardName", 255),
    "AWS::DynamoDB::GlobalTable": ("TableName", 255),
    "AWS::ECS::Service": ("ServiceName", 255),
    "AWS::ECS::TaskDefinition": ("Family", 255),
    "AWS::EMRServerless::Application": ("Name", 64),
    "AWS::Events::Rule": ("Name", 64),
    "AWS::IAM::Policy": ("PolicyName", 128),
    "AWS::IAM::Role": ("RoleName", 64),
    "AWS::KMS::Alias": ("AliasName", 256),
    "AWS::KinesisFirehose::DeliveryStream": ("DeliveryStreamName", 64),
    "AWS::Lambda::Function": ("FunctionName", 64),
    "AWS::Logs::LogGroup": ("LogGroupName", 512),
    "AWS::S3::Bucket": ("BucketName", 63),
    "AWS::SNS::Topic": ("TopicName", 256),
    "AWS::SQS::Queue": ("QueueName", 80),
    "AWS::Scheduler::Schedule": ("Name", 64),
    "AWS::SecretsManager::Secret": ("Name", 512),
    "AWS::WAFv2::WebACL": ("Name", 128),
}
"""Letters at most, as the API reference of each service has it. CloudFormation names what is not named here."""
LATER = "x" * 100
"""Longer than every address and ARN of ours that is known at the deployment."""


def completed(value: Any) -> str:
    match value:
        case str():
            return value
        case {"Fn::Join": [str(between), list(parts)]}:
            return between.join(completed(part) for part in parts)
    return LATER


def test_no_name_is_too_long(deployment: Deployment) -> None:
    for kind, (attribute, most) in NAMES.items():
        for properties in deployed(deployment, kind):
            assert len(properties.get(attribute, "")) <= most, properties[attribute]


def test_an_alarm_says_no_more_than_cloudwatch_takes(deployment: Deployment) -> None:
    for alarm in deployed(deployment, "AWS::CloudWatch::Alarm"):
        assert len(alarm["AlarmDescription"]) <= 1_024


def test_the_dashboard_shows_no_more_than_cloudwatch_takes(deployment: Deployment) -> None:
    """https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/CloudWatch-Dashboard-Body-Structure.html"""
    (dashboard,) = deployed(deployment, "AWS::CloudWatch::Dashboard")
    widgets = dashboard_widgets(dashboard)
    assert len(widgets) <= 500
    for widget in widgets:
        assert len(widget.get("alarms", [])) <= 100
        assert len(measured(widget)) <= 500
    assert sum(len(measured(widget)) for widget in widgets) <= 2_500


def test_a_role_has_no_longer_policies_than_iam_takes(deployment: Deployment) -> None:
    """Of all in it together, without blanks: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html"""
    sizes: dict[str, int] = defaultdict(int)
    for policy in deployed(deployment, "AWS::IAM::Policy"):
        for role in policy["Roles"]:
            sizes[role["Ref"]] += len(json.dumps(known(policy["PolicyDocument"]), separators=(",", ":")))
    assert max(sizes.values()) <= 10_240


def known(document: Any) -> Any:
    """With text for everything that stands for some."""
    match document:
        case {"Statement": _} | {"Effect": _}:
            return {name: known(each) for name, each in document.items()}
        case list():
            return [known(each) for each in document]
        case {"Fn::Join": _} | {"Fn::GetAtt": _} | {"Ref": _} | {"Fn::GetStackOutput": _}:
            return completed(document)
    return document


@pytest.fixture(scope="module")
def everything(template_with: Callable[..., Template]) -> Template:
    """What sets all that a function may read, for as many apps and under as long a name as there may be."""
    further = [{**APPS[0], "name": f"messenger-{number}"} for number in range(len(APPS), MOST_APPS)]
    return template_with(**{**EVERYTHING, "apps": [*EVERYTHING["apps"], *further], "stage": "twelveletter"})


def test_variables_fit_into_what_a_function_may_have(everything: Template, deployment: Deployment) -> None:
    """In all, as JSON: https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html"""
    for name, variables in function_variables({"everything": everything.to_json(), **deployment}):
        assert len(json.dumps(variables, separators=(",", ":"))) <= 4_096, name


def function_variables(deployment: Deployment) -> Iterator[tuple[str, Mapping[str, str]]]:
    for function in deployed(deployment, "AWS::Lambda::Function"):
        variables = function["Environment"]["Variables"]
        yield function["FunctionName"], {name: completed(value) for name, value in variables.items()}


def test_each_queue_feeds_its_function_by_the_rules_of_event_sources(deployment: Deployment) -> None:
    """https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html"""
    queues = {queue["QueueName"]: queue for queue in deployed(deployment, "AWS::SQS::Queue")}
    for template in deployment.values():
        resources = template["Resources"]
        for source in deployed({"": template}, "AWS::Lambda::EventSourceMapping"):
            queue = queues[queue_of(source, resources)]
            function = resources[function_of(source, resources)]["Properties"]
            batch, window = source["BatchSize"], source.get("MaximumBatchingWindowInSeconds", 0)
            assert queue["VisibilityTimeout"] >= 6 * function["Timeout"] + window
            assert batch <= (10_000 if window else 10)
            assert 2 <= source["ScalingConfig"]["MaximumConcurrency"] <= 1_000
