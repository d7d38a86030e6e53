"""Every scenario, at every point, in every way: `make crash`. Ends with the count; fails if one did not come right.

The points are shared out among the processors, a few at a time, each share with an emulation of its own.
"""

import os
import sys
import time
from collections import Counter
from concurrent.futures import Executor, ProcessPoolExecutor
from functools import partial
from itertools import batched
from multiprocessing import get_context

from tests.crash import harness, stage
from tests.match import races
from tests.match.races import Race
from tests.match.scene import credentials

SHARE = 24
"""Points. The emulation slows down as its tables grow, but takes a while to set up."""
RACES, RACES_SHARE = 2_000, 100


def main() -> None:
    os.environ |= credentials() | {"POWERTOOLS_LOG_LEVEL": "CRITICAL"}
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        counts = [enumerate_points(pool, name) for name in stage.SCENARIOS]
        raced = race(pool)
        flaws = race_devices(pool)
    tried, failures = sum(points for points, _ in counts), sum(failed for _, failed in counts)
    flawed = sum(bool(one.flaws) for one in raced)
    limiter = f"{len(raced)} races for the limiter, {flawed} failures"
    devices = f"{RACES} registrations of devices at once, {len(flaws)} failures"
    print(f"{tried} crash points, {failures} failures; {limiter}; {devices}")
    sys.exit(bool(failures or flawed or flaws))


def enumerate_points(pool: Executor, name: str) -> tuple[int, int]:
    """Try them all; returns how many there are, and how many did not come right."""
    started = time.monotonic()
    called = pool.submit(stage.calls, name).result()
    points = harness.points(called)
    print(f"{name}: {len(called)} calls: {_counted(called)}", flush=True)
    failures = 0
    for some in pool.map(partial(stage.failed, name), batched(points, SHARE, strict=False)):
        failures += len(some)
        for failure in some:
            print(f"  {failure}", flush=True)
    print(f"  {len(points)} crash points in {time.monotonic() - started:.0f} s", flush=True)
    return len(points), failures


def race(pool: Executor) -> list[Race]:
    started = time.monotonic()
    raced = [one for some in pool.map(races.run, batched(range(RACES), RACES_SHARE, strict=False)) for one in some]
    lost = sum(one.lost for one in raced)
    print(f"limiter: {len(raced)} races, in which {lost} writes came too late, in {time.monotonic() - started:.0f} s")
    for one in raced:
        for flaw in one.flaws:
            print(f"  {flaw}")
    return raced


def race_devices(pool: Executor) -> list[str]:
    started = time.monotonic()
    shares = list(batched(range(RACES), SHARE, strict=False))
    flaws = [flaw for some in pool.map(stage.raced, shares) for flaw in some]
    print(f"devices: {RACES} races, in {time.monotonic() - started:.0f} s")
    for flaw in flaws:
        print(f"  {flaw}")
    return flaws


def _counted(called: list[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in Counter(called).most_common())


if __name__ == "__main__":
    main()
