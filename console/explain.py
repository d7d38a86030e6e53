"""`clarion-pipeline explain`, run as a command of its own: it has the lake's Parquet, and packages that the console lacks."""

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from console.deployment import Deployment
from console.output import print_error

COMMAND = "CLARION_PIPELINE"
"""The environment variable that says where the command is, if it isn't in the project's own environment for Spark."""
OWN = Path(__file__).parents[1] / ".venv-pipeline" / "bin" / "clarion-pipeline"
NAME = "clarion-pipeline"
ANSWERED = {0, 3}
"""What the command ends with where it knows of it: all of it, or what is left in a damaged lake, and its answer says so."""


def words(here: Deployment, envelope_id: bytes, client: bytes | None, until: datetime) -> list[str]:
    """The command's arguments. It looks back as far as it does by itself, which is further than the console."""
    places = ["--lake", f"s3://{here.lake}"]
    if oversize := here.outputs.get("OversizeBucket"):
        places += ["--oversize", f"s3://{oversize}"]
    asked = [*places, "--to", until.isoformat(timespec="seconds")]
    return ["explain", envelope_id.hex(), *asked, *(["--client", client.hex()] if client else [])]


def run(here: Deployment, arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> str | None:
    """What the command prints; None if it isn't installed, or knows nothing. Its own complaints go to standard error."""
    program = Path(environment.get(COMMAND, OWN))
    if not program.exists():
        return None
    print_error(f"» {shown(arguments)}")
    variables = {**environment, "AWS_DEFAULT_REGION": here.region}
    ended = subprocess.run([program, *arguments], env=variables, stdout=subprocess.PIPE, text=True, check=False)
    return ended.stdout if ended.returncode in ANSWERED else None


def shown(arguments: Sequence[str]) -> str:
    """The command as an operator types it, without the id: as long as nobody knows it, it may be a push token."""
    job, _, *options = arguments
    return shlex.join([NAME, job, "ENVELOPE", *options])
