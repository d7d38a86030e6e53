import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pytest
from aws_cdk import App
from aws_cdk.assertions import Annotations, Match, Template
from pynamodb.models import Model

from api import openapi
from api.app import resolver
from bench.figures import MEASURED
from clarion.channels import CHANNELS
from clarion.networks import STATEMENTS, XMTP
from clarion.networks.needs import BOTH
from clarion.tables import MODELS, table_name
from infra.app import add_stacks
from infra.config import EnvironmentConfig
from infra.environments import PROD
from infra.image import base_is_pinned
from ingest.health import CHECK_SECONDS
from tests.infra.templates import buckets_by_parameter, defined, properties

HOLDING = [channel for channel in PROD.channels if CHANNELS[channel].has_held_queue]
QUEUES = [
    "envelopes",
    "pages",
    *PROD.channels,
    *(f"{channel}-held" for channel in HOLDING),
    "cleanup",
    "deliveries",
    "late-events",
]


def functions(template: Template) -> dict[str, dict[str, Any]]:
    return {each["FunctionName"]: each for each in properties(template, "AWS::Lambda::Function")}


def variables(function: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = function["Environment"]["Variables"]
    return found


def by_name(described: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return sorted(described, key=lambda each: str(each["AttributeName"]))


def test_the_alarm_topic_has_a_subscriber(prod: Template) -> None:
    (topic,) = prod.find_resources("AWS::SNS::Topic")
    prod.has_output("AlarmTopic", {"Value": {"Ref": topic}})
    prod.has_resource_properties("AWS::SNS::Subscription", {"TopicArn": {"Ref": topic}, "Protocol": "email"})


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_each_table_has_the_keys_and_indexes_of_its_model(prod: Template, model: type[Model]) -> None:
    wanted = model._get_schema()
    tables = {table["TableName"]: table for table in properties(prod, "AWS::DynamoDB::GlobalTable")}
    table = tables[table_name("clarion-prod-", model)]
    indexes = table.get("GlobalSecondaryIndexes", [])
    assert by_name(table["KeySchema"]) == by_name(wanted["key_schema"])
    assert by_name(table["AttributeDefinitions"]) == by_name(wanted["attribute_definitions"])
    assert [(index["IndexName"], index["KeySchema"], index["Projection"]) for index in indexes] == [
        (index["index_name"], index["key_schema"], index["projection"]) for index in wanted["global_secondary_indexes"]
    ]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_rows_that_expire_are_removed_by_ttl(prod: Template, model: type[Model]) -> None:
    expires = {"AttributeName": "ttl", "Enabled": True} if "ttl" in model.get_attributes() else Match.absent()
    name = table_name("clarion-prod-", model)
    prod.has_resource_properties("AWS::DynamoDB::GlobalTable", {"TableName": name, "TimeToLiveSpecification": expires})


def test_every_table_is_on_demand_encrypted_and_recoverable(prod: Template) -> None:
    tables = properties(prod, "AWS::DynamoDB::GlobalTable")
    (key,) = prod.find_resources("AWS::KMS::Key")
    assert len(tables) == len(MODELS)
    for table in tables:
        (replica,) = table["Replicas"]
        assert table["BillingMode"] == "PAY_PER_REQUEST"
        assert table["SSESpecification"] == {"SSEEnabled": True, "SSEType": "KMS"}
        assert replica["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"]
        assert replica["DeletionProtectionEnabled"]
        assert replica["SSESpecification"] == {"KMSMasterKeyId": {"Fn::GetAtt": [key, "Arn"]}}
        streamed = {"StreamViewType": "NEW_AND_OLD_IMAGES"} if table["TableName"].endswith("-rules") else None
        assert table.get("StreamSpecification") == streamed


def test_nothing_is_reached_without_tls(prod: Template) -> None:
    """Each queue, bucket and topic has a policy that denies it; DynamoDB, Firehose and the API know no other way."""
    refusing = [*guarded(prod, "AWS::SQS::QueuePolicy", "Queues"), *guarded(prod, "AWS::S3::BucketPolicy", "Bucket")]
    refusing += guarded(prod, "AWS::SNS::TopicPolicy", "Topics")
    kinds = ("AWS::SQS::Queue", "AWS::S3::Bucket", "AWS::SNS::Topic")
    assert sorted(refusing) == sorted(logical for kind in kinds for logical in prod.find_resources(kind))


def guarded(template: Template, kind: str, subject: str) -> Iterator[str]:
    """What such policies refuse to serve in the clear."""
    for policy in properties(template, kind):
        statements = policy["PolicyDocument"]["Statement"]
        unsafe = {"Bool": {"aws:SecureTransport": "false"}}
        assert any(each["Effect"] == "Deny" and each.get("Condition") == unsafe for each in statements)
        subjects = policy[subject]
        yield from (each["Ref"] for each in (subjects if isinstance(subjects, list) else [subjects]))


def test_nobody_outside_the_account_is_let_in_but_through_the_api(prod: Template) -> None:
    policies = {"AWS::SQS::QueuePolicy": "PolicyDocument", "AWS::S3::BucketPolicy": "PolicyDocument"}
    policies |= {"AWS::SNS::TopicPolicy": "PolicyDocument", "AWS::KMS::Key": "KeyPolicy"}
    for kind, document in policies.items():
        for statement in (each for policy in properties(prod, kind) for each in policy[document]["Statement"]):
            if statement["Effect"] == "Allow":
                let_in = json.dumps(statement["Principal"])
                assert ":root" in let_in or statement["Condition"]["StringEquals"]["aws:SourceAccount"], let_in
    (api,) = prod.find_resources("AWS::ApiGatewayV2::Api")
    (every_minute,) = prod.find_resources("AWS::Events::Rule")
    for permission in properties(prod, "AWS::Lambda::Permission"):
        if permission["Principal"] == "events.amazonaws.com":
            assert permission["SourceArn"] == {"Fn::GetAtt": [every_minute, "Arn"]}
        else:
            assert permission["Principal"] == "apigateway.amazonaws.com"
            assert {"Ref": api} in permission["SourceArn"]["Fn::Join"][1]
    prod.resource_count_is("AWS::Lambda::Url", 0)


def test_alarms_may_tell_the_topic_and_use_its_key(prod: Template) -> None:
    """A topic that has a policy lets in nobody but whom it names, and a key lets in no service by itself."""
    from_here = {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}}
    cloudwatch = {
        "Effect": "Allow",
        "Principal": {"Service": "cloudwatch.amazonaws.com"},
        "Condition": from_here,
    }
    publish = {**cloudwatch, "Action": "sns:Publish", "Resource": {"Ref": Match.any_value()}}
    encrypt = {**cloudwatch, "Action": ["kms:Decrypt", "kms:GenerateDataKey"], "Resource": "*"}
    for kind, document, statement in (
        ("AWS::SNS::TopicPolicy", "PolicyDocument", publish),
        ("AWS::KMS::Key", "KeyPolicy", encrypt),
    ):
        allowed = Match.array_with([Match.object_like(statement)])
        prod.has_resource_properties(kind, {document: {"Statement": allowed}})


def test_every_queue_but_the_dead_letter_ones_has_one(prod: Template) -> None:
    queues = prod.find_resources("AWS::SQS::Queue")
    names = {logical: queue["Properties"]["QueueName"] for logical, queue in queues.items()}
    for logical, queue in queues.items():
        redrive = queue["Properties"].get("RedrivePolicy")
        if names[logical].endswith("-dead"):
            assert redrive is None
        else:
            dead, _ = redrive["deadLetterTargetArn"]["Fn::GetAtt"]
            assert names[dead] == f"{names[logical].removesuffix('-held')}-dead"


def test_each_channel_has_a_queue_and_those_whose_pushes_can_wait_one_of_held_messages(prod: Template) -> None:
    names = {queue["QueueName"].removeprefix("clarion-prod-") for queue in properties(prod, "AWS::SQS::Queue")}
    assert names == {*QUEUES, *(f"{name}-dead" for name in QUEUES if not name.endswith("-held"))}


def test_held_messages_take_half_of_what_the_others_have(prod: Template) -> None:
    sources = properties(prod, "AWS::Lambda::EventSourceMapping")
    held = [source for source in sources if "Held" in str(source["EventSourceArn"])]
    assert len(held) == len(HOLDING)
    for source in held:
        assert source["ScalingConfig"]["MaximumConcurrency"] == PROD.dispatch.concurrency / 2


def test_a_message_of_cleanup_has_an_invocation_to_itself_and_time_to_come_back(prod: Template) -> None:
    """One that shares its invocation is received without being started, and dead once that has happened too often."""
    (source,) = [
        each for each in properties(prod, "AWS::Lambda::EventSourceMapping") if "Cleanup" in str(each["EventSourceArn"])
    ]
    assert source["BatchSize"] == 1
    assert PROD.cleanup.receives == 100


def test_a_function_that_feeds_itself_is_not_stopped_for_it(prod: Template) -> None:
    allowed = {name for name, each in functions(prod).items() if each.get("RecursiveLoop") == "Allow"}
    assert allowed == {f"clarion-prod-{name}" for name in ("match", "pages", *HOLDING)}


def test_functions_run_python_on_graviton_with_both_layers_and_a_log_group_of_their_own(prod: Template) -> None:
    groups = {group["LogGroupName"] for group in properties(prod, "AWS::Logs::LogGroup")}
    for name, function in functions(prod).items():
        assert function["Runtime"] == "python3.13"
        assert function["Architectures"] == ["arm64"]
        assert len(function["Layers"]) == 2
        assert function["LoggingConfig"]["LogGroup"]
        assert f"/aws/lambda/{name}" in groups


def test_functions_trace_nothing_and_log_no_invocation_that_went_well(prod: Template) -> None:
    for function in functions(prod).values():
        assert "TracingConfig" not in function
        assert function["LoggingConfig"]["LogFormat"] == "JSON"
        assert function["LoggingConfig"]["SystemLogLevel"] == "WARN"


def test_every_log_is_kept_for_a_set_time(prod: Template) -> None:
    assert {group["RetentionInDays"] for group in properties(prod, "AWS::Logs::LogGroup")} == {30}


def test_nothing_is_reserved_that_a_new_account_does_not_have(template_of: Callable[[str], Template]) -> None:
    for environment in ("prod", "dev"):
        for function in functions(template_of(environment)).values():
            assert "ReservedConcurrentExecutions" not in function


def test_the_api_can_be_kept_from_taking_the_concurrency_that_pushes_need(
    template_with: Callable[..., Template],
) -> None:
    reserving = functions(template_with(api={"reserved": 200}))
    reserved = {name: each.get("ReservedConcurrentExecutions") for name, each in reserving.items()}
    bounded = {"clarion-prod-api": 200, "clarion-prod-authorizer": 200}
    assert reserved == {name: bounded.get(name) for name in reserved}


def test_queues_feed_functions_with_partial_failures_and_bounded_concurrency(prod: Template) -> None:
    sources = properties(prod, "AWS::Lambda::EventSourceMapping")
    assert len(sources) == len(QUEUES)
    for source in sources:
        assert source["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
        assert source["ScalingConfig"]["MaximumConcurrency"] >= 2


OPENED = {"POST /v1/auth/challenges", "POST /v1/auth/tokens", "GET /openapi.json"}


@pytest.mark.parametrize(("name", "opened"), [("prod", OPENED), ("dev", {*OPENED, "GET /docs"})])
def test_every_route_asks_the_authorizer_but_those_that_lead_to_a_token_or_tell_of_the_api(
    template_of: Callable[[str], Template], name: str, opened: set[str]
) -> None:
    routes = properties(template_of(name), "AWS::ApiGatewayV2::Route")
    asks = {route["RouteKey"]: route["AuthorizationType"] for route in routes}
    assert {route for route, kind in asks.items() if kind != "CUSTOM"} == opened


def test_the_gateway_knows_every_route_of_the_api(prod: Template) -> None:
    described = openapi.document(resolver((STATEMENTS,)))["paths"]
    wanted = {f"{method.upper()} {path}" for path, methods in described.items() for method in methods}
    routed = {route["RouteKey"] for route in properties(prod, "AWS::ApiGatewayV2::Route")}
    assert routed - wanted == {"GET /openapi.json", "$default"}
    assert wanted <= routed


def test_what_no_route_is_for_comes_to_the_api_as_every_route_does(prod: Template) -> None:
    routes = {route["RouteKey"]: route for route in properties(prod, "AWS::ApiGatewayV2::Route")}
    elsewhere, listing = routes["$default"], routes["GET /v1/subscriptions"]
    for shared in ("Target", "AuthorizerId", "AuthorizationType"):
        assert elsewhere[shared] == listing[shared]


def test_the_api_is_throttled_and_logs_each_request(prod: Template) -> None:
    (stage,) = properties(prod, "AWS::ApiGatewayV2::Stage")
    assert stage["DefaultRouteSettings"]["ThrottlingRateLimit"] == 200
    assert set(json.loads(stage["AccessLogSettings"]["Format"])) >= {"request_id", "route", "status"}


def test_the_api_tells_no_metrics_by_route_which_are_charged_and_which_the_access_log_tells(prod: Template) -> None:
    (stage,) = properties(prod, "AWS::ApiGatewayV2::Stage")
    for settings in (stage["DefaultRouteSettings"], *stage["RouteSettings"].values()):
        assert "DetailedMetricsEnabled" not in settings


def test_strangers_can_not_use_up_the_rate_of_all(prod: Template) -> None:
    (stage,) = prod.find_resources("AWS::ApiGatewayV2::Stage").values()
    routes = prod.find_resources("AWS::ApiGatewayV2::Route")
    there_first = {routes[each]["Properties"]["RouteKey"] for each in stage["DependsOn"] if each in routes}
    shares = stage["Properties"]["RouteSettings"]
    assert shares.keys() == there_first == {*OPENED, "$default"}
    for share in shares.values():
        assert share["ThrottlingRateLimit"] == 50
        assert share["ThrottlingBurstLimit"] == 100


def test_the_api_may_have_a_domain_of_its_own_and_is_then_reached_by_no_other(
    template_with: Callable[..., Template],
) -> None:
    certificate = "arn:aws:acm:us-east-1:111111111111:certificate/of-the-domain"
    own_domain = {"domain": "push.example.org", "certificate_arn": certificate}
    template = template_with(api={**own_domain, "per_address": None})
    tls = Match.object_like({"SecurityPolicy": "TLS_1_2", "CertificateArn": certificate})
    template.has_resource_properties("AWS::ApiGatewayV2::Api", {"DisableExecuteApiEndpoint": True})
    template.has_resource_properties(
        "AWS::ApiGatewayV2::DomainName", {"DomainName": "push.example.org", "DomainNameConfigurations": [tls]}
    )
    template.has_output("ApiUrl", {"Value": "https://push.example.org"})
    template.has_output("ApiAddress", {"Value": {"Fn::GetAtt": [Match.any_value(), "RegionalDomainName"]}})


def test_two_ingest_tasks_run_without_nat_and_accept_no_connection(prod: Template) -> None:
    (service,) = properties(prod, "AWS::ECS::Service")
    (group,) = properties(prod, "AWS::EC2::SecurityGroup")
    assert service["DesiredCount"] == 2
    rolling = service["DeploymentConfiguration"]
    assert (rolling["MinimumHealthyPercent"], rolling["MaximumPercent"]) == (100, 200)
    assert rolling["DeploymentCircuitBreaker"] == {"Enable": True, "Rollback": True}
    network = service["NetworkConfiguration"]["AwsvpcConfiguration"]
    assert (network["AssignPublicIp"], len(network["Subnets"])) == ("ENABLED", 2)
    assert "SecurityGroupIngress" not in group
    prod.resource_count_is("AWS::EC2::NatGateway", 0)
    prod.resource_count_is("AWS::EC2::SecurityGroupIngress", 0)


def test_an_ingest_task_tells_whether_it_is_well_and_can_not_change_its_own_code(prod: Template) -> None:
    (task,) = properties(prod, "AWS::ECS::TaskDefinition")
    (container,) = task["ContainerDefinitions"]
    assert task["RuntimePlatform"] == {"CpuArchitecture": "ARM64", "OperatingSystemFamily": "LINUX"}
    check = container["HealthCheck"]
    assert check["Command"] == ["CMD", "python", "-m", "ingest.health"]
    assert check["Timeout"] > CHECK_SECONDS
    assert container["ReadonlyRootFilesystem"]
    assert container["StopTimeout"] == 60


def test_an_ingest_task_has_half_as_much_time_again_as_it_takes_to_read_ten_million_rules(prod: Template) -> None:
    (task,) = properties(prod, "AWS::ECS::TaskDefinition")
    (container,) = task["ContainerDefinitions"]
    check = container["HealthCheck"]
    seconds = 10_000_000 * json.loads(MEASURED.read_text())["rule_cpu_s"]["value"] / (int(task["Cpu"]) / 1024)
    assert check["StartPeriod"] == 300  # the longest that ECS takes
    assert check["StartPeriod"] + check["Retries"] * check["Interval"] >= 1.5 * seconds


def test_an_image_whose_base_is_not_pinned_is_warned_of() -> None:
    warnings = Annotations.from_stack(add_stacks(App(), PROD)).find_warning(
        "*", Match.string_like_regexp("`make pin-base` pins it")
    )
    assert bool(warnings) != base_is_pinned()


def test_buckets_are_private_encrypted_and_forget(prod: Template) -> None:
    for bucket in properties(prod, "AWS::S3::Bucket"):
        assert all(bucket["PublicAccessBlockConfiguration"].values())
        assert bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
        assert any("ExpirationInDays" in rule for rule in bucket["LifecycleConfiguration"]["Rules"])


def test_what_firehose_writes_is_encrypted_and_expires(prod: Template) -> None:
    (stream,) = properties(prod, "AWS::KinesisFirehose::DeliveryStream")
    destination = stream["ExtendedS3DestinationConfiguration"]
    parameter = destination["BucketARN"]["Fn::Join"][1][1]["Ref"]
    bucket = prod.find_resources("AWS::S3::Bucket")[buckets_by_parameter(prod, prod)[parameter]]["Properties"]
    rules = bucket["LifecycleConfiguration"]["Rules"]
    assert [(rule.get("Prefix"), rule["ExpirationInDays"]) for rule in rules if "ExpirationInDays" in rule] == [
        (None, 400),
        ("deliveries/", 2),
    ]
    assert [destination[name].partition("/")[0] for name in ("Prefix", "ErrorOutputPrefix")] == ["events", "errors"]
    assert stream["DeliveryStreamEncryptionConfigurationInput"] == {"KeyType": "AWS_OWNED_CMK"}
    assert "AWSKMSKeyARN" in destination["EncryptionConfiguration"]["KMSEncryptionConfig"]


def test_the_emulator_gets_the_same_functions_without_the_service(template_of: Callable[[str], Template]) -> None:
    emulator, prod = template_of("emulator"), template_of("prod")
    """With every channel, where production has those that need nothing of a deployment's own, and with XMTP's two."""
    local, deployed = ({name.rpartition("-")[2] for name in functions(each)} for each in (emulator, prod))
    assert local == deployed | {*CHANNELS, *BOTH}
    assert {*CHANNELS} & deployed == {*PROD.channels}
    emulator.resource_count_is("AWS::ECS::Service", 0)
    emulator.resource_count_is("AWS::EC2::VPC", 0)


def test_whoever_names_one_node_alone_of_a_network_is_warned_of_the_gap() -> None:
    nodes = {STATEMENTS: ["wss://one.example", "wss://two.example"], XMTP: ["https://one.example"]}
    ingest = {**dict(PROD.ingest or {}), "nodes": nodes}
    environment = EnvironmentConfig.model_validate({**dict(PROD), "networks": tuple(nodes), "ingest": ingest})
    warnings = Annotations.from_stack(defined(environment)).find_warning("*", Match.string_like_regexp("has one node"))
    assert [str(warning.entry.data).partition(" ")[0] for warning in warnings] == [XMTP]
