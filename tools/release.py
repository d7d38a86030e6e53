"""Tag this commit as the version that pyproject.toml names, if all that a release needs is there.

The checks stand in the order of what they take: the gate, which is the longest, comes last. Whatever is missing ends it
with one line that says what to do. Nothing is pushed.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from packaging.version import Version

from base_image import RegistryError, pin
from infra.image import DOCKERFILE
from lock import out_of_date

ROOT = Path(__file__).resolve().parents[1]
CHANGELOG = "CHANGELOG.md"
UNRELEASED = "Unreleased"


class NotReleasableError(Exception):
    """The text is the one line."""


def main() -> int:
    try:
        version = release()
    except (NotReleasableError, RegistryError) as refusal:
        print(f"not released: {refusal}")
        return 1
    print(f"released {version}; publish it: git push origin v{version}")
    return 0


def release() -> Version:
    version = Version(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])
    check_tree()
    check_tags(version)
    check_changelog(version)
    check_locks()
    check_base()
    commit = git("rev-parse", "HEAD")
    check_gate()
    check_unmoved(commit)
    git("tag", "--annotate", f"v{version}", "--message", f"Clarion {version}", commit)
    return version


def check_tree() -> None:
    if changed := git("status", "--porcelain"):
        raise NotReleasableError(f"commit or remove {changed.split()[1]}, and whatever else `git status` shows")


def check_unmoved(commit: str) -> None:
    """What is tagged is what the gate has seen."""
    check_tree()
    if git("rev-parse", "HEAD") != commit:
        raise NotReleasableError(f"HEAD was {commit} when the gate began: run this again")


def check_tags(version: Version) -> None:
    tagged = [Version(tag.removeprefix("v")) for tag in git("tag", "--list", "v*").split()]
    if tagged and version <= max(tagged):
        raise NotReleasableError(f"v{max(tagged)} is tagged: raise the version in pyproject.toml, which is {version}")


def check_changelog(version: Version) -> None:
    sections = dict(re.findall(r"^## (.+)\n((?:(?!## ).*\n?)*)", (ROOT / CHANGELOG).read_text(), re.MULTILINE))
    if sections.get(UNRELEASED, "").strip():
        raise NotReleasableError(f'{CHANGELOG} still has changes under "{UNRELEASED}": move them to {version}')
    if not any(re.fullmatch(rf"{re.escape(str(version))} - \d{{4}}-\d\d-\d\d", title) for title in sections):
        raise NotReleasableError(f'{CHANGELOG} has no section "## {version} - YYYY-MM-DD"')


def check_locks() -> None:
    if wrong := next(out_of_date(ROOT), None):
        raise NotReleasableError(f"{wrong}: run `make lock`, and commit what it changes")


def check_base() -> None:
    """The digest goes into the Dockerfile, so that what is built is what the gate has seen committed."""
    if digest := pin(ROOT / DOCKERFILE):
        raise NotReleasableError(f"{DOCKERFILE} is now pinned to {digest}: commit that, and run this again")


def check_gate() -> None:
    if subprocess.run([ROOT / ".ci" / "run"], cwd=ROOT, check=False).returncode:
        raise NotReleasableError("the gate has failed: mend what it says above")


def git(*words: str) -> str:
    command = ["git", *words]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
