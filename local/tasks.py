"""The tasks that ECS would run, as processes of this machine."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from clarion.settings import PREFIX
from infra.image import STOP_SECONDS
from local.emulator import ROOT, Emulator
from local.leash import leashed


@contextmanager
def running_task(module: str, log: Path, variables: Mapping[str, str]) -> Iterator[None]:
    """`python -m module`, with as much time to stop as ECS gives."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    with log.open("wb") as file:
        command = leashed(STOP_SECONDS, sys.executable, "-m", module)
        task = subprocess.Popen(
            command, cwd=ROOT, env={**ours, **variables}, stdin=subprocess.PIPE, stdout=file, stderr=file
        )
        try:
            yield
        finally:
            task.communicate()  # closes standard input, which ends the leash


def as_role(emulator: Emulator, role_arn: str) -> dict[str, str]:
    """Environment variables by which an AWS SDK assumes a role at the emulator; without one, everything is allowed.

    A version before this one has no role for ingest.
    """
    variables = dict(emulator.variables)
    if role_arn:
        keys = [f"{name.lower()} = {variables.pop(name)}" for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")]
        role = f"role_arn = {role_arn}", "source_profile = everything"
        config = emulator.folder / f"{role_arn.rpartition('/')[2]}.aws"
        config.write_text("\n".join(("[profile everything]", *keys, "[profile role]", *role, "")))
        variables |= {"AWS_CONFIG_FILE": str(config), "AWS_PROFILE": "role"}
    return variables
