"""The environment that each function and task is given is one that its room accepts."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from aws_cdk.assertions import Template

from api.settings import ApiSettings, AuthorizerSettings
from clarion.settings import Settings
from dispatch.settings import DispatchSettings
from ingest.settings import IngestSettings
from match.settings import MatchSettings

SETTINGS: Mapping[str, type[Settings]] = {
    "match": MatchSettings,
    "apns": DispatchSettings,
    "voip": DispatchSettings,
    "fcm": DispatchSettings,
    "api": ApiSettings,
    "authorizer": AuthorizerSettings,
}


def resolved(value: Any) -> str:
    """What CloudFormation fills in later stands here as some text."""
    match value:
        case str():
            return value
        case {"Fn::Join": [str(between), list(parts)]}:
            return between.join(resolved(part) for part in parts)
    return "told-at-deployment"


@pytest.mark.parametrize("stage", ["prod", "local"])
@pytest.mark.parametrize("name", SETTINGS)
def test_a_function_understands_its_environment(template_of: Callable[[str], Template], name: str, stage: str) -> None:
    template = template_of("prod" if stage == "prod" else "emulator")
    functions = template.find_resources(
        "AWS::Lambda::Function", {"Properties": {"FunctionName": f"clarion-{stage}-{name}"}}
    )
    (function,) = functions.values()
    variables = function["Properties"]["Environment"]["Variables"]
    settings = SETTINGS[name].from_environment({key: resolved(value) for key, value in variables.items()})
    assert getattr(settings, "table_prefix", f"clarion-{stage}-") == f"clarion-{stage}-"
    assert getattr(settings, "notify_type", name) == name


def test_the_ingest_task_understands_its_environment(prod: Template) -> None:
    (task,) = prod.find_resources("AWS::ECS::TaskDefinition").values()
    (container,) = task["Properties"]["ContainerDefinitions"]
    variables = {each["Name"]: resolved(each["Value"]) for each in container["Environment"]}
    settings = IngestSettings.from_environment(variables)
    assert settings.node_urls[0].startswith("wss://")
