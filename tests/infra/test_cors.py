"""Which web pages may call the API."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from aws_cdk.assertions import Template

from api.app import PREFLIGHT
from tests.infra.templates import properties

ORIGINS = ["https://app.example.org", "https://App.example.org:8443", "http://localhost:8080/"]
SIMPLE_CORS = "60669652-455b-4ae9-85a4-c4c02393f86c"
"""https://docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/using-managed-response-headers-policies.html"""


@pytest.fixture(scope="module")
def template(template_with: Callable[..., Template]) -> Template:
    return template_with(api={"origins": ORIGINS})


def behaviours(template: Template) -> Mapping[str, Any]:
    (distribution,) = properties(template, "AWS::CloudFront::Distribution")
    config: Mapping[str, Any] = distribution["DistributionConfig"]
    return config


def test_pages_of_the_origins_named_may_make_every_request_that_the_api_takes(template: Template) -> None:
    (api,) = properties(template, "AWS::ApiGatewayV2::Api")
    assert api["CorsConfiguration"] == {
        "AllowOrigins": ["https://app.example.org", "https://app.example.org:8443", "http://localhost:8080"],
        "AllowMethods": ["DELETE", "GET", "PATCH", "POST", "PUT"],
        "AllowHeaders": ["authorization", "content-type"],
        "ExposeHeaders": ["link", "retry-after"],
        "MaxAge": 3600,
    }


def test_a_preflight_needs_no_token_and_has_a_share_of_its_own(template: Template) -> None:
    routes = {each["RouteKey"]: each for each in properties(template, "AWS::ApiGatewayV2::Route")}
    assert routes[PREFLIGHT]["AuthorizationType"] == "NONE"
    (stage,) = properties(template, "AWS::ApiGatewayV2::Stage")
    assert PREFLIGHT in stage["RouteSettings"]


def test_cloudfront_passes_preflights_on_with_their_headers(template: Template) -> None:
    all_but_host = "b689b0a8-53d0-40ab-baf2-68738e2966ac"
    passed_on = behaviours(template)["DefaultCacheBehavior"]
    assert "OPTIONS" in passed_on["AllowedMethods"]
    assert passed_on["OriginRequestPolicyId"] == all_but_host


def test_what_cloudfront_keeps_may_be_read_by_any_page(template: Template) -> None:
    (kept,) = behaviours(template)["CacheBehaviors"]
    assert kept["ResponseHeadersPolicyId"] == SIMPLE_CORS


def test_where_no_origin_is_named_no_page_may_call_the_api(prod: Template) -> None:
    (api,) = properties(prod, "AWS::ApiGatewayV2::Api")
    assert "CorsConfiguration" not in api
    assert PREFLIGHT not in {each["RouteKey"] for each in properties(prod, "AWS::ApiGatewayV2::Route")}
    (kept,) = behaviours(prod)["CacheBehaviors"]
    assert "ResponseHeadersPolicyId" not in kept
