"""Behind CloudFront, what comes around it is refused before anything else is looked at."""

import json
from dataclasses import replace
from typing import Any
from uuid import uuid4

import boto3
import pytest

from api.requests import ORIGIN_HEADER as HEADER
from api.requests import source_address
from clarion.secrets import OriginSecret, Secret

VALUE = "what CloudFront and the API alone know, of 64 letters in a real deployment"
PATHS = ("/openapi.json", "/docs", "/v1/subscriptions", "/v1/auth/challenges", "/nowhere")


@pytest.fixture
def fronted(client: Any) -> Any:
    """A client of an API behind CloudFront."""
    secrets = boto3.client("secretsmanager")
    name = secrets.create_secret(Name=f"origin-{uuid4()}", SecretString=json.dumps({"secret": VALUE}))["Name"]
    client.worker = replace(client.worker, origin=Secret(secrets, name, OriginSecret))
    return client


def test_while_a_secret_is_replaced_the_one_before_is_good_too(client: Any) -> None:
    """CloudFront takes minutes until all of it sends another."""
    secrets = boto3.client("secretsmanager")
    text = json.dumps({"secret": VALUE[::-1], "previous": VALUE})
    name = secrets.create_secret(Name=f"origin-{uuid4()}", SecretString=text)["Name"]
    client.worker = replace(client.worker, origin=Secret(secrets, name, OriginSecret))

    statuses = [client("GET", "/openapi.json", **{HEADER: sent}).status for sent in (VALUE, VALUE[::-1], VALUE[1:])]

    assert statuses == [200, 200, 404]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("forged", [{}, {HEADER: ""}, {HEADER: VALUE[:-1]}, {HEADER: "é"}], ids=str)
def test_around_cloudfront_there_is_nothing(fronted: Any, path: str, forged: dict[str, str]) -> None:
    answer = fronted("GET", path, **forged)
    assert (answer.status, answer.json["type"]) == (404, "urn:clarion:problem:no-route")


def test_by_way_of_cloudfront_all_is_as_ever(fronted: Any) -> None:
    assert fronted("GET", "/openapi.json", **{HEADER: VALUE}).status == 200
    assert fronted("GET", "/v1/subscriptions", **{HEADER: VALUE}).status == 200


def test_while_the_secret_can_not_be_read_nobody_is_let_in(client: Any) -> None:
    client.worker = replace(client.worker, origin=Secret(boto3.client("secretsmanager"), "nowhere", OriginSecret))
    answer = client("GET", "/openapi.json", **{HEADER: VALUE})
    assert (answer.status, answer.json["type"]) == (503, "urn:clarion:problem:unavailable")


@pytest.mark.parametrize(
    ("forwarded", "address"),
    [
        ("192.0.2.9, 198.51.100.7", "192.0.2.9"),
        ("203.0.113.1, 192.0.2.9, 198.51.100.7", "192.0.2.9"),
        ("203.0.113.1, 192.0.2.9", "192.0.2.9"),
        ("198.51.100.7", "198.51.100.7"),
        ("", "198.51.100.7"),
    ],
)
def test_behind_cloudfront_a_request_comes_from_its_viewer_whatever_that_says(forwarded: str, address: str) -> None:
    event = {"headers": {"x-forwarded-for": forwarded}, "requestContext": {"http": {"sourceIp": "198.51.100.7"}}}
    assert source_address(event, behind_cloudfront=True) == address
    assert source_address(event, behind_cloudfront=False) == "198.51.100.7"
