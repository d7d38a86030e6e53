"""What browsers ask before a page's request: API Gateway adds the words, the function's is the status."""

from dataclasses import replace
from typing import Any, cast
from uuid import uuid4

import boto3

from api.app import PREFLIGHT, handle
from api.worker import ApiWorker
from clarion.secrets import OriginSecret, Secret


def asked(worker: ApiWorker, **headers: str) -> dict[str, Any]:
    event = {"routeKey": PREFLIGHT, "rawPath": "/v1/subscriptions", "headers": headers, "requestContext": {}}
    return handle(event, cast("Any", None), worker)


def test_a_preflight_is_answered_to_whoever_asks(worker: ApiWorker) -> None:
    assert asked(worker, origin="https://app.example.org") == {"statusCode": 204}


def test_around_cloudfront_not_even_that(worker: ApiWorker) -> None:
    secrets = boto3.client("secretsmanager")
    name = secrets.create_secret(
        Name=f"origin-{uuid4()}",
        SecretString='{"secret": "known to CloudFront and to the API, and to nobody else at all"}',
    )["Name"]
    fronted = replace(worker, origin=Secret(secrets, name, OriginSecret))
    assert asked(fronted, origin="https://app.example.org")["statusCode"] == 404


def test_options_elsewhere_are_a_request_like_any_other(client: Any) -> None:
    assert client("OPTIONS", "/nowhere").status == 404
