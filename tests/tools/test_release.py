"""`make release`, on a repository of its own: what it asks for, one after the other, and the tag at the end."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import release
from lock import out_of_date
from tests.tools import registry as stand_in
from tests.tools.registry import Registry

ROOT = Path(__file__).parents[2]
DOCKERFILE = "functions/ingest/Dockerfile"
VERSION = "0.1.0"
CHANGELOG = f"# Changelog\n\n## Unreleased\n\n## {VERSION} - 2026-11-23\n\n### Added\n- Everything.\n"
COMPONENTS = ("bench", "functions", "layers", "local", "pipeline")

type Change = Callable[[str], str]


@dataclass(frozen=True)
class Scratch:
    """A repository of what a release looks at, with a gate that passes."""

    folder: Path
    registry: Registry

    def git(self, *words: str) -> str:
        command = [shutil.which("git") or "git", *words]
        return subprocess.run(command, cwd=self.folder, check=True, capture_output=True, text=True).stdout

    def edit(self, name: str, change: Change) -> None:
        file = self.folder / name
        file.write_text(change(file.read_text()))

    def commit(self, name: str, change: Change) -> None:
        self.edit(name, change)
        self.git("commit", "--quiet", "--all", "--message", name)

    @property
    def tags(self) -> list[str]:
        return self.git("tag", "--list").split()


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    with stand_in.serving("amd64", "arm64") as registry:
        yield registry


@pytest.fixture
def scratch(tmp_path: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch) -> Scratch:
    copied = ["pyproject.toml", DOCKERFILE, *files("tools", "*.py"), *requirements()]
    for name in copied:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    gate = tmp_path / ".ci" / "run"
    gate.parent.mkdir()
    gate.write_text("#!/bin/sh\n")
    gate.chmod(0o755)
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    scratch = Scratch(tmp_path, registry)
    base = f"{registry.address}/{stand_in.BASE}:{stand_in.TAG}@{registry.digest}"
    scratch.edit("pyproject.toml", lambda text: re.sub(r'(?m)^version = ".*"$', f'version = "{VERSION}"', text))
    scratch.edit(DOCKERFILE, lambda text: re.sub("(?m)^FROM .*$", f"FROM {base}", text))
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "Clarion")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "clarion@example.org")
    for words in (("init", "--quiet"), ("add", "--all"), ("commit", "--quiet", "--message", "all")):
        scratch.git(*words)
    monkeypatch.setattr(release, "ROOT", tmp_path)
    return scratch


def requirements() -> Iterator[str]:
    """Every file of them."""
    yield from files(".", "requirements-*")
    for component in COMPONENTS:
        yield from files(component, "**/requirements*.*")


def files(folder: str, pattern: str) -> Iterator[str]:
    """By their paths in the repository."""
    return (str(path.relative_to(ROOT)) for path in (ROOT / folder).glob(pattern))


def refusal(capsys: pytest.CaptureFixture[str]) -> str:
    """The one line in which a release is refused."""
    assert release.main() == 1
    (line,) = capsys.readouterr().out.splitlines()
    said, _, why = line.partition(": ")
    assert said == "not released"
    return why


def test_what_has_all_that_a_release_needs_is_tagged_and_nothing_else_is_changed(scratch: Scratch) -> None:
    command = [sys.executable, "-B", "tools/release.py"]
    made = subprocess.run(command, cwd=scratch.folder, capture_output=True, text=True, check=True)
    assert made.stdout == f"released {VERSION}; publish it: git push origin v{VERSION}\n"
    assert scratch.tags == [f"v{VERSION}"]
    assert not scratch.git("status", "--porcelain")


@pytest.mark.parametrize(
    ("meanwhile", "reason"),
    [("touch left", "commit or remove left"), ("git commit --quiet --allow-empty -m later", "when the gate began")],
)
def test_what_changes_while_the_gate_runs_is_not_tagged(
    scratch: Scratch, capsys: pytest.CaptureFixture[str], meanwhile: str, reason: str
) -> None:
    scratch.commit(".ci/run", lambda text: f"{text}{meanwhile}\n")

    assert reason in refusal(capsys)
    assert scratch.tags == []


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("CHANGELOG.md", lambda text: text.replace(VERSION, "0.0.9"), f'no section "## {VERSION} - YYYY-MM-DD"'),
        ("CHANGELOG.md", lambda text: text.replace("Unreleased\n", "Unreleased\n- More.\n"), "move them to 0.1.0"),
        ("pipeline/requirements.in", lambda text: f"{text}flask\n", "pipeline/requirements.txt does not follow"),
        (".ci/run", lambda text: f"{text}exit 3\n", "the gate has failed"),
        (DOCKERFILE, lambda text: text.replace(stand_in.TAG, "3.99"), "the registry answers 404"),
        (DOCKERFILE, lambda text: re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:1", text), "127.0.0.1:1: ConnectError"),
    ],
)
def test_what_is_missing_is_said_in_one_line(
    scratch: Scratch, capsys: pytest.CaptureFixture[str], name: str, change: Change, reason: str
) -> None:
    scratch.commit(name, change)
    assert reason in refusal(capsys)
    assert not scratch.tags


def test_a_tree_with_changes_is_not_released(scratch: Scratch, capsys: pytest.CaptureFixture[str]) -> None:
    (scratch.folder / "new.py").touch()
    assert refusal(capsys) == "commit or remove new.py, and whatever else `git status` shows"


@pytest.mark.parametrize("tag", [f"v{VERSION}", "v0.10.0"])
def test_a_version_is_later_than_each_that_is_tagged(
    scratch: Scratch, capsys: pytest.CaptureFixture[str], tag: str
) -> None:
    scratch.git("tag", tag)
    assert refusal(capsys) == f"{tag} is tagged: raise the version in pyproject.toml, which is {VERSION}"


@pytest.mark.parametrize("pinned", ["", f"@sha256:{'0' * 64}"])
def test_the_base_is_pinned_to_what_the_registry_has_now(
    scratch: Scratch, capsys: pytest.CaptureFixture[str], pinned: str
) -> None:
    digest = scratch.registry.digest
    scratch.commit(DOCKERFILE, lambda text: text.replace(f"@{digest}", pinned))
    assert refusal(capsys) == f"{DOCKERFILE} is now pinned to {digest}: commit that, and run this again"
    scratch.commit(DOCKERFILE, str)
    assert release.main() == 0


def test_a_base_without_an_image_for_the_task_is_refused(scratch: Scratch, capsys: pytest.CaptureFixture[str]) -> None:
    with stand_in.serving("amd64") as other:
        scratch.commit(DOCKERFILE, lambda text: text.replace(scratch.registry.address, other.address))
        assert refusal(capsys).endswith("has no image for linux/arm64")


@pytest.mark.parametrize(
    ("name", "change", "flaw"),
    [
        (
            "requirements-dev.in",
            lambda text: f"{text}flask\n",
            "requirements-dev.txt does not follow requirements-dev.in in flask",
        ),
        (
            "layers/vendor/requirements.in",
            lambda text: text.replace("pynamodb\n", ""),
            "layers/vendor/requirements.txt does not follow layers/vendor/requirements.in in pynamodb",
        ),
        (
            "requirements-tools.in",
            lambda _: "uv<0.1\n",
            r"requirements-tools.txt has uv [\d.]+, which requirements-tools.in excludes",
        ),
        (
            "pipeline/requirements.txt",
            lambda text: re.sub("(?m)^boto3==[^ ]+", "boto3==1.0", text),
            r"pipeline/requirements.txt has boto3 1.0, requirements-dev.txt [\d.]+",
        ),
    ],
)
def test_a_lock_that_does_not_follow_its_requirements_is_found(
    scratch: Scratch, name: str, change: Change, flaw: str
) -> None:
    assert not list(out_of_date(scratch.folder))
    scratch.edit(name, change)
    assert any(re.fullmatch(flaw, found) for found in out_of_date(scratch.folder))
