"""See to podman, in which a test builds and runs ingest's image. Where it is missing, the system's packages bring it.

Runs on whatever `python3` is first on the PATH, so it keeps to the syntax of Python 3.8.
"""

import shutil

from system_packages import install

NEEDED = ("podman", "runc")


def main() -> None:
    missing = [name for name in NEEDED if not shutil.which(name)]
    if missing:
        print("» podman")
    if not all(install(dict.fromkeys(("apt-get", "dnf"), name)) for name in missing):
        print("without podman, ingest's image is not tried: install it, and run make again")


if __name__ == "__main__":
    main()
