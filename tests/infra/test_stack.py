import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest
from aws_cdk.assertions import Match, Template
from pynamodb.models import Model

from api import openapi
from api.app import app
from clarion.tables import MODELS, table_name


def properties(template: Template, kind: str) -> list[dict[str, Any]]:
    found = template.find_resources(kind)
    return [dict(resource["Properties"]) for resource in found.values()]


def functions(template: Template) -> dict[str, dict[str, Any]]:
    return {each["FunctionName"]: each for each in properties(template, "AWS::Lambda::Function")}


def variables(function: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = function["Environment"]["Variables"]
    return found


def by_name(described: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return sorted(described, key=lambda each: str(each["AttributeName"]))


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
    assert len(tables) == len(MODELS)
    for table in tables:
        (replica,) = table["Replicas"]
        assert table["BillingMode"] == "PAY_PER_REQUEST"
        assert table["SSESpecification"] == {"SSEEnabled": True, "SSEType": "KMS"}
        assert replica["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"]
        assert replica["DeletionProtectionEnabled"]


def test_every_queue_but_the_dead_letter_ones_has_one(prod: Template) -> None:
    queues = prod.find_resources("AWS::SQS::Queue")
    names = {logical: queue["Properties"]["QueueName"] for logical, queue in queues.items()}
    for logical, queue in queues.items():
        redrive = queue["Properties"].get("RedrivePolicy")
        if names[logical].endswith("-dead"):
            assert redrive is None
        else:
            dead, _ = redrive["deadLetterTargetArn"]["Fn::GetAtt"]
            assert names[dead] == f"{names[logical]}-dead"


@pytest.mark.parametrize("name", ["match", "apns", "voip", "fcm"])
def test_a_message_is_invisible_for_six_times_the_timeout_of_its_function(prod: Template, name: str) -> None:
    queue = "statements" if name == "match" else name
    queues = {each["QueueName"]: each for each in properties(prod, "AWS::SQS::Queue")}
    assert (
        queues[f"clarion-prod-{queue}"]["VisibilityTimeout"] >= 6 * functions(prod)[f"clarion-prod-{name}"]["Timeout"]
    )


def test_functions_run_python_on_graviton_with_both_layers_and_a_log_group_of_their_own(prod: Template) -> None:
    groups = {group["LogGroupName"] for group in properties(prod, "AWS::Logs::LogGroup")}
    for name, function in functions(prod).items():
        assert function["Runtime"] == "python3.13"
        assert function["Architectures"] == ["arm64"]
        assert len(function["Layers"]) == 2
        assert f"/aws/lambda/{name}" in groups


def test_queues_feed_functions_with_partial_failures_and_bounded_concurrency(prod: Template) -> None:
    sources = properties(prod, "AWS::Lambda::EventSourceMapping")
    assert len(sources) == 4
    for source in sources:
        assert source["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
        assert source["ScalingConfig"]["MaximumConcurrency"] >= 2


def test_every_route_asks_the_authorizer_but_those_that_lead_to_a_token_or_tell_of_the_api(prod: Template) -> None:
    asks = {route["RouteKey"]: route["AuthorizationType"] for route in properties(prod, "AWS::ApiGatewayV2::Route")}
    opened = {"POST /v1/auth/challenges", "POST /v1/auth/tokens", "GET /openapi.json", "GET /docs"}
    assert {route for route, kind in asks.items() if kind != "CUSTOM"} == opened


def test_the_gateway_knows_every_route_of_the_api(prod: Template) -> None:
    described = openapi.document(app)["paths"]
    wanted = {f"{method.upper()} {path}" for path, methods in described.items() for method in methods}
    routed = {route["RouteKey"] for route in properties(prod, "AWS::ApiGatewayV2::Route")}
    assert routed - wanted == {"GET /openapi.json", "GET /docs", "$default"}
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


def test_strangers_can_not_use_up_the_rate_of_all(prod: Template) -> None:
    (stage,) = prod.find_resources("AWS::ApiGatewayV2::Stage").values()
    routes = prod.find_resources("AWS::ApiGatewayV2::Route")
    there_first = {routes[each]["Properties"]["RouteKey"] for each in stage["DependsOn"] if each in routes}
    shares = stage["Properties"]["RouteSettings"]
    opened = {"POST /v1/auth/challenges", "POST /v1/auth/tokens", "GET /openapi.json", "GET /docs", "$default"}
    assert shares.keys() == there_first == opened
    for share in shares.values():
        assert share["ThrottlingRateLimit"] == 50
        assert share["ThrottlingBurstLimit"] == 100


def test_the_api_may_have_a_domain_of_its_own_and_is_then_reached_by_no_other(
    template_with: Callable[..., Template],
) -> None:
    certificate = "arn:aws:acm:us-east-1:111111111111:certificate/of-the-domain"
    template = template_with(api={"domain": "push.example.org", "certificate_arn": certificate})
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
    assert service["DeploymentConfiguration"]["DeploymentCircuitBreaker"] == {"Enable": True, "Rollback": True}
    assert "SecurityGroupIngress" not in group
    prod.resource_count_is("AWS::EC2::NatGateway", 0)


def test_buckets_are_private_encrypted_and_forget(prod: Template) -> None:
    for bucket in properties(prod, "AWS::S3::Bucket"):
        assert all(bucket["PublicAccessBlockConfiguration"].values())
        assert bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
        assert any("ExpirationInDays" in rule for rule in bucket["LifecycleConfiguration"]["Rules"])


def test_the_emulator_gets_the_same_functions_without_the_service(template_of: Callable[[str], Template]) -> None:
    emulator, prod = template_of("emulator"), template_of("prod")
    assert {name.rpartition("-")[2] for name in functions(emulator)} == {
        name.rpartition("-")[2] for name in functions(prod)
    }
    emulator.resource_count_is("AWS::ECS::Service", 0)
    emulator.resource_count_is("AWS::EC2::VPC", 0)
