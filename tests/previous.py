"""The version before this one, taken from git, for tests of what passes between the two."""

import os
import shutil
import subprocess
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DEPLOYED = ("functions", "layers", "infra")
"""What a new version differs in."""


def unpack(folder: Path, *paths: str) -> Path:
    """Fill `folder` with that version, or with some paths of it. Skip the test where there is no history."""
    try:
        archive = _git("archive", _revision(), *paths)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no history to take the version before this one from: {error.stderr.decode().strip()}")
    with tarfile.open(fileobj=BytesIO(archive)) as tree:
        tree.extractall(folder, filter="data")
    return folder


def _revision() -> str:
    """The one that `CLARION_PREVIOUS` names, or else the parent of the last commit that changed what is deployed."""
    if chosen := os.environ.get("CLARION_PREVIOUS"):
        return chosen
    changed = _git("rev-list", "--first-parent", "-1", "HEAD", "--", *DEPLOYED)
    return f"{changed.decode().strip() or 'HEAD'}^1"


def _git(*words: str) -> bytes:
    git = shutil.which("git")
    if git is None:
        pytest.skip("there is no git to take the version before this one from")
    return subprocess.run([git, *words], cwd=ROOT, capture_output=True, check=True).stdout
