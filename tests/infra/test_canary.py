"""Functions are called by an alias of their newest version, and match's and dispatch's moves over by a canary."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from aws_cdk.assertions import Template

from infra.environments import PROD
from tests.infra.templates import function_of, properties

CANARIED = {"match", "pages", *PROD.channels}


@pytest.fixture(scope="module")
def aliases(prod: Template) -> Mapping[str, Mapping[str, Any]]:
    """By the function's name, without production's prefix."""
    functions = prod.find_resources("AWS::Lambda::Function")
    return {
        functions[alias["Properties"]["FunctionName"]["Ref"]]["Properties"]["FunctionName"].removeprefix(
            PROD.prefix
        ): alias
        for alias in prod.find_resources("AWS::Lambda::Alias").values()
    }


def test_each_function_has_an_alias_of_a_version(prod: Template, aliases: Mapping[str, Any]) -> None:
    versions = prod.find_resources("AWS::Lambda::Version")
    assert len(aliases) == len(prod.find_resources("AWS::Lambda::Function"))
    for alias in aliases.values():
        assert alias["Properties"]["Name"] == "live"
        assert alias["Properties"]["FunctionVersion"]["Fn::GetAtt"][0] in versions


def test_nothing_calls_a_function_but_by_its_alias(prod: Template) -> None:
    resources = prod.to_json()["Resources"]
    ids = {name: resource for name, resource in resources.items() if resource["Type"] == "AWS::Lambda::Alias"}
    for source in properties(prod, "AWS::Lambda::EventSourceMapping"):
        assert resources[function_of(source, resources)]["Type"] == "AWS::Lambda::Function"
    (target,) = [target for rule in properties(prod, "AWS::Events::Rule") for target in rule["Targets"]]
    called = [each["IntegrationUri"]["Ref"] for each in properties(prod, "AWS::ApiGatewayV2::Integration")]
    called += [
        each["AuthorizerUri"]["Fn::Join"][1][1]["Ref"] for each in properties(prod, "AWS::ApiGatewayV2::Authorizer")
    ]
    called += [each["FunctionName"]["Ref"] for each in properties(prod, "AWS::Lambda::Permission")]
    assert {*called, target["Arn"]["Ref"]} <= ids.keys()


def test_another_bucket_makes_another_version_of_the_functions_that_use_it_and_of_no_other(prod: Template) -> None:
    """Its name is known at the deployment alone, so that the template is as before."""
    described = {
        version["FunctionName"]["Ref"][:-8]: version["Description"]["Ref"][:-8]
        for version in properties(prod, "AWS::Lambda::Version")
        if "Description" in version
    }
    assert described == {"Match": "DataOversize", "Pages": "DataOversize", "Api": "DataLake"}


def test_a_version_keeps_its_runtime_until_another_is_published(prod: Template) -> None:
    """Else AWS replaces the SDK without a deployment, and with no canary."""
    modes = [version.get("RuntimePolicy") for version in properties(prod, "AWS::Lambda::Version")]
    assert modes
    assert all(mode == {"UpdateRuntimeOn": "FunctionUpdate"} for mode in modes)


def test_match_and_dispatch_are_tried_on_a_tenth_until_an_alarm_goes_off(
    prod: Template, aliases: Mapping[str, Any]
) -> None:
    groups, alarms = (
        prod.find_resources(f"AWS::{kind}") for kind in ("CodeDeploy::DeploymentGroup", "CloudWatch::Alarm")
    )
    updates = {name: alias["UpdatePolicy"] for name, alias in aliases.items() if "UpdatePolicy" in alias}
    assert updates.keys() == CANARIED
    for name, update in updates.items():
        group = groups[update["CodeDeployLambdaAliasUpdate"]["DeploymentGroupName"]["Ref"]]["Properties"]
        watched = [alarms[each["Name"]["Ref"]]["Properties"] for each in group["AlarmConfiguration"]["Alarms"]]
        assert f"{PROD.prefix}function-failing-{name}" in {alarm["AlarmName"] for alarm in watched}
        assert all(alarm["TreatMissingData"] == "notBreaching" for alarm in watched)
        assert group["DeploymentConfigName"] == "CodeDeployDefault.LambdaCanary10Percent10Minutes"
        assert {"DEPLOYMENT_FAILURE", "DEPLOYMENT_STOP_ON_ALARM"} == {*group["AutoRollbackConfiguration"]["Events"]}


def test_an_alarm_can_end_the_canary_that_it_watches(prod: Template) -> None:
    """Within its ten minutes."""
    alarms = prod.find_resources("AWS::CloudWatch::Alarm")
    for group in properties(prod, "AWS::CodeDeploy::DeploymentGroup"):
        for each in group["AlarmConfiguration"]["Alarms"]:
            alarm = alarms[each["Name"]["Ref"]]["Properties"]
            assert alarm["Period"] * alarm["EvaluationPeriods"] <= 300, alarm["AlarmName"]


@pytest.mark.parametrize("environment", ["dev", "emulator"])
def test_elsewhere_a_new_version_takes_over_at_once(template_of: Callable[[str], Template], environment: str) -> None:
    template = template_of(environment)
    assert "CodeDeploy" not in json.dumps(template.to_json())
    assert template.find_resources("AWS::Lambda::Alias")
