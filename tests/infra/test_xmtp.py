"""What XMTP states in its `needs` is deployed where an environment names it."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from aws_cdk.assertions import Template

from api.networks.xmtp.settings import XmtpSettings
from clarion.channels import Channel
from clarion.decisions import Environment
from clarion.messages import CommandMessage
from clarion.networks import STATEMENTS, XMTP
from clarion.networks.needs import HOURLY
from infra.app import define_alone, synthesise
from infra.environments import ENVIRONMENTS, PROD
from match.settings import MatchSettings
from tests.grants import Permissions, permissions
from tests.infra.templates import function_variables, named, properties, resolved
from xmtp.worker import XmtpWorkerSettings

PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
CHANNELS = (*PROD.channels, Channel.WEBHOOK)
SERVED = {Channel.APNS, Channel.FCM, Channel.WEBHOOK}
"""The channels that it has."""
ROBOT = {"name": "robot", "alert_title": "Robot", "providers": ["fcm"], "own_messages": "deliver"}
BOTH = {"networks": (STATEMENTS, XMTP), "channels": CHANNELS, "webhook_url": "https://hooks.example.org/"}
API = {"allowance": {"rules_per_subscription": 500}, "origins": ["https://app.example.org"]}
SHARED = {"logs:CreateLogStream", "logs:PutLogEvents"}


@pytest.fixture(scope="module")
def template(template_with: Callable[..., Template]) -> Template:
    return template_with(**BOTH, apps=[PROD.apps[0], ROBOT], api=API)


@pytest.fixture(scope="module")
def allowed(template: Template) -> Mapping[str, Permissions]:
    return permissions(template)


def own(may: Permissions) -> dict[str, set[str]]:
    return {
        action: {name.removeprefix("clarion-prod-") for name in resources}
        for action, resources in may.items()
        if action not in SHARED and not action.startswith("kms:")
    }


def variables(template: Template, function: str) -> dict[str, str]:
    found = function_variables(template, f"clarion-prod-{function}")
    return {key: resolved(value) for key, value in found.items()}


def test_installations_are_found_by_what_is_due(template: Template) -> None:
    table = named(template, "AWS::DynamoDB::GlobalTable", "TableName")["installations"]
    assert table["KeySchema"] == [{"AttributeName": "subscription_id", "KeyType": "HASH"}]
    indexes = {index["IndexName"]: index for index in table["GlobalSecondaryIndexes"]}
    assert {name: [key["AttributeName"] for key in index["KeySchema"]] for name, index in indexes.items()} == {
        "by_keys_due": ["bucket", "keys_due"],
        "by_end_due": ["bucket", "end_due"],
    }
    assert all(index["Projection"] == {"ProjectionType": "KEYS_ONLY"} for index in indexes.values())


def test_its_worker_is_called_every_hour_by_a_command_that_it_reads(template: Template) -> None:
    rule = named(template, "AWS::Events::Rule", "Name")["xmtp-hourly"]
    assert rule["ScheduleExpression"] == "rate(1 hour)"
    [target] = rule["Targets"]
    assert CommandMessage.model_validate_json(target["Input"]) == CommandMessage(network=XMTP, content=HOURLY)
    [(queue, _)] = [
        (logical, one)
        for logical, one in template.find_resources("AWS::SQS::Queue").items()
        if one["Properties"]["QueueName"] == "clarion-prod-xmtp-commands"
    ]
    assert target["Arn"] == {"Fn::GetAtt": [queue, "Arn"]}


def test_its_worker_may_do_exactly_what_it_does(allowed: Mapping[str, Permissions]) -> None:
    may = own(allowed["xmtp-worker"])
    reading = ("ReceiveMessage", "ChangeMessageVisibility", "DeleteMessage", "GetQueueAttributes", "GetQueueUrl")
    for action in reading:
        assert may.pop(f"sqs:{action}") == {"xmtp-commands"}
    assert may == {
        "dynamodb:BatchGetItem": {"installations", "subscriptions"},
        "dynamodb:UpdateItem": {"installations", "subscriptions"},
        "dynamodb:DeleteItem": {"installations", "tokens", "wake_ups"},
        "dynamodb:Query": {"installations/index/by_keys_due", "installations/index/by_end_due", "rules"},
        "dynamodb:PutItem": {"rules"},
        "dynamodb:BatchWriteItem": {"rules"},
        "sqs:SendMessage": {*SERVED, "cleanup", "late-events", "xmtp-commands-dead"},
        "firehose:PutRecordBatch": {"events"},
    }


def test_its_router_may_keep_installations_and_rules_and_send_codes(allowed: Mapping[str, Permissions]) -> None:
    may = own(allowed["xmtp-router"])
    assert may["dynamodb:UpdateItem"] == {"installations", "subscriptions", "quotas"}
    assert may["dynamodb:DeleteItem"] == {"installations", "subscriptions", "tokens", "rules", "wake_ups"}
    assert may["sqs:SendMessage"] == {"cleanup", "late-events", *SERVED}
    assert may["secretsmanager:GetSecretValue"] == {"origin"}


def test_its_functions_understand_their_environment(template: Template) -> None:
    router = XmtpSettings.from_environment(variables(template, "xmtp-router"))
    assert router.apps[Channel.FCM] == {"first", "robot"}
    assert (router.environment, router.rules_per_subscription) == (Environment.PRODUCTION, 500)
    match = MatchSettings.from_environment(variables(template, "match"))
    assert [match.takes_own(app) for app in (None, "first", "robot")] == [False, False, True]
    worker = XmtpWorkerSettings.from_environment(variables(template, "xmtp-worker"))
    assert worker.push_queues.keys() == SERVED


def test_its_one_route_is_for_clients(template: Template) -> None:
    routes = {each["RouteKey"]: each for each in properties(template, "AWS::ApiGatewayV2::Route")}
    route = routes["POST /notifications.v1.Notifications/{method}"]
    assert route["AuthorizationType"] == "CUSTOM"
    assert route["AuthorizerId"] == routes["POST /v1/subscriptions"]["AuthorizerId"]


def test_its_own_alarm_says_what_it_means(template: Template) -> None:
    alarm = named(template, "AWS::CloudWatch::Alarm", "AlarmName")["xmtp-installations-failed"]
    assert {"Name": "service", "Value": "xmtp"} in alarm["Dimensions"]
    assert alarm["AlarmDescription"].startswith("XMTP's worker could not")
    entry = alarm["AlarmDescription"].rpartition("docs/operations.md#")[2]
    assert f"#### `{entry}`\n" in PAGE


def test_events_that_its_functions_lose_raise_an_alarm(template: Template) -> None:
    alarm = named(template, "AWS::CloudWatch::Alarm", "AlarmName")["events-lost-xmtp"]
    assert {"Name": "service", "Value": "xmtp"} in alarm["Dimensions"]


def test_an_hour_without_its_command_is_noticed(template: Template) -> None:
    alarm = named(template, "AWS::CloudWatch::Alarm", "AlarmName")["hourly-missing-xmtp"]
    assert (alarm["MetricName"], alarm["Period"], alarm["EvaluationPeriods"]) == ("NumberOfMessagesSent", 3600, 3)
    assert alarm["TreatMissingData"] == "breaching"


def test_web_pages_may_send_the_headers_of_its_protocols(template: Template) -> None:
    (api,) = properties(template, "AWS::ApiGatewayV2::Api")
    allowed = set(api["CorsConfiguration"]["AllowHeaders"])
    assert {"authorization", "connect-protocol-version", "x-grpc-web", "clarion-app"} <= allowed


def test_the_page_has_the_command_that_calls_its_worker() -> None:
    assert CommandMessage(network=XMTP, content=HOURLY).to_json() in PAGE


def test_cdk_nag_finds_nothing_in_its_resources(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(ENVIRONMENTS, "prod", PROD.model_copy(update=BOTH))
        synthesise(define_alone("prod", outdir=str(tmp_path)))
    report = json.loads((tmp_path / "validation-report.json").read_text())
    assert [each["violations"] for each in report["pluginReports"] if each["pluginName"] == "AwsSolutions"] == [[]]


def test_a_deployment_without_it_has_nothing_of_it(prod: Template) -> None:
    assert "xmtp" not in json.dumps(prod.to_json()).lower()
