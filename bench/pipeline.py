"""`make bench-pipeline`: reconcile against the bare cost of its signatures, on one core and two, and as rules grow.

The verify stage and bare `sr25519.verify` take turns over the same statements on the same cores, and the ratio is the
median of the turns' ratios: whatever else the machine does hits both sides alike. Each turn is in processes of its
own, since where a library happens to lie in memory makes some percent of difference. The last line sums up.
"""

import argparse
import multiprocessing
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from statistics import median
from typing import NamedTuple

import sr25519
from pyarrow import dataset
from pyspark.sql import DataFrame

from clarion.networks.statements.codec import MalformedStatement, ProofKind, decode
from pipeline.generator.day import answers, generate, generate_observed
from pipeline.generator.plan import SOME_OF_EACH, Plan
from pipeline.lake import EventLake
from pipeline.period import HOUR_MS, Period
from pipeline.reconcile import Terms, reconcile
from pipeline.schemas import EventKind
from pipeline.session import session
from pipeline.verify import verified

START = 1_790_000_000_000 // HOUR_MS * HOUR_MS
NOW = START + 48 * HOUR_MS
WHERE = Path(".build") / "bench-pipeline"
SAME = ("receipt", "subscription_id", "difference")
BARE = 20_000
BARE_TIMES_OVER = 10
"""So often each process verifies the first `BARE` statements in a turn: for almost as long as the stage takes."""

type Signed = tuple[bytes, bytes, bytes]


@dataclass
class Took:
    seconds: float = 0.0


@contextmanager
def timed(what: str) -> Iterator[Took]:
    print(f"  {what:56}", end="", flush=True)
    took = Took()
    begun = time.perf_counter()
    yield took
    took.seconds = time.perf_counter() - begun
    print(f"{took.seconds:8.1f} s", flush=True)


class StageTimes(NamedTuple):
    """Seconds for a verification, of all cores together: bare, and of the verify stage; medians of its turns."""

    bare: float
    stage: float
    ratio: float


class Reconciled(NamedTuple):
    """`right`: it found the planted faults and nothing else."""

    seconds: float
    right: bool


def on_cores[**P, R](cores: int, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """In a process of its own that has so many cores, with all that it starts, such as Spark."""
    with _processes(1, cores) as (process,):
        return process.submit(work, *args, **kwargs).result()


@contextmanager
def _processes(count: int, cores: int) -> Iterator[list[ProcessPoolExecutor]]:
    mine = sorted(os.sched_getaffinity(0))[:cores]
    spawn = multiprocessing.get_context("spawn")
    made = [
        ProcessPoolExecutor(1, mp_context=spawn, initializer=os.sched_setaffinity, initargs=(0, mine))
        for _ in range(count)
    ]
    try:
        yield made
    finally:
        for process in made:
            process.shutdown()


@cache
def signed(root: str) -> Sequence[Signed]:
    """What `sr25519.verify` takes, of the first statements in the lake."""
    observed = dataset.dataset(f"{root}/{EventKind.OBSERVED}", format="parquet").to_batches(columns=["raw"])
    raws = (raw for batch in observed for raw in batch.column("raw").to_pylist())
    return list(islice(filter(None, map(_signed, raws)), BARE))


def _signed(raw: bytes) -> Signed | None:
    try:
        statement = decode(raw)
    except MalformedStatement:
        return None
    proof = statement.proof
    if proof is None or proof.kind is not ProofKind.SR25519:
        return None
    return proof.signature, statement.signing_payload, proof.signer


def verify_bare(root: str) -> int:
    statements = signed(root)
    for _ in range(BARE_TIMES_OVER):
        for signature, payload, signer in statements:
            sr25519.verify(signature, payload, signer)
    return BARE_TIMES_OVER * len(statements)


def bare_seconds(processes: Sequence[ProcessPoolExecutor], root: str) -> float:
    begun = time.perf_counter()
    verified_in = [process.submit(verify_bare, root) for process in processes]
    count = sum(future.result() for future in verified_in)
    return (time.perf_counter() - begun) / count


def run(rows: DataFrame) -> float:
    begun = time.perf_counter()
    rows.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - begun


def verify_stage(root: str, cores: int) -> StageTimes:
    """One turn: the stage from the lake's files on, and what it is compared with; both have warmed up before."""
    lake = EventLake(session("bench", cores=cores), root)
    always = Period(0, NOW)
    facts = verified(lake.files(EventKind.OBSERVED, always), always)
    count = facts.where("flaw is null or flaw not in ('malformed', 'unsupported_proof')").count()
    with _processes(cores, cores) as processes:
        bare_seconds(processes, root)
        bare, stage = bare_seconds(processes, root), run(facts) / count
    lake.spark.stop()
    return StageTimes(bare, stage, bare / stage)


def verify_stages(root: str, cores: int, turns: int) -> StageTimes:
    taken = []
    for turn in range(1, turns + 1):
        taken.append(on_cores(cores, verify_stage, root, cores))
        bare, stage, ratio = taken[-1]
        print(
            f"    turn {turn}: {1e6 * bare:6.1f} µs bare, {1e6 * stage:6.1f} µs in the stage: {ratio:.2f}", flush=True
        )
    return StageTimes(*(median(column) for column in zip(*taken, strict=True)))


def observed_day(root: str, statements: int) -> None:
    lake = EventLake(session("bench", cores=2), root)
    with timed(f"generate {statements:,} statements"):
        generate_observed(lake, Plan(START, statements=statements, rules=0))
    lake.spark.stop()


def reconciled(root: str, plan: Plan) -> Reconciled:
    lake = EventLake(session("bench", cores=2), root)
    with timed(f"generate {plan.statements:,} statements, {plan.rules:,} rules"):
        generate(lake, plan, compacted=True)
    with timed("reconcile") as took:
        found = reconcile(lake, plan.period, NOW, Terms()).differences.select(*SAME).persist()
        count = found.count()
    planted = answers(lake).select(*SAME)
    wrong = found.exceptAll(planted).count() + planted.exceptAll(found).count()
    print(f"    {count:,} differences found; {wrong} of them, or of the planted, wrong", flush=True)
    lake.spark.stop()
    return Reconciled(took.seconds, wrong == 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--statements", type=int, default=100_000)
    parser.add_argument("--rules", type=int, nargs="+", default=[1_000_000, 3_000_000, 10_000_000])
    parser.add_argument("--observed", type=int, default=400_000, help="statements through the verify stage")
    parser.add_argument("--turns", type=int, default=3)
    wanted = parser.parse_args()
    shutil.rmtree(WHERE, ignore_errors=True)
    results: dict[int, Reconciled] = {}
    for rules in wanted.rules:
        print(f"a day with {rules:,} rules, on two cores", flush=True)
        plan = Plan(START, statements=wanted.statements, rules=rules, faults=SOME_OF_EACH)
        results[rules] = on_cores(2, reconciled, str(WHERE / str(rules)), plan)
    print("the verify stage", flush=True)
    root = str(WHERE / "observed")
    on_cores(2, observed_day, root, wanted.observed)
    stages: dict[int, StageTimes] = {}
    for cores in (1, 2):
        print(f"  on {cores} core{'s' * (cores > 1)}", flush=True)
        stages[cores] = verify_stages(root, cores, wanted.turns)
    right = all(result.right for result in results.values())
    one, two, whole = stages[1], stages[2], results[wanted.rules[0]].seconds / wanted.statements
    growth = ", ".join(f"{rules:,} rules {result.seconds:.0f} s" for rules, result in results.items())
    print(
        f"verify stage {two.ratio:.2f} of bare sr25519.verify on two cores ({1 / two.stage:,.0f} statements/s), "
        f"{one.ratio:.2f} on one; two cores {one.stage / two.stage:.2f} times one; whole reconcile {two.bare / whole:.2f} "
        f"({1 / whole:,.0f} statements/s); {growth}; planted faults and nothing else: {'yes' if right else 'NO'}"
    )
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
