"""What WalletConnect states in its `needs` is deployed where an environment names it."""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from aws_cdk.assertions import Annotations, Match, Template
from pydantic import ValidationError

from api.networks.walletconnect.settings import DappApiSettings
from clarion.networks import STATEMENTS, WALLETCONNECT
from clarion.networks.needs import Auth
from clarion.networks.walletconnect.needs import NEEDS, SERVER_SECRET
from clarion.networks.walletconnect.settings import WalletConnectOptions
from infra.app import define_alone, synthesise
from infra.config import EnvironmentConfig
from infra.environments import ENVIRONMENTS, PROD
from ingest.settings import IngestSettings
from tests.grants import Permissions, permissions
from tests.infra.templates import defined, function_variables, named, properties, resolved
from walletconnect.worker import WalletConnectWorkerSettings

PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
OPTIONS = {
    "domain": "notify.example.org",
    "relay_url": "https://relay.example.org",
    "relay_project_id": "12" * 16,
    "key_servers": ["keys.example.org"],
}
NODES = {STATEMENTS: ["wss://node.example.org"], WALLETCONNECT: ["wss://relay.example.org"]}
DEPLOYED = {
    "networks": (STATEMENTS, WALLETCONNECT),
    "options": {WALLETCONNECT: OPTIONS},
    "ingest": {**dict(PROD.ingest or {}), "nodes": NODES},
}
SHARED = {"logs:CreateLogStream", "logs:PutLogEvents"}
TABLE = "walletconnect_{}".format
PROJECT = "0a" * 16


@pytest.fixture(scope="module")
def template(template_with: Callable[..., Template]) -> Template:
    return template_with(**DEPLOYED)


def test_the_notify_server_s_domain_has_to_be_the_api_s() -> None:
    def deployed(domain: str) -> EnvironmentConfig:
        certificate = "arn:aws:acm:us-east-1:111111111111:certificate/of-the-domain"
        api = {**dict(PROD.api), "domain": domain, "certificate_arn": certificate}
        return EnvironmentConfig.model_validate({**dict(PROD), **DEPLOYED, "api": api})

    assert deployed("notify.example.org").api.domain == "notify.example.org"
    with pytest.raises(ValidationError, match="the `domain` of walletconnect has to be the API's own `domain`"):
        deployed("push.example.org")


@pytest.fixture(scope="module")
def allowed(template: Template) -> Mapping[str, Permissions]:
    return permissions(template)


def own(may: Permissions) -> dict[str, set[str]]:
    return {
        action: {name.removeprefix("clarion-prod-") for name in resources}
        for action, resources in may.items()
        if action not in SHARED and not action.startswith("kms:")
    }


def tables(*names: str) -> set[str]:
    return set(map(TABLE, names))


def variables(template: Template, function: str) -> dict[str, str]:
    found = function_variables(template, f"clarion-prod-{function}")
    return {key: resolved(value) for key, value in found.items()}


def test_its_router_may_do_exactly_what_it_does(allowed: Mapping[str, Permissions]) -> None:
    assert own(allowed["walletconnect-router"]) == {
        "dynamodb:GetItem": tables("projects", "apps", "notifications"),
        "dynamodb:BatchGetItem": tables("subscriptions"),
        "dynamodb:Query": tables("subscriptions", "notifications"),
        "dynamodb:PutItem": tables("apps", "topics", "notifications"),
        "dynamodb:UpdateItem": tables("projects", "apps", "seen", "buckets"),
        "sqs:SendMessage": {"walletconnect-commands"},
        "secretsmanager:GetSecretValue": {SERVER_SECRET, "origin"},
    }


def test_its_worker_may_do_exactly_what_it_does(allowed: Mapping[str, Permissions]) -> None:
    may = own(allowed["walletconnect-worker"])
    for action in ("ReceiveMessage", "ChangeMessageVisibility", "DeleteMessage", "GetQueueAttributes", "GetQueueUrl"):
        assert may.pop(f"sqs:{action}") == {"walletconnect-commands"}
    assert may == {
        "dynamodb:GetItem": tables(
            "projects", "apps", "topics", "subscriptions", "notifications", "seen", "identities"
        ),
        "dynamodb:BatchGetItem": tables("apps", "subscriptions"),
        "dynamodb:Query": tables("watchers", "notifications"),
        "dynamodb:PutItem": tables("topics", "subscriptions", "watchers", "notifications", "seen", "identities"),
        "dynamodb:UpdateItem": tables("topics", "notifications", "seen", "buckets"),
        "dynamodb:DeleteItem": tables("watchers"),
        "sqs:SendMessage": {"envelopes", "late-events", "walletconnect-commands-dead"},
        "firehose:PutRecordBatch": {"events"},
        "secretsmanager:GetSecretValue": {SERVER_SECRET},
    }


def test_ingest_may_read_which_topics_there_are_and_no_key(allowed: Mapping[str, Permissions]) -> None:
    may = own(allowed["ingest"])
    assert may["dynamodb:Query"] == tables("topics/index/by_bucket")
    assert "walletconnect-commands" in may["sqs:SendMessage"]
    assert "secretsmanager:GetSecretValue" not in may


def test_its_functions_read_what_the_deployment_says_of_it(template: Template) -> None:
    said = WalletConnectOptions.model_validate(OPTIONS)
    router = DappApiSettings.from_environment(variables(template, "walletconnect-router"))
    worker = WalletConnectWorkerSettings.from_environment(variables(template, "walletconnect-worker"))
    assert router.options == worker.options == said
    assert router.secrets.keys() == worker.secrets.keys() == {SERVER_SECRET}
    assert router.command_queue_url == worker.queue_url
    assert worker.envelopes_queue_url
    [task] = properties(template, "AWS::ECS::TaskDefinition")
    found = {each["Name"]: resolved(each["Value"]) for each in task["ContainerDefinitions"][0]["Environment"]}
    ingest = IngestSettings.from_environment(found)
    assert WalletConnectOptions.model_validate(ingest.options[WALLETCONNECT]) == said
    assert ingest.nodes[WALLETCONNECT] == ("wss://relay.example.org/",)


def test_routes_for_wallets_ask_the_authorizer_and_those_for_dapps_do_not(template: Template) -> None:
    routes = {each["RouteKey"]: each for each in properties(template, "AWS::ApiGatewayV2::Route")}
    for_dapps = {f"{route.method} {route.path}" for route in NEEDS.routes}
    for_wallets = {f"{route.method} {route.path}" for route in NEEDS.api_routes}
    assert {routes[key]["AuthorizationType"] for key in for_dapps} == {"NONE"}
    assert {routes[key]["AuthorizationType"] for key in for_wallets} == {"CUSTOM"}
    assert {routes[key]["Target"] == routes["GET /v1/subscriptions"]["Target"] for key in for_wallets} == {True}
    assert {route.auth for route in NEEDS.routes} == {Auth.PUBLIC, Auth.SERVER}


def test_a_dapp_is_throttled_as_all_clients_together_are_and_anybody_as_on_any_open_route(template: Template) -> None:
    [stage] = properties(template, "AWS::ApiGatewayV2::Stage")
    rates = {name: limits["ThrottlingRateLimit"] for name, limits in stage["RouteSettings"].items()}
    assert rates["POST /{project}/notify"] == PROD.api.rate
    assert rates["GET /v1/notification/{id}"] == rates["GET /.well-known/did.json"] == PROD.api.open_rate


def test_its_own_alarms_say_what_they_mean(template: Template) -> None:
    alarms = named(template, "AWS::CloudWatch::Alarm", "AlarmName")
    for need in NEEDS.alarms:
        alarm = alarms[f"walletconnect-{need.metric.replace('_', '-')}"]
        assert {"Name": "service", "Value": "walletconnect"} in alarm["Dimensions"]
        entry = alarm["AlarmDescription"].rpartition("docs/operations.md#")[2]
        assert f"#### `{entry}`\n" in PAGE


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"options": {}}, "options have to be given .* walletconnect"),
        ({"options": {WALLETCONNECT: OPTIONS, STATEMENTS: {}}}, "no others: statements"),
        ({"options": {WALLETCONNECT: {**OPTIONS, "relay_url": "http://relay.example.org"}}}, "relay_url"),
        ({"options": {WALLETCONNECT: {**OPTIONS, "key_servers": []}}}, "key_servers"),
        ({"options": {WALLETCONNECT: {**OPTIONS, "relay": "x"}}}, "relay"),
    ],
    ids=["none", "of another network", "an address without TLS", "no key server", "one that nobody asks for"],
)
def test_options_are_those_that_the_networks_ask_for(changes: dict[str, object], fault: str) -> None:
    with pytest.raises(ValidationError, match=fault):
        EnvironmentConfig.model_validate({**dict(PROD), **DEPLOYED, **changes})


def test_dapps_of_one_address_are_counted_apart_from_phones(template: Template) -> None:
    [limits] = properties(template, "AWS::WAFv2::WebACL")
    _, dapps = limits["Rules"]
    counted = dapps["Statement"]["RateBasedStatement"]
    path = counted["ScopeDownStatement"]["RegexMatchStatement"]["RegexString"]
    called = {route.path: route.path.replace("{project}", PROJECT) for route in NEEDS.routes}
    assert {route for route, call in called.items() if re.match(path, call)} == {
        route.path for route in NEEDS.routes if route.auth is Auth.SERVER
    }
    key = dapps["Action"]["Block"]["CustomResponse"]["CustomResponseBodyKey"]
    assert json.loads(limits["CustomResponseBodies"][key]["Content"])["reason"] == "rate limit exceeded"


def test_what_wallets_find_the_server_by_is_kept_in_front_of_the_api(template: Template) -> None:
    [distribution] = properties(template, "AWS::CloudFront::Distribution")
    kept = {each["PathPattern"] for each in distribution["DistributionConfig"]["CacheBehaviors"]}
    assert "/.well-known/did.json" in kept
    assert not any("notification" in path for path in kept)


def test_one_relay_is_enough() -> None:
    stack = defined(EnvironmentConfig.model_validate({**dict(PROD), **DEPLOYED}))
    warnings = Annotations.from_stack(stack).find_warning("*", Match.string_like_regexp("has one node"))
    assert [str(warning.entry.data).partition(" ")[0] for warning in warnings] == [STATEMENTS]


def test_cdk_nag_finds_nothing_in_its_resources(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(ENVIRONMENTS, "prod", PROD.model_copy(update={"networks": (STATEMENTS, WALLETCONNECT)}))
        synthesise(define_alone("prod", outdir=str(tmp_path)))
    report = json.loads((tmp_path / "validation-report.json").read_text())
    assert [each["violations"] for each in report["pluginReports"] if each["pluginName"] == "AwsSolutions"] == [[]]


def test_a_deployment_without_it_has_nothing_of_it(prod: Template) -> None:
    assert "walletconnect" not in json.dumps(prod.to_json()).lower()
