"""A path of queues and the functions that they feed, as a discrete-event simulation; times are in seconds.

    arrivals ──▶ stage ──▶ stage ──▶ stage ──▶ done
                  │ waits for a free invocation, takes a batch, works, writes to tables

An invocation works on a processor of its own, as at AWS, or on a machine that all share. A table's partitions serve so
many units a second each, one after the other: what comes too fast waits, as it does when the SDK tries again.
"""

import random
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import simpy

from bench.scale import EVENT_SOURCE_GROWTH, EVENT_SOURCE_START, PARTITION_WRITES

type Events = Generator[simpy.Event, Any]


@dataclass(slots=True)
class Work:
    """`times` has when it arrived, and then when each stage was done with it. It writes `units` to each table."""

    times: list[float]
    units: int = 1


@dataclass(frozen=True)
class StageModel:
    """An invocation takes `cpu_s` of a processor for one message and `each_cpu_s` for each further one, and waits.

    A message is picked up `pick_up_s` after it was sent, if an invocation is free; where the queue is looked at every
    `poll_s` only, with all that have come by then. Durations vary by `spread`, the standard deviation of their
    logarithm. A `cold` stage's queue was empty: its invocations become more by and by.
    """

    name: str
    batch: int
    concurrency: int
    cpu_s: float
    each_cpu_s: float
    wait_s: float
    pick_up_s: float = 0.0
    spread: float = 0.0
    cold: bool = False
    poll_s: float = 0.0

    def seconds(self, size: int) -> float:
        return self.cpu_s + self.each_cpu_s * (size - 1) + self.wait_s


class SimulatedTable:
    """As many partitions as its units a second ask for; keys are spread evenly."""

    def __init__(self, units_per_second: int, draw: random.Random) -> None:
        self._free_at = [0.0] * max(1, units_per_second // PARTITION_WRITES)
        self._draw = draw
        self.longest_wait = 0.0

    def write(self, now: float, units: int) -> float:
        """When the last of so many units is written, from `now` on."""
        done = now
        for _ in range(units):
            partition = self._draw.randrange(len(self._free_at))
            begun = max(now, self._free_at[partition])
            self._free_at[partition] = begun + 1 / PARTITION_WRITES
            self.longest_wait = max(self.longest_wait, begun - now)
            done = max(done, begun)
        return done


@dataclass
class SimulatedStage:
    """`then` takes what an invocation is done with. Without a `machine` each has its own processor."""

    env: simpy.Environment
    model: StageModel
    draw: random.Random
    then: Callable[[Sequence[Work]], None]
    machine: simpy.Resource | None = None
    tables: Sequence[SimulatedTable] = ()
    waiting: deque[Work] = field(default_factory=deque)
    most_waiting: int = 0
    running: int = 0
    begun_at: float | None = None

    def send(self, works: Sequence[Work]) -> None:
        """Messages of one sending."""
        self.env.process(self._deliver(works))

    def _deliver(self, works: Sequence[Work]) -> Events:
        yield self.env.timeout(self.model.pick_up_s * self._duration_factor())
        self.waiting.extend(works)
        self.most_waiting = max(self.most_waiting, len(self.waiting))
        if self.model.poll_s:
            yield self.env.timeout(self.model.poll_s - self.env.now % self.model.poll_s)
        self._start()

    def _start(self) -> None:
        while self.waiting and self.running < self._allowed():
            batch = [self.waiting.popleft() for _ in range(min(self.model.batch, len(self.waiting)))]
            self.running += 1
            self.env.process(self._invoke(batch))

    def _allowed(self) -> int:
        if not self.model.cold:
            return self.model.concurrency
        if self.begun_at is None:
            self.begun_at = self.env.now
        grown = EVENT_SOURCE_START + EVENT_SOURCE_GROWTH * (self.env.now - self.begun_at)
        return min(self.model.concurrency, int(grown))

    def _invoke(self, batch: Sequence[Work]) -> Events:
        factor = self._duration_factor()
        cpu_s = self.model.seconds(len(batch)) - self.model.wait_s
        yield from self._compute(cpu_s * factor)
        yield self.env.timeout(self.model.wait_s * factor)
        units = sum(work.units for work in batch)
        written = max((table.write(self.env.now, units) for table in self.tables), default=self.env.now)
        yield self.env.timeout(written - self.env.now)
        for work in batch:
            work.times.append(self.env.now)
        self.running -= 1
        self.then(batch)
        self._start()

    def _compute(self, seconds: float) -> Events:
        if self.machine is None:
            yield self.env.timeout(seconds)
            return
        with self.machine.request() as turn:
            yield turn
            yield self.env.timeout(seconds)

    def _duration_factor(self) -> float:
        """Around a median of 1."""
        return self.draw.lognormvariate(0, self.model.spread)


@dataclass
class Path:
    """Stages one after the other; `done` has what came through."""

    env: simpy.Environment
    draw: random.Random
    stages: list[SimulatedStage] = field(default_factory=list)
    done: list[Work] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        models: Sequence[StageModel],
        draw: random.Random,
        *,
        env: simpy.Environment | None = None,
        machine: simpy.Resource | None = None,
        tables: Sequence[SimulatedTable] = (),
    ) -> "Path":
        """The stage `match` writes to the tables."""
        path = cls(env or simpy.Environment(), draw)
        then: Callable[[Sequence[Work]], None] = path.done.extend
        for model in reversed(models):
            written = tables if model.name == "match" else ()
            stage = SimulatedStage(path.env, model, draw, then, machine, written)
            path.stages.insert(0, stage)
            then = stage.send
        return path

    def arrive(self, rate: float, seconds: float, *, evenly: bool = False) -> None:
        """So many a second, on average: `evenly` one at some moment of each interval, else as they happen to come."""
        self.env.process(self._arrivals(rate, round(rate * seconds), evenly=evenly))

    def _arrivals(self, rate: float, count: int, *, evenly: bool) -> Events:
        for number in range(count):
            at = (number + self.draw.random()) / rate if evenly else self.env.now + self.draw.expovariate(rate)
            yield self.env.timeout(at - self.env.now)
            self.stages[0].send([Work([self.env.now])])

    def latencies(self, stage: int | None = None) -> list[float]:
        """From arrival to the end, or of one stage."""
        if stage is None:
            return [work.times[-1] - work.times[0] for work in self.done]
        return [work.times[stage + 1] - work.times[stage] for work in self.done]


@dataclass
class FanOut:
    """A crowd's pages: legs side by side, each page of a leg after the one before. `queued` has when each was done."""

    pages: SimulatedStage
    left: list[int]
    queued: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, pages: SimulatedStage, legs: Sequence[int], receivers: int) -> "FanOut":
        """Each leg has so many pages, each page so many `receivers`."""
        fan_out = cls(pages, list(legs))
        pages.then = fan_out._continue
        pages.send([Work([pages.env.now], receivers) for _ in legs])
        return fan_out

    def _continue(self, batch: Sequence[Work]) -> None:
        """Legs are as good as equal: whichever has most pages left goes on."""
        for work in batch:
            self.queued.append(work.times[-1])
            longest = max(range(len(self.left)), key=self.left.__getitem__)
            self.left[longest] -= 1
            if self.left[longest] > 0:
                self.pages.send([Work([work.times[-1]], work.units)])
