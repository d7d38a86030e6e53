"""What a network states in its `needs` is deployed, and nothing else of it: the toy network asks for one of each."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from aws_cdk.assertions import Template

from clarion.networks import NETWORKS, STATEMENTS, network
from clarion.networks.needs import Auth, Function, Grant, Needs, Send, Target
from clarion.networks.settings import ClientRouterSettings, ServerRouterSettings, WorkerSettings
from infra.app import define_alone, synthesise
from infra.environments import ENVIRONMENTS, PROD
from infra.stack import ClarionStack
from tests.grants import Permissions, permissions
from tests.infra.templates import function_variables, merged, named, properties, resolved, task_variables
from tests.toy import LATEST, NETWORK, TOY

SENDS = (
    Send(Target.EVENTS),
    *(Send(target, (Function.ROUTER,)) for target in (Target.PUSHES, Target.CLEANUP, Target.ENVELOPES)),
)
GRANTS = (
    *NETWORK.needs.grants,
    Grant("subscriptions", ("BatchGetItem",), (Function.WORKER,)),
    Grant("subscriptions/index/by_client", ("Query",), (Function.ROUTER,)),
)
NEEDS = NETWORK.needs._replace(sends=(*SENDS, Send(Target.COMMANDS)), grants=GRANTS)
ENABLED = (STATEMENTS, TOY)


class ToySettings(ClientRouterSettings, ServerRouterSettings):
    """The toy network has routes for both."""


@contextmanager
def needing(needs: Needs) -> Iterator[None]:
    """The toy network is registered, and needs this."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(NETWORKS, TOY, "tests.toy")
        patch.setattr(NETWORK, "needs", needs)
        yield


def define(**props: Any) -> ClarionStack:
    """Production with the toy network."""
    with needing(NEEDS), pytest.MonkeyPatch.context() as patch:
        patch.setitem(ENVIRONMENTS, "prod", PROD.model_copy(update={"networks": ENABLED}))
        return define_alone("prod", **props)


@pytest.fixture(scope="module")
def template() -> Template:
    return merged(define(builtin_cloud_formation_validation=False))


@pytest.fixture(scope="module")
def allowed(template: Template) -> Mapping[str, Permissions]:
    return permissions(template)


def test_its_tables_are_kept_as_all_others(template: Template) -> None:
    tables = named(template, "AWS::DynamoDB::GlobalTable", "TableName")
    assert tables["toys"]["KeySchema"] == [{"AttributeName": "toy_id", "KeyType": "HASH"}]
    assert tables["toy_parts"]["KeySchema"] == [
        {"AttributeName": "toy_id", "KeyType": "HASH"},
        {"AttributeName": "part", "KeyType": "RANGE"},
    ]
    for name in ("toys", "toy_parts"):
        assert tables[name]["SSESpecification"] == tables["rules"]["SSESpecification"]
        assert tables[name]["Replicas"] == tables["tokens"]["Replicas"]


def test_its_functions_may_do_exactly_what_is_stated(allowed: Mapping[str, Permissions]) -> None:
    shared = {
        "logs:CreateLogStream",
        "logs:PutLogEvents",
        "kms:Decrypt",
        "kms:GenerateDataKey",
    }
    router = {action: granted for action, granted in allowed["toy-router"].items() if action not in shared}
    own = {"dynamodb:GetItem": {"clarion-prod-toys"}, "dynamodb:PutItem": {"clarion-prod-toys"}}
    assert router == {
        **own,
        "dynamodb:Query": {"clarion-prod-toy_parts", "clarion-prod-subscriptions/index/by_client"},
        "sqs:SendMessage": {
            *(
                f"clarion-prod-{name}"
                for name in (*PROD.channels, "cleanup", "envelopes", "late-events", "toy-commands")
            ),
        },
        "firehose:PutRecordBatch": {"clarion-prod-events"},
        "secretsmanager:GetSecretValue": {"clarion-prod-toy-key", "clarion-prod-origin"},
    }
    worker = {action: granted for action, granted in allowed["toy-worker"].items() if action not in shared}
    assert worker.pop("sqs:ReceiveMessage") == {"clarion-prod-toy-commands"}
    assert {action for action in worker if action.startswith("sqs:")} == {
        "sqs:ChangeMessageVisibility",
        "sqs:DeleteMessage",
        "sqs:GetQueueAttributes",
        "sqs:GetQueueUrl",
        "sqs:SendMessage",
    }
    assert {action: granted for action, granted in worker.items() if not action.startswith("sqs:")} == {
        **own,
        "dynamodb:Query": {"clarion-prod-toy_parts"},
        "dynamodb:BatchGetItem": {"clarion-prod-subscriptions"},
        "firehose:PutRecordBatch": {"clarion-prod-events"},
        "secretsmanager:GetSecretValue": {"clarion-prod-toy-key"},
    }
    assert worker["sqs:SendMessage"] == {
        *(f"clarion-prod-{name}" for name in ("toy-commands", "toy-commands-dead", "late-events"))
    }


def test_nobody_else_may_use_what_is_its_own_but_dispatch_reads_what_it_makes_bodies_of(
    allowed: Mapping[str, Permissions],
) -> None:
    own = {*(f"clarion-prod-{table.name}" for table in NEEDS.tables), "clarion-prod-toy-key"}
    others = {component: may for component, may in allowed.items() if not component.startswith("toy-")}
    used = {
        (component, action, resource)
        for component, may in others.items()
        for action, resources in may.items()
        for resource in resources & own
    }
    assert used == {(channel, "dynamodb:BatchGetItem", f"clarion-prod-{LATEST}") for channel in PROD.channels}


@pytest.mark.parametrize("name", [*NETWORKS, TOY])
def test_what_bodies_are_made_of_is_a_row_for_each_subscription(name: str, toy: str) -> None:
    needs, makes_bodies = network(name).needs, network(name).body_of_row is not None
    tables = [table for table in needs.tables if table.name == needs.body_table]
    assert [(table.hash_key, table.range_key) for table in tables] == [(("subscription_id", "S"), None)] * makes_bodies


def test_dispatch_and_ingest_may_send_it_commands(template: Template, allowed: Mapping[str, Permissions]) -> None:
    for component in (*PROD.channels, "ingest"):
        assert "clarion-prod-toy-commands" in allowed[component]["sqs:SendMessage"]
    dispatching = [function_variables(template, f"clarion-prod-{channel}") for channel in PROD.channels]
    for variables in (*dispatching, task_variables(template)):
        assert json.loads(resolved(variables["CLARION_COMMAND_QUEUES"])).keys() == {TOY}


def test_each_route_leads_to_its_router_and_asks_for_what_is_stated(template: Template) -> None:
    routes = {each["RouteKey"]: each for each in properties(template, "AWS::ApiGatewayV2::Route")}
    own = {f"{route.method} {route.path}": route for route in NEEDS.routes}
    assert own.keys() <= routes.keys()
    for key, route in own.items():
        assert routes[key]["AuthorizationType"] == ("CUSTOM" if route.auth is Auth.CLIENT else "NONE")
        assert routes[key]["Target"] != routes["POST /v1/notify"]["Target"]
    (stage,) = properties(template, "AWS::ApiGatewayV2::Stage")
    throttled_apart = stage["RouteSettings"].keys()
    assert throttled_apart & own.keys() == {key for key, route in own.items() if route.auth is not Auth.CLIENT}
    unchecked = {key for key, route in routes.items() if route["AuthorizationType"] == "NONE"}
    assert throttled_apart == {*unchecked, "$default"}
    rates = {key: settings["ThrottlingRateLimit"] for key, settings in stage["RouteSettings"].items()}
    of_servers = {key for key, route in own.items() if route.auth is Auth.SERVER}
    assert {key for key, rate in rates.items() if rate == PROD.api.rate} == of_servers
    assert {rates[key] for key in rates.keys() - of_servers} == {PROD.api.open_rate}


def test_a_client_s_route_is_checked_by_the_authorizer_of_the_api_s_own(template: Template) -> None:
    routes = {each["RouteKey"]: each for each in properties(template, "AWS::ApiGatewayV2::Route")}
    assert routes["POST /v1/toys"]["AuthorizerId"] == routes["POST /v1/subscriptions"]["AuthorizerId"]


def test_its_functions_understand_their_environment(template: Template) -> None:
    def variables(name: str) -> dict[str, str]:
        return {key: resolved(value) for key, value in function_variables(template, f"clarion-prod-{name}").items()}

    router = ToySettings.from_environment(variables("toy-router"))
    worker = WorkerSettings.from_environment(variables("toy-worker"))
    assert (router.network, router.stage, router.table_prefix) == ("toy", "prod", "clarion-prod-")
    assert router.secrets.keys() == worker.secrets.keys() == {"toy-key"}
    assert tuple(router.push_queues) == PROD.channels
    assert not worker.push_queues
    assert worker.max_receives == PROD.commands.receives
    assert router.model_fields_set == ToySettings.model_fields.keys()
    assert (router.apns_apps, router.fcm_app) == ({"io.pcf.polkadotapp": "first"}, "first")


def test_its_commands_have_a_queue_with_dead_letters_and_alarms(template: Template) -> None:
    queues = named(template, "AWS::SQS::Queue", "QueueName")
    assert {"toy-commands", "toy-commands-dead"} <= queues.keys()
    alarms = named(template, "AWS::CloudWatch::Alarm", "AlarmName")
    assert {
        "queue-old-toy-commands",
        "dead-letters-toy-commands",
        "function-failing-toy-worker",
    } <= alarms.keys()
    assert "ToyCommandsQueueUrl" in template.to_json()["Outputs"]


def test_its_own_alarm_says_what_it_means(template: Template) -> None:
    (stated,) = NEEDS.alarms
    alarm = named(template, "AWS::CloudWatch::Alarm", "AlarmName")["toy-toys-broken"]
    assert (alarm["MetricName"], alarm["Threshold"], alarm["Period"]) == (stated.metric, stated.threshold, 300)
    assert alarm["AlarmDescription"].startswith(stated.meaning)
    assert {"Name": "service", "Value": "toy"} in alarm["Dimensions"]


def test_a_network_that_is_not_enabled_leaves_nothing(template_with: Callable[..., Template]) -> None:
    with needing(NEEDS):
        template = template_with()
    assert "toy" not in json.dumps(template.to_json()).lower()


def test_routes_without_a_router_stop_synthesis(template_with: Callable[..., Template]) -> None:
    with needing(NEEDS._replace(router=None)), pytest.raises(ValueError, match="toy has routes, but no router"):
        template_with(networks=ENABLED)


def test_cdk_nag_finds_nothing_in_a_network_s_resources(tmp_path: Path) -> None:
    synthesise(define(outdir=str(tmp_path)))
    report = json.loads((tmp_path / "validation-report.json").read_text())
    assert [each["violations"] for each in report["pluginReports"] if each["pluginName"] == "AwsSolutions"] == [[]]
