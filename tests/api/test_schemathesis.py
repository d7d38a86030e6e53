import os
import subprocess
import sys
from collections.abc import Callable

from local.gateway import Gateway


def test_schemathesis_finds_nothing(gateway: Gateway, new_token: Callable[..., str], tmp_path: object) -> None:
    words = [
        "run",
        f"{gateway.url}/openapi.json",
        "--checks=all",
        "--max-examples=10",
        "--seed=1",
        "--generation-deterministic",
        "--phases=coverage,fuzzing",
        "--no-color",
        f"--header=Authorization: Bearer {new_token()}",
    ]
    ran = subprocess.run(
        [sys.executable, "-m", "schemathesis.cli", *words],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        cwd=str(tmp_path),
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST")},
    )
    assert ran.returncode == 0, ran.stdout[-20_000:] + ran.stderr
