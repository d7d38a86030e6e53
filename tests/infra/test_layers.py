import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib.util import cache_from_source
from pathlib import Path

import pytest
from aws_cdk import App, Stack
from aws_cdk.assertions import Template

from infra.archives import CORE
from infra.config import Platform
from infra.functions import FUNCTIONS, code_archive
from infra.layers import Layers, core_archive, vendor_archive


def files_of(root: Path, inside: str) -> Iterator[str]:
    """All below `root`, by their names under `inside`, and the bytecode of each module."""
    for path in root.rglob("*.*"):
        if path.suffix != ".pyc":
            yield (name := f"{inside}{path.relative_to(root)}")
            if path.suffix == ".py":
                yield cache_from_source(name)


def test_the_core_layer_holds_the_shared_library_with_bytecode_and_nothing_else() -> None:
    with zipfile.ZipFile(core_archive()) as archive:
        names = set(archive.namelist())
    assert "python/clarion/decisions.py" in names
    assert names == set(files_of(CORE, "python/clarion/"))


def test_a_functions_code_is_its_own_package_with_bytecode_and_nothing_else() -> None:
    with zipfile.ZipFile(code_archive("match")) as archive:
        names = set(archive.namelist())
    assert "match/handler.py" in names
    assert names == set(files_of(FUNCTIONS / "match", "match/"))


def test_bytecode_is_used_whatever_date_its_source_has(tmp_path: Path) -> None:
    with zipfile.ZipFile(code_archive("match")) as archive:
        archive.extractall(tmp_path)
    (tmp_path / "match" / "failures.py").write_text("raise RuntimeError('compiled anew')")
    where = "import match.failures; print(match.failures.__file__)"
    done = subprocess.run([sys.executable, "-c", where], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(tmp_path / "match" / "failures.py")


def test_the_vendor_layer_for_aws_holds_arm_libraries_with_bytecode_and_no_sdk() -> None:
    with zipfile.ZipFile(vendor_archive(Platform.ARM64)) as archive:
        names = archive.namelist()
    libraries = [name for name in names if ".cpython-313" in name and name.endswith(".so")]
    assert libraries
    assert all(name.endswith("aarch64-linux-gnu.so") for name in libraries)
    assert "python/pydantic/__pycache__/main.cpython-313.pyc" in names
    assert not [name for name in names if name.startswith(("python/boto3/", "python/botocore/"))]


def test_a_layer_is_built_once() -> None:
    first = vendor_archive(Platform.HOST)
    built = first.stat().st_mtime_ns
    assert vendor_archive(Platform.HOST) == first
    assert first.stat().st_mtime_ns == built


def test_layers_fit_into_what_lambda_unpacks() -> None:
    archives = (core_archive(), vendor_archive(Platform.ARM64))
    sizes = [sum(entry.file_size for entry in zipfile.ZipFile(path).infolist()) for path in archives]
    assert sum(sizes) < 150 * 2**20  # of the 250 MiB that code and layers may have together


def test_an_archive_that_was_changed_where_it_is_kept_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So `make diff` shows it, and it doesn't pass for what was deployed before."""
    kept, keys = tmp_path / "kept.zip", set[str]()
    monkeypatch.setattr("infra.layers.core_archive", lambda: kept)
    monkeypatch.setattr("infra.layers.vendor_archive", lambda _: kept)
    for content in (b"as built", b"as changed"):
        kept.write_bytes(content)
        stack = Stack(App(outdir=str(tmp_path / content.hex())))
        Layers(stack, "Layers", platform=Platform.HOST)
        layers = Template.from_stack(stack).find_resources("AWS::Lambda::LayerVersion")
        keys |= {layer["Properties"]["Content"]["S3Key"] for layer in layers.values()}
    assert len(keys) == 2
