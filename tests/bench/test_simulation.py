"""The simulation against what is known without it, and the fit against a truth that is known."""

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
import simpy

from bench.fit import CHECK, FIT, MEDIAN_WITHIN, P99_WITHIN, POLL_S, each_further, emulated, fit
from bench.latency import Latency, PushTimes, percentiles
from bench.scale import Capacities, Component, Consumption, Measured
from bench.simulate import raised
from bench.simulation import FanOut, Path, SimulatedStage, SimulatedTable, StageModel, Work

PROCESSORS = 2
STAGE = StageModel("match", batch=10, concurrency=4, cpu_s=0.1, each_cpu_s=0.0, wait_s=0.1)


def played(*models: StageModel, rate: float, seconds: float, until: float | None = None) -> Path:
    path = Path.of(models, random.Random(1))
    path.arrive(rate, seconds)
    path.env.run(until=until)
    return path


def test_without_waiting_a_path_takes_as_long_as_its_stages() -> None:
    path = played(STAGE, replace(STAGE, name="dispatch", pick_up_s=0.05), rate=1, seconds=20)
    assert min(path.latencies()) == pytest.approx(0.2 + 0.05 + 0.2)


def test_a_stage_works_off_as_much_as_its_invocations_can() -> None:
    path = played(STAGE, rate=400, seconds=10, until=10)
    assert len(path.done) == pytest.approx(4 * 10 / 0.2 * 10, rel=0.05)
    assert len(path.stages[0].waiting) > 1_000


def test_a_queue_that_is_looked_at_now_and_then_gives_all_that_has_come_at_once() -> None:
    polled = replace(STAGE, each_cpu_s=0.01, poll_s=0.5)
    path = Path.of([polled], random.Random(1))
    path.arrive(rate=10, seconds=0.45, evenly=True)
    path.env.run()
    assert [work.times[-1] for work in path.done] == pytest.approx([0.5 + 0.1 + 3 * 0.01 + 0.1] * 4)


def test_a_queue_that_was_empty_begins_with_five_invocations_and_gets_five_more_a_second() -> None:
    wide = replace(STAGE, batch=1, concurrency=1_000, cold=True)
    stage = played(wide, rate=2_000, seconds=2, until=0.15).stages[0]
    assert stage.running == 5
    assert played(wide, rate=2_000, seconds=4, until=3).stages[0].running == pytest.approx(20, abs=1)


def test_what_shares_a_machine_waits_for_it() -> None:
    env = simpy.Environment()
    path = Path.of([replace(STAGE, batch=1, wait_s=0.0)], random.Random(1), env=env, machine=simpy.Resource(env, 1))
    path.stages[0].send([Work([0.0]) for _ in range(4)])
    env.run()
    assert [work.times[-1] for work in path.done] == pytest.approx([0.1, 0.2, 0.3, 0.4])


def test_a_partition_serves_a_thousand_units_a_second() -> None:
    assert SimulatedTable(1_000, random.Random(1)).write(5.0, 1_001) == pytest.approx(6.0)
    assert SimulatedTable(10_000, random.Random(1)).write(5.0, 1_001) == pytest.approx(5.1, abs=0.05)


def test_each_page_of_a_crowd_is_taken_once_and_of_a_leg_one_at_a_time() -> None:
    env, legs = simpy.Environment(), (3, 3, 2)
    fan_out = FanOut.of(
        SimulatedStage(env, replace(STAGE, batch=1, concurrency=100), random.Random(1), print), legs, 250
    )
    env.run()
    assert fan_out.queued == pytest.approx([0.2] * 3 + [0.4] * 3 + [0.6] * 2)


TRUTH = [
    StageModel("ingest", 10, 1, 0.002, 0.0005, 0.003, spread=0.2),
    StageModel("match", 10, 2, 0.02, 0.003, 0.03, spread=0.3, poll_s=POLL_S),
    StageModel("dispatch", 10, 2, 0.01, 0.0015, 0.03, spread=0.3, poll_s=POLL_S),
]


def latency_of(models: Sequence[StageModel], rate: float) -> Latency:
    """As if it had been measured."""
    done = emulated(models, rate, PROCESSORS).done
    parts = {model.name: model.cpu_s for model in models}
    return Latency(rate, len(done), parts, PROCESSORS, [PushTimes(*work.times) for work in done])


def test_a_fit_at_twenty_a_second_predicts_fifty_of_a_path_that_is_known() -> None:
    fitted = fit(latency_of(TRUTH, FIT), each_further(Measured.read()))
    (p50, p99), (true_p50, true_p99) = (
        percentiles(emulated(models, CHECK, PROCESSORS).latencies()) for models in (fitted, TRUTH)
    )
    assert p50 == pytest.approx(true_p50, rel=MEDIAN_WITHIN)
    assert p99 == pytest.approx(true_p99, rel=P99_WITHIN)


def test_nothing_is_raised_beyond_what_can_be_deployed() -> None:
    fed = Consumption(20, 10, 0.5)
    deployed = Capacities(match=fed, pages=fed, apns=fed, tasks=2, processors=0.25, sends=8, executors=1)
    rows = [Component(name, "`concurrency`", 20, 0.01, "") for name in ("match", "dispatch, a channel")]
    few, many = (raised(deployed, Measured.read(), load, rows) for load in (100, 50_000))
    assert few == deployed
    assert (many.tasks, many.processors, many.sends) == (4, 1, 8)
    assert (many.match.concurrency, many.apns.concurrency) == (750, 750)
