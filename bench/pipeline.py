"""`make bench-pipeline`: reconcile against the bare cost of its signatures, on one core and two, and as rules grow.

All in one run, so that the ratios hold on whatever machine it is. The last line sums up.
"""

import argparse
import multiprocessing
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import sr25519

from clarion.signature import sign, verify
from clarion.statement import Statement
from pipeline.generator.day import answers, generate
from pipeline.generator.plan import SOME_OF_EACH, Plan
from pipeline.lake import HOUR_MS, Kind, Lake
from pipeline.reconcile import Terms, reconcile
from pipeline.session import session
from pipeline.verify import verified

START = 1_790_000_000_000 // HOUR_MS * HOUR_MS
NOW = START + 48 * HOUR_MS
WHERE = Path(".build") / "bench-pipeline"
SAME = ("receipt", "subscription_id", "difference")
BARE = 20_000


@dataclass
class Took:
    seconds: float = 0.0


@contextmanager
def timed(what: str) -> Iterator[Took]:
    took = Took()
    begun = time.perf_counter()
    yield took
    took.seconds = time.perf_counter() - begun
    print(f"  {what:44} {took.seconds:8.1f} s", flush=True)


def bare_seconds(_: int = 0) -> float:
    """Seconds for one bare `sr25519.verify`, in this process."""
    keys = sr25519.pair_from_seed(sha256(b"bench").digest())
    statement = sign(Statement(1 << 63, (bytes(32),), bytes(200)), keys)
    if not verify(statement) or statement.proof is None:
        raise AssertionError("the benchmark's own statement does not verify")
    signature, payload, signer = statement.proof.signature, statement.signing_payload, statement.proof.signer
    begun = time.perf_counter()
    for _ in range(BARE):
        sr25519.verify(signature, payload, signer)
    return (time.perf_counter() - begun) / BARE


def bare_on(cores: int) -> float:
    """Seconds for one bare verification when `cores` do it at once: of all of them together."""
    with multiprocessing.get_context("spawn").Pool(cores) as pool:
        each = pool.map(bare_seconds, range(cores), chunksize=1)
    return sum(each) / len(each) / cores


def lake_of(folder: str, plan: Plan, cores: int) -> Lake:
    lake = Lake(session("bench", cores=cores), str(WHERE / folder))
    with timed(f"generate {plan.statements:,} statements, {plan.rules:,} rules"):
        generate(lake, plan, compacted=True)
    return lake


def verify_seconds(folder: str, cores: int) -> float:
    """Seconds for the verify stage alone, for a statement, once the workers are warm."""
    spark = session("bench", cores=cores)
    observed = Lake(spark, str(WHERE / folder)).read(Kind.OBSERVED).repartition(2 * cores, "receipt").cache()
    count = observed.count()
    verified(observed.limit(4_000)).write.format("noop").mode("overwrite").save()
    with timed(f"verify {count:,} on {cores} core(s)") as took:
        verified(observed).write.format("noop").mode("overwrite").save()
    spark.stop()
    return took.seconds / count


def reconcile_seconds(lake: Lake, plan: Plan) -> tuple[float, bool]:
    """Seconds for a whole reconciliation, and whether it found the planted faults and nothing else."""
    with timed(f"reconcile, {plan.rules:,} rules") as took:
        found = reconcile(lake, plan.period, NOW, Terms()).select(*SAME).persist()
        count = found.count()
    planted = answers(lake).select(*SAME)
    wrong = found.exceptAll(planted).count() + planted.exceptAll(found).count()
    print(f"  {count:,} differences found, {wrong} of them or of the planted wrong")
    return took.seconds, wrong == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--statements", type=int, default=200_000)
    parser.add_argument("--rules", type=int, nargs="+", default=[1_000_000, 10_000_000])
    wanted = parser.parse_args()
    shutil.rmtree(WHERE, ignore_errors=True)
    print("bare sr25519.verify")
    bare = {cores: bare_on(cores) for cores in (1, 2)}
    print(f"  {1e6 * bare[1]:.1f} µs on one core, {1e6 * bare[2]:.1f} µs on two together")
    times, right = {}, True
    for rules in wanted.rules:
        plan = Plan(START, statements=wanted.statements, rules=rules, faults=SOME_OF_EACH)
        lake = lake_of(str(rules), plan, cores=2)
        times[rules], flawless = reconcile_seconds(lake, plan)
        right = right and flawless
        lake.spark.stop()
    first = str(wanted.rules[0])
    stage = {cores: verify_seconds(first, cores) for cores in (1, 2)}
    growth = ", ".join(f"{rules:,} rules {seconds:.0f} s" for rules, seconds in times.items())
    print(
        f"verify stage at {bare[2] / stage[2]:.2f} of bare sr25519.verify on two cores ({1 / stage[2]:,.0f} a second), "
        f"{bare[1] / stage[1]:.2f} on one; two cores {stage[1] / stage[2]:.2f} times one; reconcile of "
        f"{wanted.statements:,} statements: {growth}; every planted fault and nothing else: {'yes' if right else 'NO'}"
    )
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
