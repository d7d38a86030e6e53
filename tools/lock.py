"""Lock every requirements file: versions and hashes for all platforms, and no index named.

The development set is solved first; the sets that run elsewhere are held to its versions, so that what was tested
is what is deployed. The emulator is a program of its own and solved alone.
"""

import subprocess
from dataclasses import dataclass

COMPILE = (
    *("uv", "pip", "compile", "--quiet", "--universal", "--upgrade", "--python-version", "3.13"),
    *("--generate-hashes", "--no-emit-index-url", "--no-emit-find-links", "--custom-compile-command", "make lock"),
)
# The Lambda runtime brings the AWS SDK; a second copy would double the layer and its cold start.
RUNTIME = ("boto3", "botocore", "jmespath", "s3transfer", "python-dateutil", "six", "urllib3")


@dataclass(frozen=True)
class Lock:
    stem: str
    held_to_dev: bool = True
    left_out: tuple[str, ...] = ()


LOCKS = (
    Lock("requirements-tools", held_to_dev=False),
    Lock("requirements-dev", held_to_dev=False),
    Lock("layers/vendor/requirements", left_out=RUNTIME),
    Lock("functions/ingest/requirements"),
    Lock("pipeline/requirements"),
    Lock("pipeline/requirements-dev"),
    Lock("local/requirements-emulator", held_to_dev=False),
    Lock("bench/requirements"),
)


def main() -> None:
    for lock in LOCKS:
        print(f"» {lock.stem}.txt")
        held = ["--constraint", "requirements-dev.txt"] if lock.held_to_dev else []
        left_out = [word for name in lock.left_out for word in ("--no-emit-package", name)]
        command = [*COMPILE, *held, *left_out, f"{lock.stem}.in", "--output-file", f"{lock.stem}.txt"]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
