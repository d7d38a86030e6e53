"""What every sender of the bench is given and how it is measured."""

import argparse
import asyncio
import gc
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import NamedTuple

TOPIC = "io.pcf.polkadotapp"
IN_FLIGHT = 2000
WARM_UP = 200


class SendingTask(NamedTuple):
    port: int
    folder: Path
    pushes: int

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def ca_file(self) -> Path:
        return self.folder / "ca.pem"

    @property
    def key(self) -> str:
        return (self.folder / "AuthKey_LOCALKEY00.p8").read_text()


def given() -> SendingTask:
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("folder", type=Path)
    parser.add_argument("pushes", type=int)
    chosen = parser.parse_args()
    return SendingTask(chosen.port, chosen.folder, chosen.pushes)


async def send_all(
    count: int, concurrent: int, work: Callable[[Iterator[int], Counter[int]], Awaitable[None]]
) -> Counter[int]:
    """Send `count` pushes; how often each status came. `concurrent` calls of `work` send one for each number they take."""
    statuses: Counter[int] = Counter()
    waiting = iter(range(count))
    await asyncio.gather(*(work(waiting, statuses) for _ in range(concurrent)))
    return statuses


def measure(count: int, send: Callable[[int], Counter[int]]) -> None:
    """Warm up, then print how fast `send` brought `count` pushes to their outcome and what statuses they got.

    No garbage is looked for in what was there before: the whole queue, of which a function has ten messages at a time.
    """
    send(WARM_UP)
    gc.collect()
    gc.freeze()
    wall, cpu = time.perf_counter(), time.process_time()
    statuses = send(count)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(json.dumps({"pushes_per_second": count / wall, "cpu_us": cpu / count * 1e6, "statuses": statuses}))
