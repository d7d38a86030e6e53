"""What SimpleX states in its `needs` is deployed where an environment names it."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from aws_cdk.assertions import Template
from pydantic import ValidationError

from clarion.metrics import Metric
from clarion.networks import SIMPLEX, STATEMENTS
from clarion.networks.simplex.bounds import VERIFIED_SECONDS
from clarion.networks.simplex.needs import IDENTITY, ITEMS, NEEDS, OF_SOURCE, OF_WORKER, STORAGE_KEY
from clarion.networks.simplex.settings import LOCAL_OPTIONS, SimplexOptions
from dispatch.settings import DispatchSettings
from infra.alarms import NEWEST_LEDGER, QUIET, alarm_entry
from infra.config import EnvironmentConfig
from infra.environments import EMULATOR, PROD
from match.settings import MatchSettings
from ntf.commands import token
from simplex.worker import SimplexWorkerSettings
from tests.grants import Permissions, permissions
from tests.infra.templates import function_variables, metrics_of_dashboard, properties, resolved

ROOT = Path(__file__).parents[2]
OPTIONS = {"hosts": ["ntf.example.org"], "app": "first"}
DEPLOYED = {"networks": (STATEMENTS, SIMPLEX), "options": {SIMPLEX: OPTIONS}}
RECEIVING = ("ReceiveMessage", "ChangeMessageVisibility", "DeleteMessage", "GetQueueAttributes", "GetQueueUrl")
PUSHES = "FILL(delivered, 0) + FILL(coalesced, 0)"
SHARED = {"logs:CreateLogStream", "logs:PutLogEvents", "firehose:PutRecordBatch"}


@pytest.fixture(scope="module")
def template(template_with: Callable[..., Template]) -> Template:
    return template_with(**DEPLOYED)


@pytest.fixture(scope="module")
def allowed(template: Template) -> Mapping[str, Permissions]:
    return permissions(template)


def test_each_alarm_that_it_asks_for_has_an_entry_in_the_runbook(template: Template) -> None:
    alarms = {each["AlarmName"]: each for each in properties(template, "AWS::CloudWatch::Alarm")}
    page = (ROOT / "docs/operations.md").read_text()
    for need in NEEDS.alarms:
        entry = alarm_entry(SIMPLEX, need)
        alarm = alarms[f"clarion-prod-{entry}"]
        assert (alarm["MetricName"], alarm["Threshold"], alarm["Statistic"]) == (need.metric, need.threshold, "Sum")
        assert f"#### `{entry}`" in page


def test_the_dashboard_shows_how_many_smp_servers_are_reached(template: Template) -> None:
    (dashboard,) = properties(template, "AWS::CloudWatch::Dashboard")
    shown = {each.name for each in metrics_of_dashboard(dashboard)}
    assert {Metric.SMP_SERVERS_REACHED, Metric.SMP_SERVERS_UNREACHED} <= shown


def variables(template: Template, function: str) -> dict[str, str]:
    found = function_variables(template, f"clarion-prod-{function}")
    return {key: resolved(value) for key, value in found.items()}


def test_its_worker_may_do_exactly_what_it_does(allowed: Mapping[str, Permissions]) -> None:
    may = {action: names for action, names in allowed["simplex-worker"].items() if not action.startswith("kms:")}
    for action in RECEIVING:
        assert may.pop(f"sqs:{action}") == {"clarion-prod-simplex-commands"}
    assert may.pop("sqs:SendMessage") == {"clarion-prod-simplex-commands-dead", "clarion-prod-late-events"}
    assert {action: names for action, names in may.items() if action not in SHARED} == {
        "dynamodb:GetItem": {"clarion-prod-simplex_tokens"},
        "dynamodb:ConditionCheckItem": {"clarion-prod-simplex_tokens"},
        "dynamodb:BatchGetItem": {"clarion-prod-subscriptions", "clarion-prod-rules"},
        "dynamodb:Query": {"clarion-prod-simplex_queues/index/by_token", "clarion-prod-rules"},
        "dynamodb:UpdateItem": {
            "clarion-prod-simplex_tokens",
            "clarion-prod-simplex_queues",
            "clarion-prod-subscriptions",
        },
        "dynamodb:PutItem": {"clarion-prod-rules"},
        "dynamodb:BatchWriteItem": {"clarion-prod-rules"},
        "dynamodb:DeleteItem": {f"clarion-prod-{ITEMS}"},
    }


def test_match_and_dispatch_may_keep_its_newest_items(allowed: Mapping[str, Permissions]) -> None:
    able = {who for who, may in allowed.items() if f"clarion-prod-{ITEMS}" in may.get("dynamodb:UpdateItem", ())}
    assert able == {"match", "pages", "apns"}
    assert f"clarion-prod-{ITEMS}" in allowed["apns"]["dynamodb:BatchGetItem"]
    assert f"clarion-prod-{ITEMS}" in allowed["match"]["dynamodb:GetItem"] & allowed["pages"]["dynamodb:GetItem"]


def test_the_alarm_on_spending_counts_its_rows_and_the_pushes_that_go_with_another(template: Template) -> None:
    [alarm] = [
        one for one in properties(template, "AWS::CloudWatch::Alarm") if "spend-above-ledger" in str(one["AlarmName"])
    ]
    [expression] = [one["Expression"] for one in alarm["Metrics"] if "Expression" in one]
    assert "FILL(simplex_items, 0)" in expression
    assert expression.endswith(f"IF({PUSHES} > {QUIET}, {PUSHES}, {QUIET})")
    assert alarm["Threshold"] == NEWEST_LEDGER * PROD.thresholds.above_ledger


def test_of_the_functions_its_own_channel_alone_reads_the_storage_key(
    template: Template, allowed: Mapping[str, Permissions]
) -> None:
    name = f"clarion-prod-{STORAGE_KEY}"
    readers = {who for who, may in allowed.items() if name in may.get("secretsmanager:GetSecretValue", ())}
    assert readers - {"ingest", "ntf"} == {"apns"}
    settings = DispatchSettings.from_environment(variables(template, "apns"))
    assert settings.payload_secrets == {SIMPLEX: name}
    assert not DispatchSettings.from_environment(variables(template, "fcm")).payload_secrets


def test_only_its_own_channel_and_server_send_its_worker_commands(
    template: Template, allowed: Mapping[str, Permissions]
) -> None:
    queue = "clarion-prod-simplex-commands"
    assert {who for who, may in allowed.items() if queue in may.get("sqs:SendMessage", ())} == {"apns", "ntf"}
    assert DispatchSettings.from_environment(variables(template, "apns")).command_queues.keys() == {SIMPLEX}
    assert not DispatchSettings.from_environment(variables(template, "fcm")).command_queues


def test_a_command_that_is_sent_with_a_delay_does_not_count_as_old(template: Template) -> None:
    """Its age counts from when it was sent."""
    alarms = {each["AlarmName"]: each for each in properties(template, "AWS::CloudWatch::Alarm")}
    longest = NEEDS.command_delay_seconds
    assert {VERIFIED_SECONDS, token.COMMAND_DELAY_SECONDS} <= {*range(longest + 1)}
    limit = alarms["clarion-prod-queue-old-simplex-commands"]["Threshold"]
    assert limit == longest + PROD.thresholds.command_age_s


def test_its_functions_understand_their_environment(template: Template) -> None:
    settings = SimplexWorkerSettings.from_environment(variables(template, "simplex-worker"))
    assert settings.options == SimplexOptions.model_validate(OPTIONS)
    assert MatchSettings.from_environment(variables(template, "match")).table_prefix == "clarion-prod-"


def test_the_storage_key_is_made_and_the_identity_is_not(template: Template) -> None:
    made = {
        secret["Name"]: "GenerateStringKey" in secret["GenerateSecretString"]
        for secret in properties(template, "AWS::SecretsManager::Secret")
    }
    assert (made[f"clarion-prod-{STORAGE_KEY}"], made[f"clarion-prod-{IDENTITY}"]) == (True, False)


def test_the_indexes_of_queues_have_what_their_readers_need(template: Template) -> None:
    (table,) = [
        one
        for one in properties(template, "AWS::DynamoDB::GlobalTable")
        if one["TableName"] == "clarion-prod-simplex_queues"
    ]
    projections = {one["IndexName"]: one["Projection"] for one in table["GlobalSecondaryIndexes"]}
    assert projections == {
        "by_bucket": {"ProjectionType": "INCLUDE", "NonKeyAttributes": list(OF_SOURCE)},
        "by_token": {"ProjectionType": "INCLUDE", "NonKeyAttributes": list(OF_WORKER)},
    }


def test_its_app_is_one_of_the_environments() -> None:
    options = {SIMPLEX: {**OPTIONS, "app": "another"}}
    with pytest.raises(ValidationError, match="has to be one of first"):
        EnvironmentConfig.model_validate({**dict(PROD), **DEPLOYED, "options": options})


@pytest.mark.parametrize("option", LOCAL_OPTIONS)
def test_what_is_for_one_machine_is_refused_elsewhere(option: str) -> None:
    options = {SIMPLEX: {**OPTIONS, option: True}}
    with pytest.raises(ValidationError, match="one machine"):
        EnvironmentConfig.model_validate({**dict(PROD), **DEPLOYED, "options": options})
    assert EMULATOR.options[SIMPLEX][option] is True
