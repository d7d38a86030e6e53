"""How fast pushes go out: Clarion's dispatch path beside aioapns, httpx, node-apn and bare libcurl, all in one run.

Clarion starts from the queue's message and the device's token: payload, headers, sending, outcome. Bare libcurl is
the floor that it stands on: requests that were made beforehand, and nothing done with the answers. The others are
used as their documentation says. All send to one stand-in at a time, which shares the machine with them: to ours, and
to one that is Node's own http2. Each sender runs alone in a process of its own, by turns, and the best turn of each
counts.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bench.figures import Figure, report
from local import keys
from local.emulator import NODE

ROOT = Path(__file__).parent.parent
TURNS = 3
STATUSES = {"200", "410"}


class Sender(NamedTuple):
    """`command` is what sends, but for the provider's port, the folder of keys, and how many `pushes`."""

    name: str
    command: tuple[str, ...]
    pushes: int


class ProviderStandIn(NamedTuple):
    """`provider` is the command that serves it, but for the folder of keys."""

    name: str
    provider: tuple[str, ...]


class Speed(NamedTuple):
    pushes_per_second: float
    cpu_us: float


def in_python(name: str, module: str, pushes: int, python: str = sys.executable) -> Sender:
    return Sender(name, (python, "-m", f"bench.senders.{module}"), pushes)


def stand_in(delay_ms: int, fail_every: int) -> ProviderStandIn:
    answers = f"every {fail_every}th refused" if fail_every else "all accepted"
    options = ("--delay-ms", str(delay_ms), "--fail-every", str(fail_every))
    return ProviderStandIn(f"{delay_ms} ms of delay, {answers}", (sys.executable, "bench/provider.py", *options))


CLARION = in_python("Clarion", "clarion_dispatch", 10_000)
LIBCURL = in_python("bare libcurl", "bare_libcurl", 10_000)
AIOAPNS = in_python("aioapns", "with_aioapns", 3_000, str(ROOT / ".venv-bench" / "bin" / "python"))
HTTPX = in_python("httpx", "with_httpx", 600)
NODE_APN = Sender("node-apn", (str(NODE / "node"), "bench/node/with_node_apn.js"), 10_000)
OTHERS = (LIBCURL, AIOAPNS, HTTPX, NODE_APN)
CALM = stand_in(0, 0)
NODE_HTTP2 = ProviderStandIn("Node's http2", (str(NODE / "node"), "bench/node/provider.js"))
SCENES = (CALM, stand_in(0, 10), stand_in(50, 0), stand_in(50, 10), NODE_HTTP2)


def figures() -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        keys.generate(folder)
        return compared({scene: play(scene, folder) for scene in SCENES})


def compared(results: Mapping[ProviderStandIn, Mapping[Sender, Speed]]) -> list[Figure]:
    """No scene is left out, so that none is hidden."""
    return [figure for scene, speeds in results.items() for figure in _compared(scene, speeds)]


def _compared(scene: ProviderStandIn, speeds: Mapping[Sender, Speed]) -> Iterator[Figure]:
    ours = speeds[CLARION]
    for other in OTHERS:
        name = f"push ({scene.name}), beside {other.name}"
        yield Figure.beside(name, ours.pushes_per_second, speeds[other].pushes_per_second, "pushes/s")
    name = f"processor time of a push ({scene.name}), beside {LIBCURL.name}"
    yield Figure.beside(name, ours.cpu_us, speeds[LIBCURL].cpu_us, "µs")


def play(scene: ProviderStandIn, folder: Path) -> dict[Sender, Speed]:
    with provider(scene, folder) as port:
        turns = [{sender: measure(sender, port, folder) for sender in (CLARION, *OTHERS)} for _ in range(TURNS)]
    return {
        sender: Speed(max(one[sender].pushes_per_second for one in turns), min(one[sender].cpu_us for one in turns))
        for sender in turns[0]
    }


@contextmanager
def provider(scene: ProviderStandIn, folder: Path) -> Iterator[str]:
    """Yields its port."""
    with subprocess.Popen([*scene.provider, str(folder)], stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            yield process.stdout.readline().strip() if process.stdout else ""
        finally:
            process.terminate()


def measure(sender: Sender, port: str, folder: Path) -> Speed:
    command = [*sender.command, port, str(folder), str(sender.pushes)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT)
    measured = json.loads(done.stdout)
    statuses = measured["statuses"]
    if not statuses.keys() <= STATUSES or sum(statuses.values()) != sender.pushes:
        raise SystemExit(f"{sender.name}: {statuses} of {sender.pushes} pushes")
    return Speed(measured["pushes_per_second"], measured["cpu_us"])


if __name__ == "__main__":
    report(figures())
