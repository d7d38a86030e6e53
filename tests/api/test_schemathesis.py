import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from local.gateway import Gateway

HERE = Path(__file__).parent


def test_schemathesis_finds_nothing(
    gateway: Gateway, new_client: Callable[[], Any], register: Callable[..., str], tmp_path: Path
) -> None:
    client = new_client()
    words = [
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
        [sys.executable, "-m", "schemathesis.cli", *words],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"SCHEMATHESIS_HOOKS": "schemathesis_hooks", "PYTHONPATH": str(HERE)} | known,
    )
    assert ran.returncode == 0, ran.stdout[-20_000:] + ran.stderr
