"""The Lambda layers, built without docker and kept under `.build/layers` by the hash of what goes into them."""

import compileall
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from py_compile import PycInvalidationMode

from aws_cdk import AssetHashType
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra.config import Platform

ROOT = Path(__file__).parents[1]
BUILT = ROOT / ".build" / "layers"
CORE = ROOT / "layers" / "core" / "clarion"
VENDOR = ROOT / "layers" / "vendor" / "requirements.txt"
UV = ROOT / ".tools" / "bin" / "uv"
EPOCH = (1980, 1, 1, 0, 0, 0)
"""The one date in every archive, so that equal contents make equal archives."""


# What Lambda's Amazon Linux 2023 can load; https://docs.aws.amazon.com/lambda/latest/dg/python-package.html
_WHEELS = {
    Platform.ARM64: ("--python-platform", "aarch64-manylinux_2_28"),
    Platform.HOST: (),
}


class Layers(Construct):
    """`core` is the shared library `clarion`, `vendor` everything from elsewhere that the runtime lacks."""

    def __init__(self, scope: Construct, construct_id: str, *, platform: Platform) -> None:
        super().__init__(scope, construct_id)
        self.core = self._layer("Core", core_archive(), platform)
        self.vendor = self._layer("Vendor", vendor_archive(platform), platform)

    @property
    def all(self) -> list[lambda_.ILayerVersion]:
        return [self.core, self.vendor]

    def _layer(self, construct_id: str, archive: Path, platform: Platform) -> lambda_.LayerVersion:
        code = lambda_.Code.from_asset(str(archive), asset_hash_type=AssetHashType.CUSTOM, asset_hash=archive.stem)
        return lambda_.LayerVersion(
            self,
            construct_id,
            code=code,
            compatible_runtimes=[lambda_.Runtime.PYTHON_3_13],
            compatible_architectures=[lambda_.Architecture.ARM_64] if platform is Platform.ARM64 else None,
        )


def core_archive() -> Path:
    sources = sorted(path for path in CORE.rglob("*") if path.is_file() and path.suffix != ".pyc")
    named = [f"python/clarion/{path.relative_to(CORE)}".encode() + b"\0" + path.read_bytes() for path in sources]
    target = BUILT / f"core-{_digest(*named)}.zip"
    if not target.exists():
        _archive(sources, CORE, "python/clarion", target)
    return target


def vendor_archive(platform: Platform) -> Path:
    """Install the locked wheels for `platform`; the AWS SDK is left to the runtime, so its dependants lack it here."""
    wheels = _WHEELS[platform]
    target = BUILT / f"vendor-{platform}-{_digest(VENDOR.read_bytes(), *(word.encode() for word in wheels))}.zip"
    if target.exists():
        return target
    BUILT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=BUILT) as scratch:
        tree = Path(scratch)
        _install(tree, wheels)
        # Lambda can't write beside a layer's sources, and its clock would make dated bytecode stale.
        compileall.compile_dir(tree, quiet=2, stripdir=tree, invalidation_mode=PycInvalidationMode.UNCHECKED_HASH)
        _archive(sorted(path for path in tree.rglob("*") if path.is_file()), tree, "python", target)
    return target


def _install(tree: Path, wheels: tuple[str, ...]) -> None:
    pinned = ("--require-hashes", "--no-deps", "--only-binary", ":all:", "--requirements", str(VENDOR))
    runtime = ("--python", sys.executable, "--python-version", "3.13", "--target", str(tree))
    subprocess.run([UV, "pip", "install", "--quiet", *runtime, *wheels, *pinned], check=True)


def _archive(files: list[Path], root: Path, inside: str, target: Path) -> None:
    """Zip `files` under the folder `inside`; the archive appears whole or not at all, whoever else builds it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_suffix(f".{os.getpid()}")
    with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for file in files:
            entry = zipfile.ZipInfo(f"{inside}/{file.relative_to(root)}", EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, file.read_bytes())
    unfinished.replace(target)


def _digest(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:32]
