"""CloudFront before the API: what it passes on, what it keeps, and whom it stops."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from aws_cdk.assertions import Match, Template
from pydantic import ValidationError

from api.networks.zulip.errors import ZulipCode
from api.problems import TYPE_PREFIX, ProblemKind
from api.requests import ORIGIN_HEADER as ORIGIN_HEADER_OF_API
from clarion.networks import STATEMENTS, ZULIP, network
from infra.config import EnvironmentConfig
from infra.edge import ORIGIN_HEADER, REFUSAL
from infra.environments import DEV, EMULATOR, PROD

CERTIFICATE = "arn:aws:acm:us-east-1:111111111111:certificate/of-the-domain"
DOMAIN = {"domain": "push.example.org", "certificate_arn": CERTIFICATE}


def only(template: Template, kind: str) -> dict[str, Any]:
    (found,) = template.find_resources(kind).values()
    properties: dict[str, Any] = found["Properties"]
    return properties


@pytest.fixture(scope="module")
def distribution(prod: Template) -> Mapping[str, Any]:
    config: dict[str, Any] = only(prod, "AWS::CloudFront::Distribution")["DistributionConfig"]
    return config


def test_an_address_is_refused_beyond_its_requests_in_a_minute_with_a_retry_after(prod: Template) -> None:
    limits = only(prod, "AWS::WAFv2::WebACL")
    (rule,) = limits["Rules"]
    counted = rule["Statement"]["RateBasedStatement"]
    assert (limits["Scope"], limits["DefaultAction"]) == ("CLOUDFRONT", {"Allow": {}})
    assert counted == {"AggregateKeyType": "IP", "EvaluationWindowSec": 60, "Limit": 300}
    answer = rule["Action"]["Block"]["CustomResponse"]
    assert answer["ResponseCode"] == 429
    assert answer["ResponseHeaders"] == [{"Name": "Retry-After", "Value": "60"}]
    body = limits["CustomResponseBodies"][answer["CustomResponseBodyKey"]]["Content"]
    assert json.loads(body)["type"] == f"{TYPE_PREFIX}{ProblemKind.TOO_MANY_REQUESTS.slug}"


def test_a_refusal_is_worded_as_the_api_words_its_own() -> None:
    kind = ProblemKind.TOO_MANY_REQUESTS
    assert REFUSAL["type"] == TYPE_PREFIX + kind.slug
    assert (REFUSAL["title"], REFUSAL["status"]) == (kind.title, kind.status)


def test_servers_that_ask_for_all_of_their_users_have_a_limit_and_a_refusal_of_their_own(
    template_with: Callable[..., Template],
) -> None:
    limits = only(template_with(networks=(STATEMENTS, ZULIP)), "AWS::WAFv2::WebACL")
    phones, servers = limits["Rules"]
    counted = servers["Statement"]["RateBasedStatement"]
    path = counted["ScopeDownStatement"]["RegexMatchStatement"]
    assert path["RegexString"] == "^/api/v1/remotes/"
    assert all(re.match(path["RegexString"], route.path) for route in network(ZULIP).needs.routes)
    assert counted["Limit"] == 3_000
    others = phones["Statement"]["RateBasedStatement"]["ScopeDownStatement"]
    assert others == {"NotStatement": {"Statement": {"RegexMatchStatement": path}}}
    key = servers["Action"]["Block"]["CustomResponse"]["CustomResponseBodyKey"]
    refusal = json.loads(limits["CustomResponseBodies"][key]["Content"])
    assert refusal == REFUSAL | dict(network(ZULIP).needs.refusal_members)
    assert (refusal["result"], refusal["code"]) == ("error", ZulipCode.RATE_LIMIT_HIT.name)


def test_one_server_leaves_others_most_of_the_rate_of_their_routes(template_with: Callable[..., Template]) -> None:
    template = template_with(networks=(STATEMENTS, ZULIP))
    _, servers = only(template, "AWS::WAFv2::WebACL")["Rules"]
    stage = only(template, "AWS::ApiGatewayV2::Stage")
    of_notify = stage["RouteSettings"]["POST /api/v1/remotes/push/e2ee/notify"]["ThrottlingRateLimit"]
    assert servers["Statement"]["RateBasedStatement"]["Limit"] / 60 <= of_notify / 4


def test_one_address_is_far_from_the_rate_of_all(prod: Template) -> None:
    (rule,) = only(prod, "AWS::WAFv2::WebACL")["Rules"]
    a_second = rule["Statement"]["RateBasedStatement"]["Limit"] / 60
    stage = only(prod, "AWS::ApiGatewayV2::Stage")
    assert a_second <= stage["DefaultRouteSettings"]["ThrottlingRateLimit"] / 40
    assert all(a_second <= share["ThrottlingRateLimit"] / 10 for share in stage["RouteSettings"].values())


def test_the_limits_stand_before_all_that_the_distribution_passes_on(
    prod: Template, distribution: Mapping[str, Any]
) -> None:
    (limits,) = prod.find_resources("AWS::WAFv2::WebACL")
    assert distribution["WebACLId"] == {"Fn::GetAtt": [limits, "Arn"]}
    assert distribution["IPV6Enabled"] is False  # anybody has more IPv6 addresses than a limit could count


def test_requests_are_passed_on_whole_and_their_answers_not_kept(distribution: Mapping[str, Any]) -> None:
    managed = {"caching disabled": "4135ea2d-6df8-44a3-9df3-4b5a84be39ad", "all but host": "b689b0a8"}
    passed_on = distribution["DefaultCacheBehavior"]
    assert passed_on["CachePolicyId"] == managed["caching disabled"]
    assert passed_on["OriginRequestPolicyId"].startswith(managed["all but host"])
    assert set(passed_on["AllowedMethods"]) >= {"GET", "POST", "PUT", "DELETE"}
    assert passed_on["ViewerProtocolPolicy"] == "https-only"


def test_one_client_is_never_given_the_failure_of_another(distribution: Mapping[str, Any]) -> None:
    """CloudFront keeps these for ten seconds otherwise, whatever the behaviour says about caching."""
    kept_for = {each["ErrorCode"]: each["ErrorCachingMinTTL"] for each in distribution["CustomErrorResponses"]}
    assert kept_for.keys() >= {404, 500, 503, 504}
    assert set(kept_for.values()) == {0}


def test_what_is_the_same_for_everybody_is_kept_without_anything_of_the_caller(
    distribution: Mapping[str, Any],
) -> None:
    (kept,) = distribution["CacheBehaviors"]
    assert kept["PathPattern"] == "/openapi.json"
    assert kept["CachePolicyId"] == "658327ea-f89d-4fab-a63d-7e88639e58f6"
    assert "OriginRequestPolicyId" not in kept


def test_the_api_is_told_by_a_secret_that_is_in_no_template(prod: Template, distribution: Mapping[str, Any]) -> None:
    (origin_of_all,) = distribution["Origins"]
    (header,) = origin_of_all["OriginCustomHeaders"]
    value = json.dumps(header["HeaderValue"])
    assert header["HeaderName"] == ORIGIN_HEADER == ORIGIN_HEADER_OF_API
    assert "{{resolve:secretsmanager:" in value
    assert ":clarion-prod-origin:SecretString:secret::}}" in value
    function = {"FunctionName": "clarion-prod-api"}
    settings = {"CLARION_ORIGIN_SECRET_ID": "clarion-prod-origin", "CLARION_SERVE_DOCS": "false"}
    prod.has_resource_properties(
        "AWS::Lambda::Function", {**function, "Environment": {"Variables": Match.object_like(settings)}}
    )
    assert origin_of_all["CustomOriginConfig"]["OriginProtocolPolicy"] == "https-only"
    assert origin_of_all["CustomOriginConfig"]["OriginReadTimeout"] > 29


def test_the_address_of_the_api_is_that_of_cloudfront(prod: Template, template_with: Callable[..., Template]) -> None:
    (name,) = prod.find_resources("AWS::CloudFront::Distribution")
    address = {"Fn::GetAtt": [name, "DomainName"]}
    prod.has_output("ApiUrl", {"Value": {"Fn::Join": ["", ["https://", address]]}})
    named = template_with(api=DOMAIN)
    named.has_output("ApiUrl", {"Value": "https://push.example.org"})
    named.has_output("ApiAddress", {"Value": address})
    certificate = {"AcmCertificateArn": CERTIFICATE, "MinimumProtocolVersion": "TLSv1.2_2021"}
    named.has_resource_properties(
        "AWS::CloudFront::Distribution",
        {"DistributionConfig": {"Aliases": ["push.example.org"], "ViewerCertificate": Match.object_like(certificate)}},
    )
    named.resource_count_is("AWS::ApiGatewayV2::DomainName", 0)


def test_while_clients_move_over_the_api_answers_both_ways_and_under_the_name_it_had(
    template_with: Callable[..., Template],
) -> None:
    moving = template_with(api={**DOMAIN, "per_address": {"requests_per_minute": 300, "around": True}})
    moving.resource_count_is("AWS::CloudFront::Distribution", 1)
    assert not only(moving, "AWS::ApiGatewayV2::Api").get("DisableExecuteApiEndpoint")
    assert only(moving, "AWS::ApiGatewayV2::DomainName")["DomainName"] == DOMAIN["domain"]
    functions = moving.find_resources("AWS::Lambda::Function").values()
    (variables,) = [
        each["Properties"]["Environment"]["Variables"]
        for each in functions
        if each["Properties"].get("FunctionName") == "clarion-prod-api"
    ]
    assert "CLARION_ORIGIN_SECRET_ID" not in variables


def test_only_production_has_it_for_it_costs_something_when_idle(template_of: Callable[[str], Template]) -> None:
    assert PROD.api.per_address
    for other in (DEV, EMULATOR):
        assert other.api.per_address is None
    for name in ("dev", "emulator"):
        for kind in ("AWS::CloudFront::Distribution", "AWS::WAFv2::WebACL"):
            template_of(name).resource_count_is(kind, 0)


def test_a_stack_elsewhere_can_not_have_it() -> None:
    with pytest.raises(ValidationError, match="us-east-1"):
        EnvironmentConfig.model_validate({**dict(PROD), "region": "eu-central-1"})
    EnvironmentConfig.model_validate({**dict(DEV), "region": "eu-central-1"})
