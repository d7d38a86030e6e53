"""How fast pushes go out: Clarion's dispatch path beside aioapns, httpx and bare libcurl, all in one run.

Clarion starts from the queue's message and the device's token: payload, headers, sending, outcome. Bare libcurl is
the floor that it stands on: requests that were made beforehand, and nothing done with the answers. The others are
used as their documentation says. All send to one stand-in, which is far faster than any of them and shares the
machine with them; each runs alone in a process of its own, by turns, and the best turn of each counts.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from local import keys

ROOT = Path(__file__).parent.parent
OURS = sys.executable
THEIRS = str(ROOT / ".venv-bench" / "bin" / "python")
TURNS = 3


class Sender(NamedTuple):
    name: str
    module: str
    python: str
    pushes: int


class Scene(NamedTuple):
    delay_ms: int
    fail_every: int

    def __str__(self) -> str:
        answers = f"every {self.fail_every}th refused" if self.fail_every else "all accepted"
        return f"{self.delay_ms} ms of provider delay, {answers}"


class Speed(NamedTuple):
    pushes_per_second: float
    cpu_us: float


CLARION = Sender("Clarion", "clarion_dispatch", OURS, 10_000)
LIBCURL = Sender("bare libcurl", "bare_libcurl", OURS, 10_000)
AIOAPNS = Sender("aioapns", "with_aioapns", THEIRS, 3_000)
HTTPX = Sender("httpx", "with_httpx", OURS, 600)
SENDERS = (CLARION, LIBCURL, AIOAPNS, HTTPX)
SCENES = tuple(Scene(delay_ms, fail_every) for delay_ms in (0, 50) for fail_every in (0, 10))


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        keys.generate(folder)
        results = {scene: play(scene, folder) for scene in SCENES}
    print()
    print(verdict(results))


def play(scene: Scene, folder: Path) -> dict[Sender, Speed]:
    print(f"\n{scene}\n{'':16}{'pushes/s':>10}{'CPU/push':>12}")
    with provider(scene, folder) as port:
        turns = [{sender: measure(sender, port, folder) for sender in SENDERS} for _ in range(TURNS)]
    best = {
        sender: Speed(max(one[sender].pushes_per_second for one in turns), min(one[sender].cpu_us for one in turns))
        for sender in SENDERS
    }
    for sender, speed in best.items():
        print(f"  {sender.name:14}{speed.pushes_per_second:>10,.0f}{speed.cpu_us:>9.1f} µs", flush=True)
    return best


@contextmanager
def provider(scene: Scene, folder: Path) -> Iterator[str]:
    options = ["--delay-ms", str(scene.delay_ms), "--fail-every", str(scene.fail_every)]
    command = [OURS, str(ROOT / "bench" / "provider.py"), str(folder), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            yield process.stdout.readline().strip() if process.stdout else ""
        finally:
            process.terminate()


def measure(sender: Sender, port: str, folder: Path) -> Speed:
    command = [sender.python, "-m", f"bench.senders.{sender.module}", port, str(folder), str(sender.pushes)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT)
    told = json.loads(done.stdout)
    return Speed(told["pushes_per_second"], told["cpu_us"])


def verdict(results: dict[Scene, dict[Sender, Speed]]) -> str:
    """Of the first scene, no delay and all accepted, and beside each figure that of the scene where it is worst."""
    speeds = [{sender: speed.pushes_per_second for sender, speed in results[scene].items()} for scene in SCENES]
    ours = [speed[CLARION] for speed in speeds]
    ratios = {other: [speed[CLARION] / speed[other] for speed in speeds] for other in (AIOAPNS, HTTPX, LIBCURL)}
    compared = [f"{each[0]:.2f} ({min(each):.2f}) times {other.name}" for other, each in ratios.items()]
    return (
        f"Clarion, with no delay and no errors (in the worst of {len(SCENES)} scenes): "
        f"{ours[0]:,.0f} ({min(ours):,.0f}) pushes a second in one process, {', '.join(compared)}"
    )


if __name__ == "__main__":
    main()
