"""SimpleX's NTF server is deployed where an environment names SimpleX, and may do what its needs state."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App
from aws_cdk.assertions import Template
from pydantic import ValidationError

from clarion.metrics import NAMESPACE, Metric, dimensions
from clarion.networks import SIMPLEX, STATEMENTS
from clarion.networks.needs import Function
from clarion.networks.simplex.needs import NEEDS
from console.doctor import needs
from console.doctor.plan import DeploymentPlan, PlannedStack
from infra.app import SETTINGS, add_stacks
from infra.config import EnvironmentConfig
from infra.environments import DEV, PROD
from infra.ntf import BUSY_PERCENT
from infra.options import NtfTasks
from ntf.settings import DEFAULT_HEALTH_PORT, DEFAULT_PORT, NtfBounds, NtfSettings
from tests.infra.templates import properties

ROOT = Path(__file__).parents[2]
PORT = 5223


def templates(**changes: Any) -> Mapping[str, Template]:
    """By stack, without the pipeline's."""
    context = {**json.loads(SETTINGS.read_text())["context"], "aws:cdk:disable-asset-staging": True}
    app = App(context=context)
    nodes = {STATEMENTS: ["wss://node.example.org"]}
    given = {"alarm_email": "operators@example.org", "ingest": {**dict(PROD.ingest or {}), "nodes": nodes}, **changes}
    add_stacks(app, EnvironmentConfig.model_validate({**dict(PROD), "pipeline": None, **given}))
    stacks = [node for node in app.node.children if node.node.id.startswith("clarion-")]
    return {stack.node.id.rpartition("-")[2]: Template.from_stack(stack) for stack in stacks}  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def deployed() -> Mapping[str, Template]:
    return templates(
        networks=(STATEMENTS, SIMPLEX),
        options={SIMPLEX: {"hosts": ["ntf.example.org"], "app": PROD.apps[0].name, "port": PORT}},
        ntf={"tasks": 3, "most_tasks": 7, "cpu": 512, "memory_mb": 1_024},
    )


@pytest.fixture(scope="module")
def server(deployed: Mapping[str, Template]) -> Template:
    return deployed["ntf"]


def container(server: Template) -> Mapping[str, Any]:
    (task,) = properties(server, "AWS::ECS::TaskDefinition")
    (one,) = task["ContainerDefinitions"]
    return dict(one)


def test_without_simplex_there_is_no_server() -> None:
    found = templates()
    assert "ntf" not in found
    assert "NtfRoleArn" not in found["stack"].to_json()["Outputs"]


def test_the_task_understands_its_environment(server: Template) -> None:
    variables = {each["Name"]: each["Value"] for each in container(server)["Environment"]}
    variables["CLARION_PUSH_QUEUES"] = json.dumps({"apns": "https://queue"})
    known = {name: value if isinstance(value, str) else "https://queue" for name, value in variables.items()}
    settings = NtfSettings.from_environment(known)
    assert settings.options.port == PORT
    assert (settings.port, settings.health_port) == (DEFAULT_PORT, DEFAULT_HEALTH_PORT)
    assert settings.secrets.keys() == set(NEEDS.secrets)


def test_its_tasks_are_as_large_as_the_environment_says(server: Template) -> None:
    (task,) = properties(server, "AWS::ECS::TaskDefinition")
    assert (task["Cpu"], task["Memory"]) == ("512", "1024")


def test_there_are_more_tasks_while_they_are_busy_within_what_the_environment_says(server: Template) -> None:
    (service,) = properties(server, "AWS::ECS::Service")
    (scaled,) = properties(server, "AWS::ApplicationAutoScaling::ScalableTarget")
    assert "DesiredCount" not in service, "a deployment would take away those that were added"
    assert (scaled["MinCapacity"], scaled["MaxCapacity"]) == (3, 7)
    assert "service/" in json.dumps(scaled["ResourceId"])
    by_processor, _ = tracked(server)
    assert by_processor["PredefinedMetricSpecification"] == {"PredefinedMetricType": "ECSServiceAverageCPUUtilization"}
    assert by_processor["TargetValue"] == BUSY_PERCENT


def test_the_doctor_counts_as_many_tasks_as_there_may_be(server: Template) -> None:
    """Of half a processor each, the new ones beside the old."""
    plan = DeploymentPlan((PlannedStack("clarion-prod-ntf", server.to_json()),))
    assert needs.fargate_processors(spot=False)(plan) == 7 * 2 * 0.5


def tracked(server: Template) -> list[Mapping[str, Any]]:
    """By which figures there are more tasks or fewer, that of the processors first."""
    policies = properties(server, "AWS::ApplicationAutoScaling::ScalingPolicy")
    found = [policy["TargetTrackingScalingPolicyConfiguration"] for policy in policies]
    return sorted(found, key=lambda one: "PredefinedMetricSpecification" not in one)


def test_there_are_more_tasks_before_a_task_sends_agents_away(server: Template) -> None:
    """Quiet agents keep their connections, and no processor busy."""
    _, by_connections = tracked(server)
    metric = by_connections["CustomizedMetricSpecification"]
    assert (metric["Namespace"], metric["MetricName"], metric["Statistic"]) == (
        NAMESPACE,
        Metric.NTF_SESSIONS_OPEN,
        "Average",
    )
    assert {each["Name"]: each["Value"] for each in metric["Dimensions"]} == dimensions("ntf", PROD.stage)
    assert by_connections["TargetValue"] == NtfBounds().connections * BUSY_PERCENT / 100


def test_production_has_two_tasks_at_least_and_no_environment_very_many() -> None:
    for environment in (PROD, DEV):
        assert environment.ntf
        assert environment.ntf.most_tasks <= 6
    assert PROD.ntf
    assert PROD.ntf.tasks == 2
    page = " ".join((ROOT / "docs/ntf.md").read_text().split())
    assert f"in `prod` {PROD.ntf.tasks} to {PROD.ntf.most_tasks}, " in page
    assert f"by more than {BUSY_PERCENT} %" in page
    assert f"more than {BUSY_PERCENT} % of the most" in page
    with pytest.raises(ValidationError, match="fewer than tasks"):
        NtfTasks(tasks=2, most_tasks=1, cpu=256, memory_mb=512)


def test_it_is_ingests_image_by_another_command(server: Template) -> None:
    assert container(server)["EntryPoint"] == ["python", "-m", "ntf"]
    assert "COPY functions/ntf ./ntf" in (ROOT / "functions/ingest/Dockerfile").read_text()


def test_the_role_may_do_what_is_stated_of_the_server_and_no_more(deployed: Mapping[str, Template]) -> None:
    policies = deployed["stack"].find_resources("AWS::IAM::Policy")
    (policy,) = [each["Properties"] for name, each in policies.items() if name.startswith("NtfRole")]
    statements = policy["PolicyDocument"]["Statement"]
    found = {action for each in statements for action in _several(each["Action"])}
    stated = {f"dynamodb:{action}" for grant in NEEDS.grants if Function.SERVER in grant.by for action in grant.actions}
    others = {"sqs:SendMessage", "firehose:PutRecordBatch", "secretsmanager:GetSecretValue"}
    assert {action for action in found if not action.startswith("kms:")} == stated | others
    assert not [each for each in statements if "*" in _several(each["Resource"])]


def _several(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def test_nobody_but_the_server_reads_its_identity(deployed: Mapping[str, Template]) -> None:
    roles = deployed["stack"].find_resources("AWS::IAM::Policy")
    readers = [name for name, policy in roles.items() if "simplex-identity" in json.dumps(policy)]
    assert len(readers) == 1
    assert readers[0].startswith("NtfRole")
    functions = json.dumps(deployed["stack"].find_resources("AWS::Lambda::Function"))
    assert "simplex-identity" not in functions


def test_the_balancer_passes_on_tcp_with_the_agents_addresses(server: Template) -> None:
    (listener,) = properties(server, "AWS::ElasticLoadBalancingV2::Listener")
    (group,) = properties(server, "AWS::ElasticLoadBalancingV2::TargetGroup")
    attributes = {each["Key"]: each["Value"] for each in group["TargetGroupAttributes"]}
    assert (listener["Protocol"], listener["Port"]) == ("TCP", PORT)
    assert (group["Protocol"], group["Port"]) == ("TCP", DEFAULT_PORT)
    assert attributes["preserve_client_ip.enabled"] == "true"
    assert (group["HealthCheckProtocol"], group["HealthCheckPort"]) == ("HTTP", str(DEFAULT_HEALTH_PORT))


def test_the_tasks_end_their_connections_themselves_and_sooner_than_the_balancer_forgets_them(server: Template) -> None:
    """Its own ends would come in the middle of an answer, or to all agents of a busy task at once."""
    (listener,) = properties(server, "AWS::ElasticLoadBalancingV2::Listener")
    (group,) = properties(server, "AWS::ElasticLoadBalancingV2::TargetGroup")
    attributes = {each["Key"]: each["Value"] for each in group["TargetGroupAttributes"]}
    assert attributes["deregistration_delay.connection_termination.enabled"] == "false"
    assert attributes["target_health_state.unhealthy.connection_termination.enabled"] == "false"
    quiet = int(next(each["Value"] for each in listener["ListenerAttributes"] if "idle_timeout" in each["Key"]))
    bounds = NtfBounds()
    assert bounds.idle_seconds + bounds.wait_seconds < quiet
    assert bounds.keepalive_seconds < bounds.idle_seconds
    assert bounds.last_seconds + bounds.drain_seconds < container(server)["StopTimeout"]


def test_a_task_that_is_full_for_half_a_minute_is_not_taken_away(server: Template) -> None:
    """ECS ends what the balancer calls unhealthy, and all its agents would come to the others."""
    (group,) = properties(server, "AWS::ElasticLoadBalancingV2::TargetGroup")
    assert group["UnhealthyThresholdCount"] * group["HealthCheckIntervalSeconds"] > 30


def test_a_task_is_there_for_as_long_as_the_balancer_may_still_send_it_agents(server: Template) -> None:
    """For two minutes after it was taken away, whatever the delay says: agents would call where nobody is."""
    (group,) = properties(server, "AWS::ElasticLoadBalancingV2::TargetGroup")
    attributes = {each["Key"]: each["Value"] for each in group["TargetGroupAttributes"]}
    assert int(attributes["deregistration_delay.timeout_seconds"]) > 120


def test_the_tasks_are_reached_by_the_balancer_alone(server: Template) -> None:
    groups = {each["GroupDescription"]: each for each in properties(server, "AWS::EC2::SecurityGroup")}
    assert "SecurityGroupIngress" not in groups["The balancer alone, and out to AWS"]
    ingress = properties(server, "AWS::EC2::SecurityGroupIngress")
    assert {each["FromPort"] for each in ingress} == {DEFAULT_PORT, DEFAULT_HEALTH_PORT}
    assert all("SourceSecurityGroupId" in each for each in ingress)


def test_its_alarms_are_there_and_in_the_runbook(deployed: Mapping[str, Template], server: Template) -> None:
    alarms = {each["AlarmName"]: each for each in properties(deployed["stack"], "AWS::CloudWatch::Alarm")}
    of_balancer = {each["AlarmName"]: each for each in properties(server, "AWS::CloudWatch::Alarm")}
    entries = {name.removeprefix(PROD.prefix) for name in of_balancer} | {
        "ntf-missing",
        "simplex-ntf-commands-failed",
        "simplex-ntf-connections-refused",
        "simplex-ntf-handshakes-failed",
    }
    assert {"ntf-unhealthy", "ntf-unreachable"} <= entries
    page = (ROOT / "docs/operations.md").read_text()
    for entry in entries:
        alarm = {**alarms, **of_balancer}[f"{PROD.prefix}{entry}"]
        assert alarm["AlarmDescription"].endswith(f"docs/operations.md#{entry}")
        assert alarm["AlarmActions"] == alarm["OKActions"]
        assert f"#### `{entry}`" in page


def test_the_balancers_alarms_are_of_its_own_targets(server: Template) -> None:
    alarms = {each["MetricName"]: each for each in properties(server, "AWS::CloudWatch::Alarm")}
    assert alarms.keys() == {"HealthyHostCount", "UnHealthyHostCount"}
    for alarm in alarms.values():
        assert alarm["Namespace"] == "AWS/NetworkELB"
        assert {each["Name"] for each in alarm["Dimensions"]} == {"LoadBalancer", "TargetGroup"}
    assert alarms["HealthyHostCount"]["TreatMissingData"] == "breaching"
    # A zone without tasks counts none, while agents are sent to the other's.
    assert alarms["HealthyHostCount"]["Statistic"] == "Maximum"
