import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pytest

from api.app import handle
from api.authorization import Authorizer
from api.refusals import UUID_TEXT
from api.worker import ApiWorker
from local.gateway import Gateway
from tests.api.proving import Inbox, new_token, register
from tests.codes import code_of

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

HERE = Path(__file__).parent


class Known(NamedTuple):
    """What schemathesis is given: the client's header, and for the hooks what there is of the client's."""

    authorization: str
    variables: dict[str, str]


ENTERED = {
    ("POST", "/v1/subscriptions", 201),
    ("DELETE", "/v1/subscriptions", 204),
    ("PUT", "/v1/subscriptions/{subscription_id}/token", 200),
    ("PUT", "/v1/subscriptions/{subscription_id}/token", 409),
    ("POST", "/v1/subscriptions/{subscription_id}/proof", 200),
    ("POST", "/v1/subscriptions/{subscription_id}/proof", 403),
    ("POST", "/v1/subscriptions/{subscription_id}/proof/request", 202),
    ("GET", "/v1/subscriptions/{subscription_id}/deliveries", 200),
}
"""Answers that nothing but a request which gets past the refusals is given."""


@pytest.fixture
def answered() -> Counter[tuple[str, str, int]]:
    """How many requests got an answer: method, path and status."""
    return Counter()


@pytest.fixture
def gateway(
    authorizer: Authorizer, pushing: Callable[..., ApiWorker], answered: Counter[tuple[str, str, int]]
) -> Iterator[Gateway]:
    """With direct push on and large allowances, so that it meets more than the refusals."""
    worker = pushing(pushes_per_minute=10_000)
    settings = worker.settings.model_copy(update={"looks_per_minute": 10_000, "subscriptions_per_client": 1_000})
    generous = replace(worker, settings=settings)

    def answer(event: Any) -> dict[str, Any]:
        found = handle(event, cast("LambdaContext", None), generous)
        path = UUID_TEXT.sub("/{subscription_id}", event["rawPath"])
        answered[event["requestContext"]["http"]["method"], path, int(found["statusCode"])] += 1
        return found

    with Gateway(authorizer, answer) as running:
        yield running


@pytest.fixture
def known(new_client: Callable[[], Any], inbox: Inbox) -> Known:
    """A client with a subscription in each state that a request may need."""
    client, holder = new_client(), new_client()
    pending = []
    for _ in range(2):
        token = new_token()
        register(holder, token)
        pending.append(register(client, token)["subscription_id"])
    codes = {str(push.subscription_id): code_of(push) for push in inbox.pushes()}
    register(client, "0" * 64)
    active, *removable = (register(client, new_token())["subscription_id"] for _ in range(10))
    return Known(
        client.headers["authorization"],
        {
            "SUBSCRIPTION_ID": active,
            "PENDING_ID": pending[0],
            "PROVABLE_ID": pending[1],
            "CODE": codes[pending[1]],
            "REMOVABLE_IDS": ",".join(removable),
        },
    )


def test_schemathesis_finds_nothing(
    gateway: Gateway, providers: Any, known: Known, answered: Counter[tuple[str, str, int]], tmp_path: Path
) -> None:
    options = [
        f"--config-file={HERE / 'schemathesis.toml'}",
        "run",
        f"{gateway.url}/openapi.json",
        "--checks=all",
        "--max-examples=10",
        "--seed=1",
        "--generation-deterministic",
        "--suppress-health-check=too_slow",
        "--request-timeout=120",
        "--phases=coverage,fuzzing",
        "--no-color",
        f"--header=Authorization: {known.authorization}",
    ]
    variables = {"SCHEMATHESIS_HOOKS": "schemathesis_hooks", "PYTHONPATH": str(HERE), "PYTHONHASHSEED": "0"}
    ran = subprocess.run(
        [sys.executable, "-m", "schemathesis.cli", *options],
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
        cwd=tmp_path,
        env=os.environ | variables | known.variables,
    )
    assert ran.returncode == 0, ran.stdout[-20_000:] + ran.stderr
    assert providers.production.received.count
    assert providers.fcm.received.count
    assert answered.keys() >= ENTERED, sorted(ENTERED - answered.keys())
