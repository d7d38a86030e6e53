"""The version before this one, taken from git, for tests of what passes between the two.

What a test is about has changed since: commits that changed only other things are passed over, or the test would
compare a version with itself.
"""

import os
import shutil
import subprocess
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FUNCTIONS = (
    "functions",
    ":(exclude)functions/ingest",
    ":(exclude)functions/ntf",
    "layers/core",
    "layers/vendor/requirements.txt",
)
"""What the functions that are deployed consist of."""
WRITTEN = ("layers/core/clarion/messages.py", "layers/core/clarion/tables.py")
"""What is written for another version to read."""
SHAPES = 7
"""To be raised with a change that the version before can't read. Nothing is compared across it, until 1.0."""
STACKS = 4
"""To be raised with a change that can't be deployed over the version before. No upgrade across it is tried, until 1.0."""


def unpack(folder: Path, *paths: str, changed: tuple[str, ...], deployed: bool = False) -> Path:
    """Fill `folder` with the version before the last change of `changed`, or with some paths of that version.

    Skip the test where there is no history, and where messages, rows or events have changed their shapes since; if it is
    to be `deployed` over, also where the stacks are others.
    """
    try:
        revision = _revision(changed)
        then = _git("show", f"{revision}:tests/previous.py").decode().splitlines()
        if f"SHAPES = {SHAPES}" not in then:
            pytest.skip("messages, rows or events have other shapes than in the version before")
        if deployed and f"STACKS = {STACKS}" not in then:
            pytest.skip("the stacks are others than in the version before")
        archive = _git("archive", revision, *paths)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no history to take the version before this one from: {error.stderr.decode().strip()}")
    with tarfile.open(fileobj=BytesIO(archive)) as tree:
        tree.extractall(folder, filter="data")
    return folder


def _revision(changed: tuple[str, ...]) -> str:
    """The one that `CLARION_PREVIOUS` names, or else the parent, by merges the first, of the last that changed them."""
    if chosen := os.environ.get("CLARION_PREVIOUS"):
        return chosen
    last = _git("rev-list", "--first-parent", "-1", "HEAD", "--", *changed)
    return f"{last.decode().strip() or 'HEAD'}^1"


def _git(*words: str) -> bytes:
    git = shutil.which("git")
    if git is None:
        pytest.skip("there is no git to take the version before this one from")
    return subprocess.run([git, *words], cwd=ROOT, capture_output=True, check=True).stdout
