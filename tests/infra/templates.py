"""What a synthesised template holds, by the names that are deployed."""

from collections.abc import Iterator, Mapping
from typing import Any

from aws_cdk.assertions import Template

PREFIX = "clarion-prod-"

type Deployment = Mapping[str, Mapping[str, Any]]
"""Templates by stack."""


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
