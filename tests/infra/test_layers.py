import zipfile

from infra.archives import CORE
from infra.config import Platform
from infra.layers import core_archive, vendor_archive


def test_the_core_layer_holds_the_shared_library_and_nothing_else() -> None:
    with zipfile.ZipFile(core_archive()) as archive:
        names = set(archive.namelist())
    assert "python/clarion/decisions.py" in names
    assert names == {f"python/clarion/{path.relative_to(CORE)}" for path in CORE.rglob("*.*") if path.suffix != ".pyc"}


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
