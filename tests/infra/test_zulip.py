"""What Zulip states in its `needs` is deployed where an environment names it."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from aws_cdk.assertions import Template

from api.networks.zulip.settings import ServerPolicy, ZulipSettings
from clarion.channels import Channel
from clarion.networks import STATEMENTS, ZULIP
from clarion.networks.needs import Auth
from clarion.networks.zulip.needs import BOUNCER_SECRET, NEEDS
from clarion.networks.zulip.network import NETWORK
from infra.app import define_alone, synthesise
from infra.environments import ENVIRONMENTS, PROD
from tests.grants import Permissions, permissions
from tests.infra.templates import dashboard_widgets, function_variables, named, properties, resolved

PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
FORK = {"name": "fork", "alert_title": "Fork", "bundle_id": "org.example.fork", "providers": ["apns"]}
WITH_ZULIP = {"networks": (STATEMENTS, ZULIP)}
API = {"servers": {"server_policy": "open", "devices_per_server": 500}}
SHARED = {"logs:CreateLogStream", "logs:PutLogEvents"}


@pytest.fixture(scope="module")
def template(template_with: Callable[..., Template]) -> Template:
    return template_with(**WITH_ZULIP, apps=[PROD.apps[0], FORK], api=API)


@pytest.fixture(scope="module")
def alone(template_with: Callable[..., Template]) -> Template:
    """Its servers call: there is nothing to follow."""
    return template_with(networks=(ZULIP,), api=API)


@pytest.fixture(scope="module")
def may(template: Template) -> Mapping[str, set[str]]:
    """What its router may do, with which resources."""
    of_router: Permissions = permissions(template)["zulip-router"]
    return {
        action: {name.removeprefix("clarion-prod-") for name in resources}
        for action, resources in of_router.items()
        if action not in SHARED and not action.startswith("kms:")
    }


def settings_of(template: Template) -> ZulipSettings:
    found = function_variables(template, "clarion-prod-zulip-router")
    return ZulipSettings.from_environment({key: resolved(value) for key, value in found.items()})


def test_its_router_may_do_exactly_what_it_does(may: Mapping[str, set[str]]) -> None:
    assert may == {
        "dynamodb:GetItem": {"zulip_servers", "zulip_realms"},
        "dynamodb:BatchGetItem": {"zulip_realms", "subscriptions", "tokens"},
        "dynamodb:PutItem": {"subscriptions", "tokens"},
        "dynamodb:UpdateItem": {"zulip_servers", "zulip_realms", "subscriptions", "quotas"},
        "dynamodb:DeleteItem": {"subscriptions", "tokens"},
        "dynamodb:Query": {"subscriptions/index/by_client", "tokens"},
        "secretsmanager:GetSecretValue": {BOUNCER_SECRET, "origin"},
        "sqs:SendMessage": {*NETWORK.channels, "late-events"},
        "firehose:PutRecordBatch": {"events"},
    }


def test_cleanup_may_end_devices_as_a_dead_token_may_have_many(template: Template) -> None:
    granted: Permissions = permissions(template)["cleanup"]
    tables = {action: granted[f"dynamodb:{action}"] for action in ("BatchGetItem", "UpdateItem", "DeleteItem", "Query")}
    assert {action: {name.removeprefix("clarion-prod-") for name in names} for action, names in tables.items()} == {
        "BatchGetItem": {"subscriptions"},
        "UpdateItem": {"subscriptions"},
        "DeleteItem": {"tokens", "wake_ups"},
        "Query": {"tokens", "rules"},
    }
    assert granted["sqs:SendMessage"] == {"clarion-prod-cleanup", "clarion-prod-late-events"}


def test_its_keys_secret_is_known_to_who_looks_at_the_deployment(template: Template) -> None:
    (output,) = template.find_outputs("ZulipBouncerSecretId").values()
    assert BOUNCER_SECRET in str(output["Value"])


def test_it_knows_the_apps_of_devices_by_what_providers_call_them(template: Template) -> None:
    settings = settings_of(template)
    assert settings.apns_apps == {PROD.apps[0].bundle_id: "first", "org.example.fork": "fork"}
    assert settings.fcm_app == "first"
    assert (settings.server_policy, settings.devices_per_server) == (ServerPolicy.OPEN, 500)


def test_an_app_is_known_by_the_channels_that_there_are(template_with: Callable[..., Template]) -> None:
    settings = settings_of(template_with(**WITH_ZULIP, channels=(Channel.VOIP,)))
    assert (settings.apns_apps, settings.fcm_app) == ({}, None)


def test_its_router_checks_who_calls(template: Template) -> None:
    routes = {each["RouteKey"]: each for each in properties(template, "AWS::ApiGatewayV2::Route")}
    own = {f"{route.method} {route.path}" for route in NEEDS.routes}
    assert {routes[key]["AuthorizationType"] for key in own} == {"NONE"}
    assert not any(route.auth is Auth.CLIENT for route in NEEDS.routes)


def test_its_own_alarms_say_what_they_mean(template: Template) -> None:
    alarms = named(template, "AWS::CloudWatch::Alarm", "AlarmName")
    for need in NEEDS.alarms:
        alarm = alarms[f"zulip-{need.metric.replace('_', '-')}"]
        assert {"Name": "service", "Value": "zulip"} in alarm["Dimensions"]
        entry = alarm["AlarmDescription"].rpartition("docs/operations.md#")[2]
        assert f"#### `{entry}`\n" in PAGE


def test_cdk_nag_finds_nothing_in_its_resources(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(ENVIRONMENTS, "prod", PROD.model_copy(update=WITH_ZULIP))
        synthesise(define_alone("prod", outdir=str(tmp_path)))
    report = json.loads((tmp_path / "validation-report.json").read_text())
    assert [each["violations"] for each in report["pluginReports"] if each["pluginName"] == "AwsSolutions"] == [[]]


def test_a_deployment_without_it_has_nothing_of_it(prod: Template) -> None:
    assert "zulip" not in json.dumps(prod.to_json()).lower()


def test_where_nothing_is_followed_no_alarm_graph_or_role_is_about_ingest(alone: Template) -> None:
    text = json.dumps(alone.to_json())
    assert "ticks-missing" in text
    for name in ("shards-unowned", "ingest-", "rules-behind", "shards_owned", "nodes_connected", "IngestRole"):
        assert name not in text, name
    (dashboard,) = properties(alone, "AWS::CloudWatch::Dashboard")
    assert all(widget.get("metrics") or widget.get("alarms") for widget in dashboard_widgets(dashboard))
