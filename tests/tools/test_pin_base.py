"""`make pin-base`, and that what keeps its data is deployed upon a base that is pinned."""

from pathlib import Path

import pin_base
import pytest

from base_image import Image
from infra.image import DOCKERFILE
from tests.tools import registry as stand_in


@pytest.fixture
def dockerfile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy, for it is changed."""
    copy = tmp_path / DOCKERFILE
    copy.parent.mkdir(parents=True)
    for module in ("pin_base.ROOT", "infra.image.ROOT"):
        monkeypatch.setattr(module, tmp_path)
    return copy


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr("sys.argv", ["pin_base.py", *words])
    return pin_base.main()


def test_the_tag_s_digest_is_written_once(dockerfile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with stand_in.serving("amd64", "arm64") as registry:
        dockerfile.write_text(f"FROM {registry.address}/{stand_in.BASE}:{stand_in.TAG}\n")
        assert run(monkeypatch) == 0
        assert Image.read(dockerfile.read_text()).digest == registry.digest
        assert run(monkeypatch) == 0


@pytest.mark.parametrize(
    ("environment", "reference", "code"),
    [
        ("prod", "registry.example.org/python:3", 1),
        ("prod", f"registry.example.org/python:3@sha256:{'0' * 64}", 0),
        ("dev", "registry.example.org/python:3", 0),
    ],
)
def test_what_keeps_its_data_is_not_deployed_upon_a_tag(
    dockerfile: Path, monkeypatch: pytest.MonkeyPatch, environment: str, reference: str, code: int
) -> None:
    dockerfile.write_text(f"FROM {reference}\n")
    assert run(monkeypatch, environment) == code
