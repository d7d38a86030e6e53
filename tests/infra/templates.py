"""What a synthesised template holds, by the names that are deployed."""

import json
from collections.abc import Iterator, Mapping
from itertools import batched
from typing import Any, NamedTuple

from aws_cdk import App
from aws_cdk.assertions import Template

from infra.app import SETTINGS
from infra.config import EnvironmentConfig
from infra.data import DataStack
from infra.stack import ClarionStack

PREFIX = "clarion-prod-"

type Deployment = Mapping[str, Mapping[str, Any]]
"""Templates by stack."""


class Watched(NamedTuple):
    """A metric that an alarm or the dashboard looks at."""

    namespace: str
    name: str
    dimensions: Mapping[str, Any]


def defined(environment: EnvironmentConfig) -> ClarionStack:
    """With the data stack, but without the pipeline's."""
    app = App(context={**json.loads(SETTINGS.read_text())["context"], "aws:cdk:disable-asset-staging": True})
    return ClarionStack(app, environment=environment, data=DataStack(app, environment=environment))


def merged(clarion: ClarionStack) -> Template:
    """What the data stack and the live stack hold, as one template."""
    data, live = (Template.from_stack(stack).to_json() for stack in (clarion.data_stack, clarion))
    assert not data["Resources"].keys() & live["Resources"].keys()
    return Template.from_json({**live, "Resources": {**data["Resources"], **live["Resources"]}})


def buckets_by_parameter(template: Template, data: Template) -> dict[str, str]:
    """Which of the data stack's buckets the parameters of a template stand for."""
    published = {each["Name"]: each["Value"] for each in properties(data, "AWS::SSM::Parameter")}
    read = {name: published.get(each["Default"]) for name, each in template.to_json()["Parameters"].items()}
    return {name: value["Ref"] for name, value in read.items() if value and "Ref" in value}


def queue_of(source: Mapping[str, Any], resources: Mapping[str, Any]) -> str:
    """The name of the queue that an event source reads: of the same template's, or known by its name."""
    match source["EventSourceArn"]:
        case {"Fn::GetAtt": [str(logical), _]}:
            name: str = resources[logical]["Properties"]["QueueName"]
            return name
        case {"Fn::Join": ["", [*_, str(rest)]]}:
            return rest.removeprefix(":")
    raise AssertionError(source)


def function_of(source: Mapping[str, Any], resources: Mapping[str, Any]) -> str:
    """The logical id of the function whose alias an event source feeds."""
    alias = source["FunctionName"]["Fn::Join"][1][0]["Fn::Select"][1]["Fn::Split"][1]["Ref"]
    logical: str = resources[alias]["Properties"]["FunctionName"]["Ref"]
    return logical


def deployed(deployment: Deployment, kind: str) -> Iterator[dict[str, Any]]:
    """The properties of all of a kind, in every stack."""
    for template in deployment.values():
        yield from (each["Properties"] for each in template["Resources"].values() if each["Type"] == kind)


def properties(template: Template, kind: str) -> list[dict[str, Any]]:
    return [dict(resource["Properties"]) for resource in template.find_resources(kind).values()]


def named(template: Template, kind: str, name: str) -> dict[str, dict[str, Any]]:
    """The properties of all of a kind, by their attribute `name`, without production's prefix."""
    return {each[name].removeprefix(PREFIX): each for each in properties(template, kind)}


def function_variables(template: Template, name: str) -> dict[str, Any]:
    """By the function's full name."""
    (function,) = template.find_resources("AWS::Lambda::Function", {"Properties": {"FunctionName": name}}).values()
    variables: dict[str, Any] = function["Properties"]["Environment"]["Variables"]
    return variables


def task_variables(template: Template) -> dict[str, Any]:
    (task,) = template.find_resources("AWS::ECS::TaskDefinition").values()
    (container,) = task["Properties"]["ContainerDefinitions"]
    return {each["Name"]: each["Value"] for each in container["Environment"]}


def resolved(value: Any) -> str:
    """What CloudFormation fills in later stands here as some text."""
    match value:
        case str():
            return value
        case {"Fn::Join": [str(between), list(parts)]}:
            return between.join(resolved(part) for part in parts)
    return "known-at-deployment"


def dashboard_widgets(dashboard: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The properties of what a dashboard shows."""
    parts = dashboard["DashboardBody"]["Fn::Join"][1]
    body = json.loads("".join(part if isinstance(part, str) else str(part.get("Ref", "")) for part in parts))
    return [widget["properties"] for widget in body["widgets"]]


def measured(widget: Mapping[str, Any]) -> list[list[Any]]:
    """Its metrics, each a row: the namespace, the name, the dimensions one after the other, and how to draw it."""
    return [row for row in widget.get("metrics", []) if len(row) > 1]


def metrics_of_dashboard(dashboard: Mapping[str, Any]) -> Iterator[Watched]:
    for widget in dashboard_widgets(dashboard):
        for namespace, name, *rest in measured(widget):
            words = [word for word in rest if isinstance(word, str)]
            yield Watched(namespace, name, dict(batched(words, 2, strict=True)))


def metrics_of_alarm(alarm: Mapping[str, Any]) -> Iterator[Watched]:
    """One, or those that it is computed from."""
    parts = [each["MetricStat"]["Metric"] for each in alarm.get("Metrics", []) if "MetricStat" in each]
    for metric in parts or [alarm]:
        dimensions = {each["Name"]: each["Value"] for each in metric["Dimensions"]}
        yield Watched(metric["Namespace"], metric["MetricName"], dimensions)
