"""From a statement's submission until APNs has its push, through the emulated stack: `make bench-latency`.

    python -m bench.latency --rate 50 --seconds 60

APNs is the stand-in, and all share one machine. What was measured of each statement goes to `.build/latency-<rate>.json`,
to which `make simulate` fits its model.
"""

import argparse
import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from operator import itemgetter
from pathlib import Path
from random import Random
from statistics import quantiles
from typing import Self

from bench.figures import Figure, report
from bench.processors import ProcessorTime
from clarion.networks.statements import codec
from local.device import Device, topic_of
from local.lake import LakeEvent
from local.system import System, running

ROOT = Path(__file__).parent.parent
TOPIC = topic_of("how long a push takes")
EACH_PER_SECOND = 0.25
"""Statements of one sender: half of what the limit of a pair allows."""
WARM_UP_S = 10
"""The functions start, and nothing counts."""
IDLE_S = 5
"""What is spent on nothing is measured for so long."""
ARRIVAL_S = 60
LAKE_S = 30
SEED = 1
RATE, SECONDS = 50.0, 60.0


@dataclass(frozen=True)
class PushTimes:
    """UNIX seconds at which one statement was submitted, was observed, had its push queued, and had it received."""

    submitted: float
    observed: float
    queued: float
    received: float


@dataclass(frozen=True)
class Latency:
    """`parts` are seconds that each part took of the processors for one statement; `processors` are the machine's."""

    rate: float
    submitted: int
    parts: Mapping[str, float]
    processors: int
    traces: Sequence[PushTimes]

    @property
    def cpu_s(self) -> float:
        """What all processes together took of the processors for one statement."""
        return sum(self.parts.values())

    @classmethod
    def read(cls, rate: float) -> Self:
        found = json.loads(path_of(rate).read_text())
        traces = [PushTimes(**trace) for trace in found.pop("traces")]
        return cls(**found, traces=traces)

    def write(self) -> None:
        path_of(self.rate).write_text(json.dumps(asdict(self)))

    def figures(self) -> list[Figure]:
        p50, p99 = percentiles([trace.received - trace.submitted for trace in self.traces])
        at = f"emulated, {self.rate:g} statements/s"
        return [
            Figure.alone(f"{at}: from submission to push, median", p50 * 1000, "ms"),
            Figure.alone(f"{at}: from submission to push, 99th percentile", p99 * 1000, "ms"),
            Figure.beside(f"{at}: pushes received, beside submitted", len(self.traces), self.submitted, "statements"),
            Figure.alone(f"{at}: processor time of a statement", self.cpu_s * 1000, "ms"),
        ]

    def figures_by_part(self) -> list[Figure]:
        """Of a statement's processor time, the most first."""
        parts = sorted(self.parts.items(), key=itemgetter(1), reverse=True)
        return [Figure.alone(f"{self.rate:g} statements/s: {part}", each * 1000, "ms") for part, each in parts]


def path_of(rate: float) -> Path:
    return ROOT / ".build" / f"latency-{rate:g}.json"


def percentiles(seconds: Sequence[float]) -> tuple[float, float]:
    """The median and the 99th."""
    cuts = quantiles(seconds, n=100)
    return cuts[49], cuts[98]


@asynccontextmanager
async def emulated_senders() -> AsyncIterator["Senders"]:
    async with running("bench-latency", lambda _: None) as system:
        yield Senders(system)


async def measured(rate: float, seconds: float) -> Latency:
    async with emulated_senders() as senders:
        return await measure(senders, rate, seconds)


async def measure(senders: "Senders", rate: float, seconds: float) -> Latency:
    await senders.submit(rate, WARM_UP_S)
    idle = ProcessorTime.begin()
    await asyncio.sleep(IDLE_S)
    unused, idle_s, busy = idle.taken(), idle.seconds, ProcessorTime.begin()
    submitted = await senders.submit(rate, seconds)
    spans = busy.seconds / idle_s
    spent = {part: used - spans * unused[part] for part, used in busy.taken().items()}
    received = received_by(senders.system)
    traces = list(_traces(submitted, received, await _decided(senders.system, set(received))))
    each = {part: seconds / len(submitted) for part, seconds in spent.items()}
    return Latency(rate, len(submitted), each, os.cpu_count() or 1, traces)


@dataclass
class Senders:
    """Each with a phone of its own that wants its statements. There are as many as were needed so far."""

    system: System
    devices: list[Device] = field(default_factory=list)
    each_per_second: float = EACH_PER_SECOND

    async def submit(self, rate: float, seconds: float, arrival_s: float = ARRIVAL_S) -> dict[str, float]:
        """When each statement was due, by its hash; returns once their pushes are there, or are late.

        One is due at some moment of each interval: at its end each time, all would meet the emulator's look at its queues
        at the same moment, which shifts the latency by tens of milliseconds from run to run. One that is submitted late
        is late like any other.
        """
        await self._register(max(1, round(rate / self.each_per_second)))
        submitted: dict[str, float] = {}
        loop = asyncio.get_running_loop()
        started, begun, draw = loop.time(), time.time(), Random(SEED)  # noqa: S311 - the same each time
        for number in range(round(rate * seconds)):
            raw = self.devices[number % len(self.devices)].statement(TOPIC, data=b"sealed")
            due = (number + draw.random()) / rate
            await asyncio.sleep(started + due - loop.time())
            submitted[codec.digest(raw).hex()] = begun + due
            await self.system.store.submit(raw)
        deadline = loop.time() + arrival_s
        while not submitted.keys() <= received_by(self.system).keys() and loop.time() < deadline:  # noqa: ASYNC110 - by polling
            await asyncio.sleep(1)
        return submitted

    async def _register(self, count: int) -> None:
        for number in range(len(self.devices), count):
            sender, receiver = Device(f"sender {number}"), Device(f"receiver {number}")
            await self.system.register(receiver, "apns", f"{number:064x}", (sender.public_key, TOPIC))
            self.devices.append(sender)


def received_by(system: System) -> dict[str, float]:
    """When APNs accepted the first push of each statement, whose collapse id is its own: other networks' pushes have none."""
    pushes = [push for push in system.apns.received if push.accepted and "apns-collapse-id" in push.headers]
    return {push.headers["apns-collapse-id"]: push.at for push in reversed(pushes)}


async def _decided(system: System, received: set[str]) -> dict[str, dict[str, LakeEvent]]:
    """By the statement's hash, then by kind, what the lake has of each, once it has all of it."""
    decided: dict[str, dict[str, LakeEvent]] = {}
    async for events in system.lake.growing(LAKE_S):
        decided = {name: {} for name in received}
        for event in events:
            if event.get("envelope_id") in received:
                decided[event["envelope_id"]][event["event"]] = event
        if all({"envelope", "notification"} <= kinds.keys() for kinds in decided.values()):
            break
    return decided


def _traces(
    submitted: Mapping[str, float], received: Mapping[str, float], decided: Mapping[str, Mapping[str, LakeEvent]]
) -> Iterator[PushTimes]:
    for name, at in submitted.items():
        kinds = decided.get(name, {})
        if {"envelope", "notification"} <= kinds.keys():
            observed, queued = kinds["envelope"]["observed_at"] / 1000, kinds["notification"]["at"] / 1000
            yield PushTimes(at, observed, queued, received[name])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=RATE, help="statements a second")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    options = parser.parse_args()
    latency = asyncio.run(measured(options.rate, options.seconds))
    latency.write()
    report([*latency.figures(), *latency.figures_by_part()])


if __name__ == "__main__":
    main()
