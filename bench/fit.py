"""The simulation fitted to the emulator at one pace and held against it at another.

Both were measured by `make bench-latency`. Each stage's duration and its spread are changed until its median and its 99th
percentile come out as they were measured at `FIT` statements a second; nothing is fitted at `CHECK`.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import simpy

from bench.latency import Latency, path_of, percentiles
from bench.scale import BATCH, Measured
from bench.simulation import Path, StageModel
from clarion.sqs import ENTRIES
from infra.environments import EMULATOR

FIT, CHECK = 20, 50
"""Statements a second."""
MEDIAN_WITHIN, P99_WITHIN = 0.20, 0.35
SEED = 1
ROUNDS = 15
FITTED = 3_000
STAGES = ("ingest", "match", "dispatch")
POLL_S = 0.05
"""So long the emulator waits until it looks at its queues again, if it found nothing in them."""


@dataclass(frozen=True)
class Checked:
    """Sorted latencies in seconds, and by which part of the measured ones the simulated median and 99th differ."""

    simulated: Sequence[float]
    measured: Sequence[float]
    median_error: float
    p99_error: float

    @property
    def holds(self) -> bool:
        return abs(self.median_error) <= MEDIAN_WITHIN and abs(self.p99_error) <= P99_WITHIN

    def __str__(self) -> str:
        return (
            f"p50 and p99 at {CHECK}/s are {self.median_error:+.0%} and {self.p99_error:+.0%} of the emulator's: "
            f"{'holds' if self.holds else 'fails'}"
        )


def fit(measured: Latency, each: float) -> list[StageModel]:
    """The emulator's stages, so that their medians and 99th percentiles come out as measured.

    `each` is what a further message of a batch takes, in parts of what the first does.
    """
    spans = _stage_spans(measured)
    medians = [percentiles(span)[0] for span in spans]
    busy = min(1.0, measured.cpu_s / sum(medians))
    fed = [(one.batch, one.concurrency, POLL_S) for one in (EMULATOR.match, EMULATOR.dispatch)]
    models = [
        StageModel(
            name,
            batch,
            concurrency,
            median * busy,
            median * busy * each,
            median * (1 - busy),
            spread=0.2,
            poll_s=poll_s,
        )
        for name, (batch, concurrency, poll_s), median in zip(STAGES, [(ENTRIES, 1, 0.0), *fed], medians, strict=True)
    ]
    for _ in range(ROUNDS):
        path = emulated(models, measured.rate, measured.processors)
        models = [
            _adjusted(model, path.latencies(at), span)
            for at, (model, span) in enumerate(zip(models, spans, strict=True))
        ]
    return models


def _stage_spans(measured: Latency) -> list[list[float]]:
    """Never below a tenth of a millisecond: two processes' clocks are read."""
    times = [(trace.submitted, trace.observed, trace.queued, trace.received) for trace in measured.traces]
    return [[max(1e-4, one[at + 1] - one[at]) for one in times] for at in range(len(STAGES))]


def _adjusted(model: StageModel, simulated: Sequence[float], span: Sequence[float]) -> StageModel:
    """A step towards what was measured, by half of the way."""
    (p50, p99), (is_p50, is_p99) = percentiles(span), percentiles(simulated)
    factor = (p50 / is_p50) ** 0.5
    tail = ((p99 / p50) / (is_p99 / is_p50)) ** 0.5
    return replace(
        model,
        cpu_s=model.cpu_s * factor,
        each_cpu_s=model.each_cpu_s * factor,
        wait_s=model.wait_s * factor,
        spread=min(2.0, max(0.02, model.spread * tail)),
    )


def emulated(models: Sequence[StageModel], rate: float, processors: int) -> Path:
    """Statements through the emulator's stages, which share its machine."""
    env, draw = simpy.Environment(), random.Random(SEED)  # noqa: S311 - the same each time
    path = Path.of(models, draw, env=env, machine=simpy.Resource(env, processors))
    # As `bench.latency` submits them.
    path.arrive(rate, FITTED / rate, evenly=True)
    env.run()
    return path


def check() -> Checked | None:
    """None where nothing has been measured yet."""
    if not all(path_of(rate).exists() for rate in (FIT, CHECK)):
        return None
    at_fit, at_check = Latency.read(FIT), Latency.read(CHECK)
    path = emulated(fit(at_fit, each_further(Measured.read())), CHECK, at_check.processors)
    simulated = path.latencies()
    actual = [trace.received - trace.submitted for trace in at_check.traces]
    errors = [one / other - 1 for one, other in zip(percentiles(simulated), percentiles(actual), strict=True)]
    return Checked(sorted(simulated), sorted(actual), *errors)


def each_further(measured: Measured) -> float:
    """What a further statement of a batch takes of match, in parts of what the first does."""
    return (measured.match_batch_cpu_s / measured.match_single_cpu_s - 1) / (BATCH - 1)
