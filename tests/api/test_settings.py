import json
import os
import subprocess
import sys

import pytest
from pydantic import ValidationError

from api.settings import ApiSettings, AuthorizerSettings

API = {
    "CLARION_TABLE_PREFIX": "clarion-test-",
    "CLARION_EVENTS_STREAM": "lake",
    "CLARION_LATE_EVENTS_QUEUE_URL": "late-events",
    "CLARION_CLEANUP_QUEUE_URL": "https://sqs.example/cleanup",
    "CLARION_LAKE_BUCKET": "lake",
    "CLARION_PUSH_QUEUES": '{"apns": "https://sqs.example/apns"}',
    "CLARION_APPS": '{"apns": ["first"], "voip": ["first"], "fcm": ["first"], "webpush": ["first"]}',
}
DIRECT = {"apns_secret_id": "apns", "fcm_secret_id": "fcm", "bundle_id": "io.pcf.polkadotapp"}


def start(module: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    aws = {"AWS_DEFAULT_REGION": "us-east-1", "PATH": os.environ["PATH"]}
    command = [sys.executable, "-c", f"import {module}"]
    return subprocess.run(command, env=aws | environment, capture_output=True, text=True, timeout=600, check=False)


@pytest.mark.parametrize(
    ("module", "environment"),
    [
        ("api.handler", API),
        ("api.handler", API | {"CLARION_DIRECT_PUSH": json.dumps(DIRECT)}),
        ("api.handler", API | {"CLARION_LOGIN_SECRET_ID": "login", "CLARION_LOGIN_DOMAIN": "push.example.org"}),
        ("api.authorizer", {"CLARION_JWT_SECRET_ID": "jwt", "CLARION_JWT_AUDIENCE": "clarion"}),
    ],
)
def test_a_function_starts_with_what_it_needs(module: str, environment: dict[str, str]) -> None:
    started = start(module, environment)
    assert started.returncode == 0, started.stderr


def test_a_function_without_its_settings_does_not_start() -> None:
    started = start("api.handler", {"CLARION_TABLE_PREFIX": "clarion-test-"})
    assert started.returncode == 1
    assert "events_stream" in started.stderr


@pytest.mark.parametrize(
    "environment",
    [
        API | {"CLARION_SURPRISE": "1"},
        API | {"CLARION_BODY_BYTES": "0"},
        API | {"CLARION_TOKEN_PROOF": "sometimes"},
        API | {"CLARION_NETWORKS": '["carrier-pigeon"]'},
        API | {"CLARION_LOGIN_DOMAIN": "push.example.org"},
        API | {"CLARION_DIRECT_PUSH": json.dumps(DIRECT | {"surprise": 1})},
    ],
)
def test_settings_that_make_no_sense_stop_the_start(environment: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        ApiSettings.from_environment(environment)


def test_the_networks_that_are_served_are_listed_in_json() -> None:
    assert ApiSettings.from_environment(API).networks == ("statements",)
    assert ApiSettings.from_environment(API | {"CLARION_NETWORKS": "[]"}).networks == ()


@pytest.mark.parametrize("algorithm", ["HS256", "none", "ES512"])
def test_an_issuer_with_public_keys_may_use_only_these_algorithms(algorithm: str) -> None:
    issuer = {"issuer": "i", "audience": "a", "algorithms": [algorithm], "jwks_url": "https://i.example/jwks"}
    with pytest.raises(ValidationError):
        AuthorizerSettings.from_environment({"CLARION_ISSUERS": json.dumps([issuer])})
