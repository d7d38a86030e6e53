import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from api.app import handle
from api.authorization import Authorizer
from api.worker import ApiWorker
from local.gateway import Gateway

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

HERE = Path(__file__).parent


@pytest.fixture
def gateway(authorizer: Authorizer, pushing: Callable[..., ApiWorker]) -> Iterator[Gateway]:
    """With direct push on, so that it meets more than the 403."""
    worker = pushing(pushes_per_minute=10_000)
    with Gateway(authorizer, lambda event: handle(event, cast("LambdaContext", None), worker)) as running:
        yield running


def test_schemathesis_finds_nothing(
    gateway: Gateway, providers: Any, new_client: Callable[[], Any], register: Callable[..., str], tmp_path: Path
) -> None:
    client = new_client()
    options = [
        "run",
        f"{gateway.url}/openapi.json",
        "--checks=all",
        "--max-examples=10",
        "--seed=1",
        "--generation-deterministic",
        "--phases=coverage,fuzzing",
        "--no-color",
        f"--header=Authorization: {client.headers['authorization']}",
    ]
    known = {"SUBSCRIPTION_ID": register(client)}
    ran = subprocess.run(
        [sys.executable, "-m", "schemathesis.cli", *options],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"SCHEMATHESIS_HOOKS": "schemathesis_hooks", "PYTHONPATH": str(HERE)} | known,
    )
    assert ran.returncode == 0, ran.stdout[-20_000:] + ran.stderr
    assert providers.production.received.count
    assert providers.fcm.received.count
