"""Lock every requirements file: versions and hashes for all platforms, and no index named.

The development set is solved first; the sets that run elsewhere are held to its versions, so that what was tested
is what is deployed. The emulator is a program of its own and solved alone.
"""

import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement

COMPILE = (
    *("uv", "pip", "compile", "--quiet", "--universal", "--upgrade", "--python-version", "3.13"),
    *("--generate-hashes", "--no-emit-index-url", "--no-emit-find-links", "--custom-compile-command", "make lock"),
)
DEV, INCLUDE = "requirements-dev", "-r "
# The Lambda runtime brings the AWS SDK; a second copy would double the layer and its cold start.
RUNTIME = ("boto3", "botocore", "jmespath", "s3transfer", "python-dateutil", "six", "urllib3")


@dataclass(frozen=True)
class Lock:
    stem: str
    held_to_dev: bool = True
    left_out: tuple[str, ...] = ()


LOCKS = (
    Lock("requirements-tools", held_to_dev=False),
    Lock(DEV, held_to_dev=False),
    Lock("layers/vendor/requirements", left_out=RUNTIME),
    Lock("functions/ingest/requirements"),
    Lock("pipeline/requirements"),
    Lock("pipeline/requirements-dev"),
    Lock("local/requirements-emulator", held_to_dev=False),
    Lock("bench/requirements"),
)


def out_of_date(root: Path) -> Iterator[str]:
    """Where a lock is not as its requirements have it. Which newer versions there are is not looked up."""
    dev = _pins((root / f"{DEV}.txt").read_text())
    for lock in LOCKS:
        yield from (f"{lock.stem}.txt {flaw}" for flaw in _flaws(root, lock, dev))


def _flaws(root: Path, lock: Lock, dev: Mapping[str, str]) -> Iterator[str]:
    text = (root / f"{lock.stem}.txt").read_text()
    pins = _pins(text)
    for source, required in _requirements(root, f"{lock.stem}.in").items():
        for name in sorted(required.keys() ^ _pinned_for(source, text)):
            yield f"does not follow {source} in {name}"
        for name in sorted(required.keys() & pins.keys()):
            if not required[name].specifier.contains(pins[name], prereleases=True):
                yield f"has {name} {pins[name]}, which {source} excludes"
    for name in sorted(pins.keys() & dev.keys()) if lock.held_to_dev else ():
        if pins[name] != dev[name]:
            yield f"has {name} {pins[name]}, {DEV}.txt {dev[name]}"


def _requirements(root: Path, source: str) -> Mapping[str, Mapping[str, Requirement]]:
    """By their names, of each file: the one at `source`, and those that it includes."""
    lines = [line for raw in (root / source).read_text().splitlines() if (line := raw.partition("#")[0].strip())]
    stated = [Requirement(line) for line in lines if not line.startswith(INCLUDE)]
    found: dict[str, Mapping[str, Requirement]] = {source: {each.name: each for each in stated}}
    for line in lines:
        if line.startswith(INCLUDE):
            found |= _requirements(root, str(Path(source).parent / line.removeprefix(INCLUDE)))
    return found


def _pins(text: str) -> Mapping[str, str]:
    return dict(re.findall(r"^([\w.-]+)==([^ ;]+)", text, re.MULTILINE))


def _pinned_for(source: str, text: str) -> set[str]:
    """What is locked because `source` itself names it, as uv notes below each package."""
    each = re.split(r"^(?=\w)", text, flags=re.MULTILINE)
    return {one.partition("==")[0] for one in each if re.search(rf"-r {re.escape(source)}$", one, re.MULTILINE)}


def main() -> None:
    for lock in LOCKS:
        print(f"» {lock.stem}.txt")
        held = ["--constraint", f"{DEV}.txt"] if lock.held_to_dev else []
        left_out = [word for name in lock.left_out for word in ("--no-emit-package", name)]
        command = [*COMPILE, *held, *left_out, f"{lock.stem}.in", "--output-file", f"{lock.stem}.txt"]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
