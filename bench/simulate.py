"""Predicts latency, cost and what breaks first at three loads, and how long a crowd takes: `make simulate`.

Production's stages are made of its template and of bench/measured.json; whether such a model holds, `bench.fit` says. It
writes the tables of docs/scale.md, "The simulation", anew. All figures go to `.build/simulation.json`, from which
`make simulate-plots` draws.
"""

import json
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import reduce
from math import ceil
from typing import Any

import simpy

from bench.fit import CHECK, FIT, SEED, check, each_further
from bench.latency import percentiles
from bench.markdown import inserted, table_row
from bench.scale import (
    CONCURRENCY,
    COST_PAGE,
    LOADS,
    MOST_TASKS,
    NEW_TABLE_WRITES,
    PAGE,
    PAGE_OF_DOCS,
    ROOT,
    Capacities,
    Component,
    Consumption,
    Measured,
    components,
    production,
    shared_cpu_s,
)
from bench.simulation import FanOut, Path, SimulatedStage, SimulatedTable, StageModel
from clarion.sqs import ENTRIES
from match.fan_out import PAGES_OF_A_LEG
from tests.match.ledger import read_table

RESULTS = ROOT / ".build" / "simulation.json"
STATEMENTS, LEAST_S, LONGEST_S = 60_000, 3, 30
"""How many a prediction takes, but as many as come in so many seconds at least and at most."""
HEADROOM = 1.5
"""How much more than needed is there, where what a load needs is raised."""
CROWD, CALLS = 1_000_000, 100
CROWD_SECONDS = 120
"""The aim for a crowd."""
WARM_WRITES = 20_000
LARGER_TASKS = [(2, 0.25), (2, 0.5), *((tasks, 1.0) for tasks in range(2, MOST_TASKS + 1))]
"""How many of ingest can be deployed, and of how many processors, the smallest first."""
MOST_LEGS = 256 // PAGES_OF_A_LEG


@dataclass(frozen=True)
class Prediction:
    """For a load: latency in seconds, and how much was waiting for each stage when the last had arrived, `after_s`."""

    load: int
    p50: float
    p99: float
    after_s: float
    waiting: Mapping[str, int]
    table_wait: float

    def row(self, how: str) -> str:
        waiting = {name: count for name, count in self.waiting.items() if count > self.load / 10}
        behind = ", ".join(f"{count:,} wait for {name}" for name, count in waiting.items())
        kept_up = f"overload, cut off after {self.after_s:.0f} s: {behind}" if behind else "keeps up"
        latencies = (f"{1000 * seconds:,.0f}" for seconds in (self.p50, self.p99))
        return table_row([f"{self.load:,}", how, *latencies, kept_up])


def production_stages(deployed: Capacities, measured: Measured) -> list[StageModel]:
    single, pick_up, spread = measured.match_single_cpu_s, measured.pick_up_s, measured.spread
    match, apns = deployed.match, deployed.apns
    tasks, sends = deployed.tasks, deployed.tasks * deployed.sends
    reading = shared_cpu_s(measured, tasks) / deployed.processors
    return [
        StageModel("ingest", ENTRIES, tasks, reading, reading, 0),
        StageModel("sending", ENTRIES, sends, 0, 0, measured.queue_request_s, spread=spread),
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


def raised(deployed: Capacities, measured: Measured, load: int, rows: Sequence[Component]) -> Capacities:
    """With what docs/scale.md says that a load needs, and some headroom, as far as it can be deployed; never less than is."""
    needed = {row.name: HEADROOM * row.needed(load) for row in rows if row.limit == CONCURRENCY}
    tasks, processors = next(
        (each for each in LARGER_TASKS if _taken_in(measured, *each) >= HEADROOM * load), LARGER_TASKS[-1]
    )
    return replace(
        deployed,
        match=_at_least(deployed.match, needed["match"]),
        apns=_at_least(deployed.apns, needed["dispatch, a channel"]),
        tasks=tasks,
        processors=processors,
    )


def _taken_in(measured: Measured, tasks: int, processors: float) -> float:
    """Statements a second."""
    return tasks * processors / shared_cpu_s(measured, tasks)


def _at_least(deployed: Consumption, needed: float) -> Consumption:
    return deployed._replace(concurrency=max(deployed.concurrency, ceil(needed)))


def predict(deployed: Capacities, measured: Measured, load: int, writes: int) -> Prediction:
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
    return Prediction(load, p50, p99, seconds, waiting, table_wait)


def crowd(deployed: Capacities, measured: Measured, receivers: int) -> dict[str, Any]:
    """With `CALLS` calls a second beside it, whose latency is that until they are queued; without `receivers` these alone."""
    draw, env = random.Random(SEED), simpy.Environment()  # noqa: S311 - the same each time
    tables = [SimulatedTable(WARM_WRITES, draw) for _ in range(2)]
    *stages, _ = production_stages(deployed, measured)
    path = Path.of(stages, draw, env=env, tables=tables)
    path.arrive(CALLS, CROWD_SECONDS)
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
    fan_out = FanOut.of(SimulatedStage(env, model, draw, lambda _: None, tables=tables), legs, PAGE)
    env.run()
    return {"calls": percentiles(path.latencies()), "queued_at": sorted(fan_out.queued)}


def main() -> None:
    measured, deployed = Measured.read(), Capacities.of(production())
    rows = components(deployed, measured, read_table(COST_PAGE.read_text()))
    as_deployed = [predict(deployed, measured, load, NEW_TABLE_WRITES) for load in LOADS]
    as_raised = [
        predict(raised(deployed, measured, load, rows), measured, load, max(NEW_TABLE_WRITES, 2 * load))
        for load in LOADS
    ]
    alone, beside = crowd(deployed, measured, 0), crowd(deployed, measured, CROWD)
    tables = [loads_table(as_deployed, as_raised), crowd_table(alone, beside)]
    PAGE_OF_DOCS.write_text(reduce(inserted, tables, PAGE_OF_DOCS.read_text()))
    print(*(line for table in tables for line in table), sep="\n")
    checked = check()
    print(f"check: {checked or f'not measured yet: run `make bench-latency` with RATE={FIT} and with RATE={CHECK}'}")
    results = {
        "as_deployed": [asdict(one) for one in as_deployed],
        "as_raised": [asdict(one) for one in as_raised],
        "crowd": beside | {"page": PAGE, "aim_s": CROWD_SECONDS},
        "check": asdict(checked) if checked else None,
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results))
    sys.exit(checked is not None and not checked.holds)


def loads_table(as_deployed: Sequence[Prediction], as_raised: Sequence[Prediction]) -> list[str]:
    heads = ["statements a second", "capacity", "p50, ms", "p99, ms", "at the end"]
    lines = [table_row(heads), table_row(["--:", "---", "--:", "--:", "---"])]
    for now, then in zip(as_deployed, as_raised, strict=True):
        lines += [now.row("as deployed"), then.row("raised")]
    return lines


def crowd_table(alone: Mapping[str, Any], beside: Mapping[str, Any]) -> list[str]:
    """Calls are those of others, until they are queued."""
    heads = [
        f"{CALLS} calls a second",
        "p50, ms",
        "p99, ms",
        "the crowd is queued after, s",
        f"aim, s: {CROWD_SECONDS}",
    ]
    lines = [table_row(heads), table_row(["---", *["--:"] * 4])]
    for name, one in ((f"beside a crowd of {CROWD:,}", beside), ("without it", alone)):
        queued = one["queued_at"]
        taken = [f"{queued[-1]:.0f}", "met" if queued[-1] <= CROWD_SECONDS else "missed"] if queued else ["-", "-"]
        lines.append(table_row([name, *(f"{1000 * seconds:.0f}" for seconds in one["calls"]), *taken]))
    return lines


if __name__ == "__main__":
    main()
