"""See to a Java that Spark can use: version 17 or later. Where it is missing, the system's packages bring it.

Runs on whatever `python3` is first on the PATH, so it keeps to the syntax of Python 3.8.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from system_packages import install

NEEDED = 17
PACKAGES = {"apt-get": "default-jre-headless", "dnf": "java-21-openjdk-headless"}
ADVICE = """\
Spark needs Java 17 or later. Install it, or set JAVA_HOME to one, and run make again:
  Debian, Ubuntu:  sudo apt-get install default-jre-headless
  Fedora:          sudo dnf install java-21-openjdk-headless
  macOS:           brew install openjdk@17"""


def main() -> None:
    if java_version() >= NEEDED:
        return
    print("» Java")
    if not install(PACKAGES) or java_version() < NEEDED:
        sys.exit(ADVICE)


def java_version() -> int:
    """The major version of the Java that Spark would start, 0 if there is none."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None or not Path(java).exists():
        return 0
    printed = subprocess.run([java, "-version"], check=False, capture_output=True, text=True).stderr
    found = re.search(r'version "(\d+)', printed)
    return int(found.group(1)) if found else 0


if __name__ == "__main__":
    main()
