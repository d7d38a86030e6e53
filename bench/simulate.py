"""Predicts latency, cost and what breaks first, and holds the prediction against the emulator: `make simulate`.

The emulator's stages are fitted to what `make bench-latency RATE=20` measured, and then what they would do at 50 a second
is compared with what `make bench-latency RATE=50` measured. Production's are made of its template and of
bench/measured.json. All figures go to `.build/simulation.json`, from which `make simulate-plots` draws.
"""

import json
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import ceil
from typing import Any

import simpy

from bench.latency import Latency, path_of, percentiles
from bench.scale import (
    COST_PAGE,
    LOADS,
    NEW_TABLE_WRITES,
    PAGE,
    ROOT,
    SECONDS_OF_A_DAY,
    Component,
    Deployed,
    Measured,
    components,
    dollars_a_million,
    production,
)
from bench.simulation import FanOut, Path, SimulatedTable, Stage, StageModel
from clarion.sqs import ENTRIES
from infra.environments import EMULATOR
from match.fan_out import PAGES_OF_A_LEG
from tests.match.ledger import read_table

RESULTS = ROOT / ".build" / "simulation.json"
SEED = 1
FIT, CHECK = 20, 50
"""Statements a second."""
MEDIAN_WITHIN, P99_WITHIN = 0.20, 0.35
ROUNDS = 15
FITTED = 3_000
STAGES = ("ingest", "match", "dispatch")
STATEMENTS, LEAST_S, LONGEST_S = 60_000, 3, 30
"""How many a prediction takes, but as many as come in so many seconds at least and at most."""
HEADROOM = 1.5
"""How much more than needed is there, where what a load needs is raised."""
CROWD, CALLS = 1_000_000, 100
WARM_WRITES = 20_000
MOST_LEGS = 256 // PAGES_OF_A_LEG


@dataclass(frozen=True)
class Prediction:
    """For a load: latency in seconds, and how much was still waiting when the last had arrived, by stage."""

    load: int
    p50: float
    p99: float
    waiting: Mapping[str, int]
    table_wait: float
    dollars_a_day: float


def fit(measured: Latency, each: float) -> list[StageModel]:
    """The emulator's stages, so that their medians and 99th percentiles come out as measured.

    `each` is what a further message of a batch takes, in parts of what the first does.
    """
    spans = _stage_spans(measured)
    medians = [percentiles(span)[0] for span in spans]
    busy = min(1.0, measured.cpu_s / sum(medians))
    sizes = [(10, 1), (EMULATOR.match.batch, EMULATOR.match.concurrency), (10, EMULATOR.dispatch.concurrency)]
    models = [
        StageModel(name, batch, concurrency, median * busy, median * busy * each, median * (1 - busy), spread=0.2)
        for name, (batch, concurrency), median in zip(STAGES, sizes, medians, strict=True)
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
    env = simpy.Environment()
    path = Path.of(models, random.Random(SEED), env=env, machine=simpy.Resource(env, processors))  # noqa: S311 - the same each time
    # As `bench.latency` submits them.
    path.arrive(rate, FITTED / rate, evenly=True)
    env.run()
    return path


def check() -> dict[str, Any] | None:
    """None where nothing has been measured yet."""
    if not all(path_of(rate).exists() for rate in (FIT, CHECK)):
        return None
    measure, at_check = Latency.read(FIT), Latency.read(CHECK)
    path = emulated(fit(measure, each_further(Measured.read())), CHECK, at_check.processors)
    simulated = path.latencies()
    actual = [trace.received - trace.submitted for trace in at_check.traces]
    errors = [one / other - 1 for one, other in zip(percentiles(simulated), percentiles(actual), strict=True)]
    return {
        "simulated": percentiles(simulated),
        "measured": percentiles(actual),
        "errors": errors,
        "holds": abs(errors[0]) <= MEDIAN_WITHIN and abs(errors[1]) <= P99_WITHIN,
        "simulated_s": sorted(simulated),
        "measured_s": sorted(actual),
    }


def each_further(measured: Measured) -> float:
    """What a further statement of a batch takes of match, in parts of what the first does."""
    return (measured.match_batch_cpu_s / measured.match_single_cpu_s - 1) / 9


def production_stages(deployed: Deployed, measured: Measured) -> list[StageModel]:
    single, pick_up, spread = measured.match_single_cpu_s, measured.pick_up_s, measured.spread
    match, apns = deployed.match, deployed.apns
    sending = 1 / (deployed.processors * measured.ingest_core_statements)
    return [
        StageModel("ingest", ENTRIES, 1, sending, sending, 0),
        StageModel("sending", ENTRIES, deployed.sends, 0, 0, measured.queue_request_s, spread=spread),
        StageModel(
            "match",
            match.batch,
            match.concurrency,
            single,
            single * each_further(measured),
            measured.match_wait_s,
            pick_up,
            spread,
        ),
        StageModel("dispatch", apns.batch, apns.concurrency, 0, 0, measured.dispatch_batch_s, pick_up, spread),
    ]


def raised(deployed: Deployed, load: int, rows: Sequence[Component]) -> Deployed:
    """With what docs/scale.md says that a load needs, and some headroom; never less than is deployed."""
    needed = {(row.name, row.limit): HEADROOM * row.needed(load) for row in rows}
    match, apns = (needed[name, "`concurrency`"] for name in ("match", "dispatch, by channel"))
    return replace(
        deployed,
        match=deployed.match._replace(concurrency=max(deployed.match.concurrency, ceil(match))),
        apns=deployed.apns._replace(concurrency=max(deployed.apns.concurrency, ceil(apns))),
        processors=max(deployed.processors, needed["ingest", "processors of a task"]),
        sends=max(deployed.sends, ceil(needed["the same", "requests in flight"])),
    )


def predict(deployed: Deployed, measured: Measured, load: int, writes: int, dollars: float) -> Prediction:
    draw = random.Random(SEED)  # noqa: S311 - the same each time
    tables = [SimulatedTable(writes, draw) for _ in range(2)]
    path = Path.of(production_stages(deployed, measured), draw, tables=tables)
    seconds = max(LEAST_S, min(LONGEST_S, STATEMENTS / load))
    path.arrive(load, seconds)
    path.env.run(until=seconds)
    waiting = {stage.model.name: len(stage.waiting) for stage in path.stages}
    path.env.run()
    p50, p99 = percentiles(path.latencies())
    table_wait = max(table.longest_wait for table in tables)
    return Prediction(load, p50, p99, waiting, table_wait, dollars * load * SECONDS_OF_A_DAY / 1_000_000)


def crowd(deployed: Deployed, measured: Measured, receivers: int) -> dict[str, Any]:
    """With `CALLS` calls a second beside it, whose latency is that until they are queued; without `receivers` these alone."""
    draw, env = random.Random(SEED), simpy.Environment()  # noqa: S311 - the same each time
    tables = [SimulatedTable(WARM_WRITES, draw) for _ in range(2)]
    *stages, _ = production_stages(deployed, measured)
    path = Path.of(stages, draw, env=env, tables=tables)
    path.arrive(CALLS, 2 * 60)
    pages = ceil(receivers / PAGE)
    model = StageModel(
        "pages",
        deployed.pages.batch,
        deployed.pages.concurrency,
        measured.page_cpu_s,
        0,
        measured.page_s() - measured.page_cpu_s,
        measured.pick_up_s,
        measured.spread,
        cold=True,
    )
    legs = [len(range(leg, pages, MOST_LEGS)) for leg in range(min(MOST_LEGS, pages))]
    fan_out = FanOut.of(Stage(env, model, draw, lambda _: None, tables=tables), legs, PAGE)
    env.run()
    return {"calls": percentiles(path.latencies()), "queued_at": sorted(fan_out.queued), "pages": len(fan_out.queued)}


def main() -> None:
    measured, template = Measured.read(), production()
    deployed, ledger = Deployed.of(template), read_table(COST_PAGE.read_text())
    rows = list(components(deployed, measured, ledger))
    dollars = dollars_a_million(deployed, measured, ledger)
    as_deployed = [predict(deployed, measured, load, NEW_TABLE_WRITES, dollars) for load in LOADS]
    as_raised = [
        predict(raised(deployed, load, rows), measured, load, max(NEW_TABLE_WRITES, 2 * load), dollars)
        for load in LOADS
    ]
    first = min(rows, key=lambda row: row.at)
    alone, beside = crowd(deployed, measured, 0), crowd(deployed, measured, CROWD)
    checked = check()
    results = {
        "check": checked,
        "as_deployed": [asdict(one) for one in as_deployed],
        "as_raised": [asdict(one) for one in as_raised],
        "crowd": beside,
        "calls_alone": alone["calls"],
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results))
    print(*report(as_deployed, as_raised, first, alone, beside), sep="\n")
    print(_checked(checked))
    sys.exit(checked is not None and not checked["holds"])


def report(
    as_deployed: Sequence[Prediction],
    as_raised: Sequence[Prediction],
    first: Component,
    alone: Mapping[str, Any],
    beside: Mapping[str, Any],
) -> list[str]:
    lines = []
    for now, then in zip(as_deployed, as_raised, strict=True):
        limit = f"{first.name} is full at {first.at:,.0f}/s" if now.load > first.at else "nothing breaks"
        lines.append(
            f"{now.load:,}/s, ${now.dollars_a_day:,.0f} a day: as deployed {_latency(now)}, {limit}; raised {_latency(then)}"
        )
    last, calls, undisturbed = beside["queued_at"][-1], beside["calls"], alone["calls"]
    lines.append(
        f"a crowd of {CROWD:,} is queued in {last:.0f} s; calls are in p50 {calls[0] * 1000:.0f} ms, "
        f"p99 {calls[1] * 1000:.0f} ms, without it {undisturbed[0] * 1000:.0f} and {undisturbed[1] * 1000:.0f} ms"
    )
    return lines


def _latency(prediction: Prediction) -> str:
    waiting = {name: count for name, count in prediction.waiting.items() if count > prediction.load / 10}
    behind = "".join(f", {count:,} wait for {name}" for name, count in waiting.items())
    return f"p50 {prediction.p50 * 1000:,.0f} ms, p99 {prediction.p99 * 1000:,.0f} ms{behind}"


def _checked(checked: Mapping[str, Any] | None) -> str:
    if checked is None:
        return f"check: not measured yet; run `make bench-latency` with RATE={FIT} and with RATE={CHECK}"
    errors = " and ".join(f"{error:+.0%}" for error in checked["errors"])
    return f"check: p50 and p99 at {CHECK}/s are {errors} of the emulator's: {'holds' if checked['holds'] else 'fails'}"


if __name__ == "__main__":
    main()
