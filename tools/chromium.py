"""Link .tools/chromium to a Chromium for the tests. Where there is none, the system's packages bring it.

Runs on whatever `python3` is first on the PATH, so it keeps to the syntax of Python 3.8.
"""

import shutil
import sys
from pathlib import Path

from system_packages import install

LINK = Path(__file__).resolve().parent.parent / ".tools" / "chromium"
COMMANDS = ("chromium", "chromium-browser", "google-chrome")
PACKAGES = {"apt-get": "chromium", "dnf": "chromium"}
ADVICE = """\
The web page's tests need Chromium or Chrome. Install it, so that one of the commands chromium, chromium-browser or
google-chrome is on the PATH, and run make again:
  Debian:   sudo apt-get install chromium
  Fedora:   sudo dnf install chromium
  Ubuntu:   sudo apt-get install ./google-chrome-stable_current_amd64.deb (from google.com/chrome)
  macOS:    brew install chromium"""


def main() -> None:
    print("» Chromium")
    command = find() or (install(PACKAGES) and find())
    if not command:
        sys.exit(ADVICE)
    if LINK.is_symlink():
        LINK.unlink()
    LINK.symlink_to(command)


def find() -> "str | None":
    return next((path for path in map(shutil.which, COMMANDS) if path), None)


if __name__ == "__main__":
    main()
