"""Put the pinned uv into .tools/, with nothing at hand but Python 3 and its own venv module.

Runs on whatever `python3` is first on the PATH, so it keeps to the syntax of Python 3.8.
"""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

from system_packages import install

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ROOT / ".tools"
PACKAGES = {"apt-get": "python3-venv", "dnf": "python3"}
NO_VENV = """\
This Python cannot make virtual environments. Install its venv module and run make again:
  Debian, Ubuntu:  apt-get install python3-venv
  Fedora:          dnf install python3
  or any Python from python.org or pyenv, which bring it along."""


def main() -> None:
    print("» uv")
    if not make_venv():
        if has_venv():
            sys.exit("The virtual environment could not be made: the reason stands above.")
        if not (install(PACKAGES) and make_venv()):
            sys.exit(NO_VENV)
    pip = [str(TOOLS / "bin" / "python"), "-m", "pip", "install", "--quiet", "--require-hashes"]
    subprocess.run([*pip, "-r", str(ROOT / "requirements-tools.txt")], check=True)
    (TOOLS / "bin" / "uv").touch()


def has_venv() -> bool:
    """Debian leaves out `ensurepip` where it leaves out the package of `venv`."""
    return all(importlib.util.find_spec(name) for name in ("venv", "ensurepip"))


def make_venv() -> bool:
    shutil.rmtree(TOOLS, ignore_errors=True)
    return subprocess.run([sys.executable, "-m", "venv", str(TOOLS)], check=False).returncode == 0


if __name__ == "__main__":
    main()
