"""AWS's command line says the same, whichever way it is started."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.warm_aws import serving

NOWHERE = {
    "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_MAX_ATTEMPTS": "1",
}
SCRIPTS = (
    "aws nonsense",
    "cd / && aws configure list",
    "echo said | aws secretsmanager put-secret-value --secret-id any --secret-string file:///dev/stdin",
    'AWS_DEFAULT_REGION= aws dynamodb describe-table --table-name "a b"',
)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with serving() as folder:
        yield folder


def ended(script: str, path: str, variables: Mapping[str, str]) -> tuple[int, str, str]:
    environment = {**os.environ, **variables, "PATH": path}
    run = subprocess.run(["/bin/bash", "-c", script], env=environment, capture_output=True, text=True, check=False)
    return run.returncode, run.stdout, run.stderr


@pytest.mark.parametrize("script", SCRIPTS)
def test_it_ends_and_prints_as_by_itself(script: str, folder: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

    assert ended(script, f"{folder}{os.pathsep}{path}", NOWHERE) == ended(script, path, NOWHERE)
