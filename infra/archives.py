"""Archives that are deployed, built without docker and kept under `.build` by the hash of what goes into them."""

import compileall
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from py_compile import PycInvalidationMode

from infra.config import Platform

ROOT = Path(__file__).parents[1]
BUILT = ROOT / ".build"
CORE = ROOT / "layers" / "core" / "clarion"
UV = ROOT / ".tools" / "bin" / "uv"
EPOCH = (1980, 1, 1, 0, 0, 0)
"""The one date in every archive, so that equal contents make equal archives."""

# What Amazon Linux 2023 can load; https://docs.aws.amazon.com/lambda/latest/dg/python-package.html
WHEELS = {
    Platform.ARM64: ("--python-platform", "aarch64-manylinux_2_28"),
    Platform.HOST: (),
}


def install(tree: Path, platform: Platform, requirements: Path) -> None:
    """Put the locked wheels for `platform` into the folder `tree`."""
    pinned = ("--require-hashes", "--no-deps", "--only-binary", ":all:", "--requirements", str(requirements))
    runtime = ("--python", sys.executable, "--python-version", "3.13", "--target", str(tree))
    subprocess.run([UV, "pip", "install", "--quiet", *runtime, *WHEELS[platform], *pinned], check=True)


def files(root: Path, inside: str = "") -> dict[str, Path]:
    """All files under the folder `root`, by their names in an archive that has them under `inside`."""
    return {f"{inside}{path.relative_to(root)}": path for path in sorted(root.rglob("*")) if path.is_file()}


def sources(root: Path, inside: str) -> dict[str, Path]:
    """As `files`, without bytecode."""
    return {name: path for name, path in files(root, inside).items() if path.suffix != ".pyc"}


def pack(named: Mapping[str, Path], target: Path, compression: int = zipfile.ZIP_DEFLATED) -> None:
    """Zip the files by their names; the archive appears whole or not at all, whoever else builds it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_suffix(f".{os.getpid()}")
    with zipfile.ZipFile(unfinished, "w", compression, compresslevel=1) as archive:
        for name, path in named.items():
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.compress_type = compression
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, path.read_bytes())
    unfinished.replace(target)


def compiled(root: Path, inside: str, stem: Path) -> Path:
    """The sources in the folder `root`, with bytecode; the archive is called `stem`, and by their digest."""
    named = sources(root, inside)
    target = stem.with_name(f"{stem.name}-{digest_of(named)}.zip")
    if not target.exists():
        BUILT.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=BUILT) as scratch:
            tree = Path(scratch)
            for name, path in named.items():
                copy = tree / name
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, copy)
            compile_modules(tree)
            pack(files(tree), target)
    return target


def compile_modules(tree: Path) -> None:
    """Lambda can't write beside a package's sources, and its clock would make dated bytecode stale."""
    compileall.compile_dir(
        tree, quiet=2, stripdir=tree, invalidation_mode=PycInvalidationMode.UNCHECKED_HASH, workers=0
    )


def digest(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:32]


def digest_of(named: Mapping[str, Path]) -> str:
    return digest(*(name.encode() + b"\0" + path.read_bytes() for name, path in named.items()))
