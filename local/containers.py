"""Containers of podman, run as ECS runs ingest's, for this machine's own processor."""

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from infra.archives import ROOT
from infra.image import HEALTH_COMMAND, STOP_SECONDS

RUNTIME = ("--runtime", "runc", "--cgroup-manager", "cgroupfs")
"""Which asks for neither systemd nor the newer control groups."""
LIMITS = ("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024")
"""Podman's own may be above what it can raise."""
HERE = ("--network", "host", "--cgroupns", "host", *LIMITS)


class PodmanError(Exception):
    """The text is podman's."""


@dataclass(frozen=True)
class Podman:
    """All that it keeps lies in `folder`, whose path must be short."""

    folder: Path

    def __call__(self, *words: str | Path) -> str:
        """What it prints. Raise `PodmanError`."""
        kept = ("--root", self.folder / "storage", "--runroot", self.folder / "run", "--storage-driver", "overlay")
        command = ["podman", *kept, *RUNTIME, *words]
        done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
        if done.returncode:
            raise PodmanError(done.stderr)
        return done.stdout.strip()


@dataclass(frozen=True)
class Container:
    podman: Podman
    name: str

    def is_healthy(self) -> bool:
        """As ECS finds it."""
        try:
            self.podman("exec", self.name, *HEALTH_COMMAND)
        except PodmanError:
            return False
        return True

    def stop(self) -> int:
        """By SIGTERM, as ECS does; the exit code."""
        self.podman("stop", "--time", str(STOP_SECONDS), self.name)
        return int(self.podman("inspect", "--format", "{{.State.ExitCode}}", self.name))

    @property
    def log(self) -> str:
        return self.podman("logs", self.name)


@contextmanager
def running(podman: Podman, image: str, variables: Mapping[str, str], visible: Sequence[Path]) -> Iterator[Container]:
    """With this machine's network, and `visible` at their own paths; as in ECS, nothing can be written."""
    given = [word for name, value in variables.items() for word in ("--env", f"{name}={value}")]
    volumes = [word for path in visible for word in ("--volume", f"{path}:{path}:ro")]
    unwritable = ("--read-only", "--read-only-tmpfs=false")
    name = podman("run", "--detach", *HERE, *unwritable, *given, *volumes, image)
    try:
        yield Container(podman, name)
    finally:
        podman("rm", "--force", "--time", "0", name)
