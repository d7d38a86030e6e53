"""Ingest's image, built by its Dockerfile.

No registry is asked: the base is a stand-in, made of this machine's Python, a shell, `useradd` and the libraries that
these load. Packages come from a folder, into which pip has fetched the locked ones.
"""

import io
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Collection
from pathlib import Path

from infra.archives import BUILT, ROOT, digest
from infra.image import DOCKERFILE, IGNORED
from local.containers import Podman

REQUIREMENTS = ROOT / "functions" / "ingest" / "requirements.txt"
PYTHON = Path(sys.base_prefix)
VERSION = f"python3.{sys.version_info.minor}"
NOT_NEEDED = re.compile(r"/(__pycache__|config-[^/]+|idlelib|site-packages|test|tkinter|turtledemo)(/|$)")
COMMANDS = ("/bin/sh", "/usr/sbin/useradd")
"""What the Dockerfile runs beside Python."""
LOADED_LATER = ("libdl.so.2", "libgcc_s.so.1", "libpthread.so.0", "librt.so.1", "libstdc++.so.6")
"""By packages that are installed later."""
PIP = f"#!/usr/local/bin/{VERSION}\nfrom pip._internal.cli.main import main\nraise SystemExit(main())\n"


def build(podman: Podman) -> str:
    """The image's id."""
    pip, ignored = podman.folder / "pip.conf", podman.folder / "ignored"
    wheels = fetched_wheels()
    pip.write_text("[global]\nno-index = true\nfind-links = /wheels\n")
    ignored.write_text("\n".join(IGNORED))
    volumes = ("--volume", f"{wheels}:/wheels:ro", "--volume", f"{pip}:/etc/pip.conf:ro")
    options = (
        "--quiet",
        "--layers=false",
        "--from",
        import_base(podman),
        "--ignorefile",
        ignored,
        "--isolation",
        "chroot",
    )
    return podman("build", *options, *volumes, "--file", DOCKERFILE, ".").splitlines()[-1]


def import_base(podman: Podman) -> str:
    """Its id."""
    base = podman.folder / "base.tar"
    write_base(base)
    return podman("import", "--quiet", base)


def fetched_wheels() -> Path:
    """Kept by the lock that they follow."""
    wheels = BUILT / "wheels" / digest(REQUIREMENTS.read_bytes())
    if not wheels.exists():
        unfinished = wheels.with_suffix(f".{os.getpid()}")
        pip = (ROOT / ".tools" / "bin" / "python", "-m", "pip", "download", "--quiet", "--require-hashes")
        options = ("--only-binary=:all:", "--python-version", "3.13", "--dest", unfinished, "--requirement")
        subprocess.run([*pip, *options, REQUIREMENTS], check=True)
        unfinished.rename(wheels)
    return wheels


def write_base(target: Path) -> None:
    """Where the real one has things: Python in /usr/local."""
    library = PYTHON / "lib" / VERSION
    (pip,) = (library / "ensurepip" / "_bundled").glob("pip-*.whl")
    with tarfile.open(target, "w", dereference=True) as archive:
        archive.add(PYTHON / "bin" / VERSION, f"usr/local/bin/{VERSION}")
        archive.add(library, f"usr/local/lib/{VERSION}", filter=_needed)
        for command in COMMANDS:
            archive.add(command, command)
        for path in libraries():
            archive.add(path, path)
        with zipfile.ZipFile(pip) as wheel:
            for name in wheel.namelist():
                _write(archive, f"usr/local/lib/{VERSION}/site-packages/{name}", wheel.read(name))
        _write(archive, "usr/local/bin/pip", PIP.encode(), mode=0o755)
        _write(archive, "etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n")
        _write(archive, "etc/group", b"root:x:0:\n")
        link = tarfile.TarInfo("usr/local/bin/python")
        link.type, link.linkname = tarfile.SYMTYPE, VERSION
        archive.addfile(link)


def _needed(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if NOT_NEEDED.search(entry.name) else entry


def _write(archive: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))


def libraries() -> Collection[str]:
    """The shared libraries that Python, its modules and the commands load, and those that packages will."""
    known = subprocess.run(["/sbin/ldconfig", "-p"], check=True, capture_output=True, text=True).stdout
    later = [path for name, path in re.findall(r"^\t(\S+) .* => (/\S+)$", known, re.MULTILINE) if name in LOADED_LATER]
    modules = (PYTHON / "lib" / VERSION / "lib-dynload").glob("*.so")
    binaries = [PYTHON / "bin" / VERSION, *modules, *COMMANDS, *later]
    printed = subprocess.run(["/usr/bin/ldd", *map(str, binaries)], check=False, capture_output=True, text=True).stdout
    return {*later, *re.findall(r"(/\S+) \(0x", printed)}
