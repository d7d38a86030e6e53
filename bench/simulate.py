"""Predicts latency, cost and what breaks first at three loads, and how long a crowd takes: `make simulate`.

Production's stages are made of its template and of bench/measured.json; whether such a model holds, `bench.fit` says. All
figures go to `.build/simulation.json`, from which `make simulate-plots` draws.
"""

import json
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import ceil
from typing import Any

import simpy

from bench.fit import CHECK, FIT, SEED, check, each_further
from bench.latency import percentiles
from bench.scale import (
    COST_PAGE,
    LOADS,
    NEW_TABLE_WRITES,
    PAGE,
    ROOT,
    SECONDS_OF_A_DAY,
    Capacities,
    Component,
    Measured,
    components,
    dollars_a_million,
    production,
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
    dollars_a_day: float

    def __str__(self) -> str:
        waiting = {name: count for name, count in self.waiting.items() if count > self.load / 10}
        behind = "".join(f", {count:,} wait for {name}" for name, count in waiting.items())
        return f"p50 {self.p50 * 1000:,.0f} ms, p99 {self.p99 * 1000:,.0f} ms{behind}"


def production_stages(deployed: Capacities, measured: Measured) -> list[StageModel]:
    single, pick_up, spread = measured.match_single_cpu_s, measured.pick_up_s, measured.spread
    match, apns = deployed.match, deployed.apns
    sending = measured.ingest_cpu_s / deployed.processors
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


def raised(deployed: Capacities, load: int, rows: Sequence[Component]) -> Capacities:
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


def predict(deployed: Capacities, measured: Measured, load: int, writes: int, dollars: float) -> Prediction:
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
    return Prediction(load, p50, p99, seconds, waiting, table_wait, dollars * load * SECONDS_OF_A_DAY / 1_000_000)


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
    ledger = read_table(COST_PAGE.read_text())
    rows = list(components(deployed, measured, ledger))
    dollars = dollars_a_million(deployed, measured, ledger)
    as_deployed = [predict(deployed, measured, load, NEW_TABLE_WRITES, dollars) for load in LOADS]
    as_raised = [
        predict(raised(deployed, load, rows), measured, load, max(NEW_TABLE_WRITES, 2 * load), dollars)
        for load in LOADS
    ]
    print(*report_loads(as_deployed, as_raised, min(rows, key=lambda row: row.at)), sep="\n")
    alone, beside = crowd(deployed, measured, 0), crowd(deployed, measured, CROWD)
    print(report_crowd(alone, beside))
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


def report_loads(as_deployed: Sequence[Prediction], as_raised: Sequence[Prediction], first: Component) -> Iterator[str]:
    for now, then in zip(as_deployed, as_raised, strict=True):
        limit = f"{first.name} is full at {first.at:,.0f}/s" if now.load > first.at else "nothing is full"
        yield (
            f"{now.load:,}/s, ${now.dollars_a_day:,.0f} a day: "
            f"as deployed for {now.after_s:.0f} s {now}, {limit}; raised {then}"
        )


def report_crowd(alone: Mapping[str, Any], beside: Mapping[str, Any]) -> str:
    (p50, p99), (p50_alone, p99_alone) = (
        [f"{seconds * 1000:.0f} ms" for seconds in one["calls"]] for one in (beside, alone)
    )
    return (
        f"a crowd of {CROWD:,} is queued in {beside['queued_at'][-1]:.0f} s; calls beside it in p50 {p50}, p99 {p99}, "
        f"without it in {p50_alone} and {p99_alone}"
    )


if __name__ == "__main__":
    main()
