"""A channel is one row of `clarion.channels`: everything that infra makes for it derives from there."""

import json
from collections.abc import Callable

import pytest
from aws_cdk.assertions import Template

from clarion.channels import CHANNELS, PROVIDERS, Calls, Channel, ChannelSpec, Provider, ProviderSpec
from infra.environments import PROD
from tests.grants import permissions
from tests.infra.templates import named

FIRST = {"name": "first", "bundle_id": "org.example.first", "alert_title": "First"}


def member[Kind: (Channel, Provider)](kind: type[Kind], value: str) -> Kind:
    """One more of an enum that is closed."""
    made = str.__new__(kind, value)
    made._name_, made._value_ = value.upper(), value
    return made


PIGEON, LOFT = member(Channel, "pigeon"), member(Provider, "loft")


@pytest.fixture(scope="module")
def template(template_with: Callable[..., Template]) -> Template:
    """Of a deployment with one more channel, by way of a provider of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(PROVIDERS, LOFT, ProviderSpec("Where the pigeons live", addresses=("loft_url",)))
        patch.setitem(CHANNELS, PIGEON, ChannelSpec(LOFT, 100, Calls.NEVER))
        return template_with(
            apps=[FIRST], channels=[*PROD.channels, PIGEON], providers={"loft_url": "https://127.0.0.1:1"}
        )


def test_a_row_makes_its_queues_with_held_and_dead_letters(template: Template) -> None:
    queues = named(template, "AWS::SQS::Queue", "QueueName")
    assert {"pigeon", "pigeon-held", "pigeon-dead"} <= queues.keys()
    receives = {queues[name]["RedrivePolicy"]["maxReceiveCount"] for name in ("pigeon", "pigeon-held")}
    assert receives == {PROD.dispatch.receives}


def test_a_row_makes_a_function_that_both_queues_feed(template: Template) -> None:
    function = named(template, "AWS::Lambda::Function", "FunctionName")["pigeon"]
    variables = function["Environment"]["Variables"]
    assert variables["CLARION_CHANNEL"] == "pigeon"
    assert variables["CLARION_LOFT_URL"] == "https://127.0.0.1:1"
    assert function["MemorySize"] == PROD.dispatch.size.memory_mb
    fed = [json.dumps(each) for each in template.find_resources("AWS::Lambda::EventSourceMapping").values()]
    assert sum("QueuesPigeon" in source for source in fed) == 2


def test_its_function_may_read_its_own_provider_s_secret_alone(template: Template) -> None:
    allowed = permissions(template)
    assert allowed["pigeon"]["secretsmanager:GetSecretValue"] == {"clarion-prod-loft"}
    assert "clarion-prod-loft" not in allowed["apns"]["secretsmanager:GetSecretValue"]
    assert named(template, "AWS::SecretsManager::Secret", "Name")["loft"]["Description"] == "Where the pigeons live"


def test_match_and_the_api_know_it(template: Template) -> None:
    functions = named(template, "AWS::Lambda::Function", "FunctionName")
    assert "CLARION_PIGEON_QUEUE_URL" in functions["match"]["Environment"]["Variables"]
    assert "clarion-prod-pigeon" in permissions(template)["match"]["sqs:SendMessage"]
    assert json.loads(functions["api"]["Environment"]["Variables"]["CLARION_APPS"])["pigeon"] == ["first"]
    assert "loft_secret_id" in json.dumps(functions["api"]["Environment"]["Variables"]["CLARION_DIRECT_PUSH"])


def test_it_has_outputs_alarms_and_a_place_on_the_dashboard(template: Template) -> None:
    outputs = template.to_json()["Outputs"]
    assert {"PigeonQueueUrl", "LoftSecretId"} <= outputs.keys()
    alarms = named(template, "AWS::CloudWatch::Alarm", "AlarmName")
    assert {
        "queue-old-pigeon",
        "queue-old-pigeon-held",
        "queue-in-flight-pigeon",
        "dead-letters-pigeon",
        "function-failing-pigeon",
    } <= alarms.keys()
    assert alarms["queue-old-pigeon"]["Threshold"] == PROD.thresholds.push_age_s
    (dashboard,) = template.find_resources("AWS::CloudWatch::Dashboard").values()
    assert "clarion-prod-pigeon" in json.dumps(dashboard)


@pytest.mark.parametrize("channel", ["webpush", "webhook"])
def test_a_channel_that_is_not_chosen_costs_nothing(prod: Template, channel: str) -> None:
    assert channel not in json.dumps(prod.to_json()).lower()


def test_a_channel_that_is_chosen_is_there(template_with: Callable[..., Template]) -> None:
    chosen = {"channels": [*PROD.channels, "webhook"], "webhook_url": "https://push.example.org/take"}
    template = template_with(**chosen)
    assert permissions(template)["webhook"]["secretsmanager:GetSecretValue"] == {"clarion-prod-webhook"}
    assert (
        not {"dynamodb:UpdateItem", "dynamodb:DeleteItem", "dynamodb:Query"} & permissions(template)["webhook"].keys()
    )
    functions = named(template, "AWS::Lambda::Function", "FunctionName")
    assert functions["webhook"]["Environment"]["Variables"]["CLARION_WEBHOOK_URL"] == chosen["webhook_url"]
    configured = {name for name, each in functions.items() if "CLARION_WEBHOOK_URL" in each["Environment"]["Variables"]}
    assert configured == {"webhook"}
    assert json.loads(functions["api"]["Environment"]["Variables"]["CLARION_APPS"]).keys() == {*chosen["channels"]}
    assert "webpush" not in json.dumps(template.to_json()).lower()


def test_an_environment_may_give_a_channel_a_consumer_of_its_own(template_with: Callable[..., Template]) -> None:
    of_its_own = PROD.dispatch.model_copy(update={"receives": 3, "concurrency": 7})
    template = template_with(consumers={"fcm": of_its_own})
    queues = named(template, "AWS::SQS::Queue", "QueueName")
    assert queues["fcm"]["RedrivePolicy"]["maxReceiveCount"] == 3
    assert queues["voip"]["RedrivePolicy"]["maxReceiveCount"] == PROD.dispatch.receives
