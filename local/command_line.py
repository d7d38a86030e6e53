"""The operator's command line, against a deployment in the emulator."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from local.emulator import Emulator

PATIENCE_S = 300.0


def operate(emulator: Emulator, *words: str) -> Mapping[str, Any]:
    """What `clarion …` prints as JSON."""
    command = [str(Path(sys.executable).with_name("clarion")), *words, "--json"]
    variables = {**os.environ, **emulator.variables}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    printed: Mapping[str, Any] = json.loads(done.stdout)
    return printed
