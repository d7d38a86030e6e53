import os
import subprocess
import sys

import pytest
from pydantic import ValidationError

from api.networks.xmtp.settings import XmtpSettings
from clarion.networks.settings import ClientRouterSettings, RouterSettings

ENVIRONMENT = {
    "CLARION_NETWORK": "xmtp",
    "CLARION_TABLE_PREFIX": "clarion-test-",
    "CLARION_EVENTS_STREAM": "lake",
    "CLARION_LATE_EVENTS_QUEUE_URL": "late-events",
    "CLARION_CLEANUP_QUEUE_URL": "https://sqs.example/cleanup",
    "CLARION_APPS": '{"apns": ["first"], "fcm": ["first", "robot"]}',
    "CLARION_FIRST_APP": "first",
    "CLARION_PUSH_QUEUES": '{"apns": "https://sqs.example/apns"}',
}


def start(environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    aws = {"AWS_DEFAULT_REGION": "us-east-1", "PATH": os.environ["PATH"]}
    command = [sys.executable, "-c", "import api.networks.xmtp.handler as started; print(started.WORKER.service)"]
    return subprocess.run(command, env=aws | environment, capture_output=True, text=True, timeout=600, check=False)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"CLARION_ENVIRONMENT": "sandbox"},
        {"CLARION_ORIGIN_SECRET_ID": "origin", "CLARION_REQUESTS_PER_TEN_SECONDS": "5"},
    ],
)
def test_the_router_starts_with_what_it_needs(more: dict[str, str]) -> None:
    started = start(ENVIRONMENT | more)
    assert started.returncode == 0, started.stderr
    # Its metrics are the network's own: see `clarion.networks.needs.AlarmNeed`.
    assert started.stdout == "xmtp\n"


@pytest.mark.parametrize(
    "missing", ["EVENTS_STREAM", "LATE_EVENTS_QUEUE_URL", "CLEANUP_QUEUE_URL", "APPS", "FIRST_APP"]
)
def test_the_router_does_not_start_without(missing: str) -> None:
    some = {name: value for name, value in ENVIRONMENT.items() if name != f"CLARION_{missing}"}
    with pytest.raises(ValidationError, match=missing.lower()):
        XmtpSettings.from_environment(some)


def test_a_router_without_routes_for_clients_needs_no_app() -> None:
    own = {"CLARION_NETWORK": "toy", "CLARION_TABLE_PREFIX": "clarion-test-"}
    assert RouterSettings.model_fields.keys() & {"apps", "first_app", "environment"} == set()
    assert RouterSettings.from_environment(own).network == "toy"
    with pytest.raises(ValidationError, match="first_app"):
        ClientRouterSettings.from_environment(own | {"CLARION_APPS": '{"apns": ["first"]}'})
