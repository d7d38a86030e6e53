"""Install what only the system's package manager has, where it may: as root, with apt-get or dnf.

Runs on whatever `python3` is first on the PATH, so it keeps to the syntax of Python 3.8.
"""

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

COMMANDS = {
    "apt-get": (["apt-get", "update", "-qq"], ["apt-get", "install", "-qq", "-y", "--no-install-recommends"]),
    "dnf": (["dnf", "install", "-q", "-y"],),
}


def install(packages: "dict[str, str]") -> bool:
    """`packages` says what the package is called by each manager. False if none of them is here, or may be used."""
    manager = next((name for name in COMMANDS if shutil.which(name)), None)
    if manager is None or os.geteuid() != 0:
        return False
    *before, command = COMMANDS[manager]
    with Path(__file__).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # under make's --jobs, or one apt-get would turn the other away
        return all(
            subprocess.run(each, check=False).returncode == 0 for each in (*before, [*command, packages[manager]])
        )
