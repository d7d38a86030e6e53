"""`make bench-pipeline`: what reconcile costs, its constant and its slope apart, against the bare cost of signatures.

- *Statements*: one lake, of which periods of several lengths are reconciled, each in a session of its own. A line
  through what they took of the processors has a slope, seconds for each further statement, and a constant. The
  *margin* is what bare verification takes of the slope: processor time of all processes beside processor time, so that
  whatever else the machine does makes little difference. Bare verification is measured before each of the periods.
- *Verification*: the verify stage and bare `sr25519.verify` take turns over the same statements on the same cores, and
  the ratio is the median of the turns' ratios. Each turn is in processes of its own, since where a library happens to
  lie in memory makes some percent of difference.
- *Rules*: the shortest of these periods, while the lake gets more and more rules, of senders that are not heard that day.
- *Cold*: a small day by a new process, and the floor: a new process that starts a bare session of PySpark for one
  Python stage. Beside it stands the session that the small day starts, for the same stage.

What a loud pair takes is a bench of its own: `bench.pipeline_pair`.

What is measured goes to `.build/pipeline.json`, which `bench/plots.py` draws, and into the table of docs/lake.md. The
last lines say the slope, the constant, and what the bench has taken in all.
"""

import argparse
import json
import multiprocessing
import os
import platform
import re
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from itertools import islice, pairwise
from pathlib import Path
from statistics import linear_regression, median
from typing import NamedTuple

import pyarrow as pa
import sr25519
from pyarrow import compute as pc
from pyarrow import dataset
from pyspark.sql import DataFrame, SparkSession

from bench.figures import Figure, report, table
from bench.markdown import inserted
from bench.pipeline_snapshots import RULES_OF_ONE, add_rules
from bench.pipeline_towns import ANSWERS, build
from bench.processors import processor_seconds
from clarion.networks.statements.codec import MalformedStatement, ProofKind, decode
from pipeline.columns import NOTIFICATION_KEY, EventKind
from pipeline.generator.day import generate
from pipeline.generator.plan import SOME_OF_EACH, Plan
from pipeline.lake.commits import LakeView
from pipeline.lake.event_lake import EventLake
from pipeline.period import DAY_MS, HOUR_MS, Period
from pipeline.reconciliation.reconcile import reconcile, size_of
from pipeline.reconciliation.verify import verified
from pipeline.spark.session import session, small_lake_settings
from pipeline.terms import Terms

START = 1_790_000_000_000 // HOUR_MS * HOUR_MS
NOW = START + 48 * HOUR_MS
ROOT = Path(__file__).parent.parent
WHERE = ROOT / ".build" / "bench-pipeline"
PLOTTED = ROOT / ".build" / "pipeline.json"
PAGE = ROOT / "docs" / "lake.md"
CORES = 2
SAME = (*NOTIFICATION_KEY, "difference")
TERMS = Terms(lookback=HOUR_MS)
"""What is shown again comes within the hour, and no period shall read more of the day than another."""
BARE = 20_000
BARE_TIMES_OVER = 3
"""So often each process verifies the first `BARE` statements in a turn."""
STAGED_HOURS = 2
"""Of the day, so many go through the verify stage."""
SMALL = 2_000
TOWNS = 16
"""Of so many towns the large day is made."""
PAIRS = pa.schema([(name, pa.string()) for name in SAME])

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
    """Seconds for a verification, of all cores together: bare, and of the verify stage; medians of its turns.

    `processor` is what a bare one takes of a processor.
    """

    bare: float
    stage: float
    ratio: float
    processor: float


class Reconciled(NamedTuple):
    """`processor` are seconds of all cores together; `right`: it found the planted faults and nothing else."""

    statements: int
    seconds: float
    processor: float
    right: bool


class Start(NamedTuple):
    """From the beginning of a session on; `processor` as in `Reconciled`."""

    seconds: float
    processor: float


class Cold(NamedTuple):
    """`floor` of a bare session with one Python stage, `prepared` of the one that the small day starts, with the same.

    `right` as in `Reconciled`.
    """

    floor: Start
    prepared: Start
    small: Start
    right: bool


class Measured(NamedTuple):
    """`by_rules` by their number; `bare` are seconds of a processor for a verification, before each period."""

    by_statements: Sequence[Reconciled]
    bare: Sequence[float]
    by_rules: Mapping[int, Reconciled]
    stage: StageTimes
    cold: Cold


class Spent:
    """Seconds of processors, by all that ran in processes of their own: what such a one has started may outlive it."""

    seconds = 0.0


def apart[**P, R](work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """In a process of its own that has `CORES`, with all that it starts, such as Spark."""
    with _processes(1, CORES) as (process,):
        found, spent = process.submit(_with_spent, partial(work, *args, **kwargs)).result()
    Spent.seconds += spent
    return found


def _with_spent[R](work: Callable[[], R]) -> tuple[R, float]:
    return work(), processor_seconds()


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


def verify_bare(root: str) -> tuple[int, float]:
    """How many it has verified, and the seconds that took of the processor."""
    statements = signed(root)
    begun = time.process_time()
    for _ in range(BARE_TIMES_OVER):
        for signature, payload, signer in statements:
            sr25519.verify(signature, payload, signer)
    return BARE_TIMES_OVER * len(statements), time.process_time() - begun


def bare_seconds(processes: Sequence[ProcessPoolExecutor], root: str) -> tuple[float, float]:
    """For each: as long as all together take, and of a processor."""
    begun = time.perf_counter()
    verified_in = [process.submit(verify_bare, root) for process in processes]
    counts, seconds = zip(*(future.result() for future in verified_in), strict=True)
    return (time.perf_counter() - begun) / sum(counts), sum(seconds) / sum(counts)


def run(rows: DataFrame) -> float:
    begun = time.perf_counter()
    rows.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - begun


def verify_stage(root: str) -> StageTimes:
    """One turn: the stage from the lake's files on, and what it is compared with; both have warmed up before."""
    lake = EventLake(session("bench", cores=CORES), root)
    some = last_hours(STAGED_HOURS)
    facts = verified(lake.file_paths(EventKind.OBSERVED, some), some)
    count = facts.where("flaw is null or flaw not in ('malformed', 'unsupported_proof')").count()
    with _processes(CORES, CORES) as processes:
        bare_seconds(processes, root)
        bare, processor = bare_seconds(processes, root)
        stage = run(facts) / count
    lake.spark.stop()
    return StageTimes(bare, stage, bare / stage, processor)


def verify_stages(root: str, turns: int) -> StageTimes:
    taken = []
    for turn in range(1, turns + 1):
        taken.append(apart(verify_stage, root))
        bare, stage, ratio, _ = taken[-1]
        print(
            f"    turn {turn}: {1e6 * bare:6.1f} µs bare, {1e6 * stage:6.1f} µs in the stage: {ratio:.2f}", flush=True
        )
    return StageTimes(*(median(column) for column in zip(*taken, strict=True)))


def verify_alone(root: str) -> float:
    """Seconds of a processor for a verification, the second time."""
    verify_bare(root)
    count, seconds = verify_bare(root)
    return seconds / count


def generated(root: str, plan: Plan) -> None:
    lake = EventLake(session("bench", cores=CORES), root)
    with timed(f"generate {plan.statements:,} statements, {plan.rules:,} rules"):
        generate(lake, plan, compacted=True)
    lake.spark.stop()


def extended(root: str, before: int, after: int, at: int) -> None:
    """Give the lake more rules, in the hour of `at`."""
    lake = EventLake(session("bench", cores=CORES), root)
    with timed(f"add {after - before:,} rules"):
        numbers = lake.spark.range(before // RULES_OF_ONE, after // RULES_OF_ONE)
        add_rules(lake, numbers, at)
    lake.spark.stop()


def reconciled(root: str, period: Period) -> Reconciled:
    """The planted faults are those of the statements that were observed in the period."""
    begun = time.perf_counter()
    size = size_of(LakeView(root), period, NOW, TERMS)
    lake = EventLake(session("bench", cores=CORES, size=size), root)
    path = f"{root}/{period.start}"
    with small_lake_settings(lake.spark, size):
        reconcile(lake, period, NOW, TERMS).differences.select(*SAME).write.mode("overwrite").parquet(path)
    took, processor = time.perf_counter() - begun, processor_seconds()
    lake.spark.stop()
    receipts = observed(root, period)
    found = pairs(path)
    planted = [pair for pair in pairs(f"{root}/{ANSWERS}") if pair[0] in receipts]
    wrong = Counter(found) - Counter(planted) + (Counter(planted) - Counter(found))
    print(
        f"  {len(receipts):>9,} statements: {took:6.1f} s, {processor:6.1f} s of processors; "
        f"{len(found):,} differences, {wrong.total()} of them wrong",
        flush=True,
    )
    return Reconciled(len(receipts), took, processor, not wrong)


def observed(root: str, period: Period) -> set[str]:
    """The receipts of the statements that were observed in a period."""
    at = pc.field("observed_at")
    within = (at >= period.start) & (at < period.end)
    rows = dataset.dataset(f"{root}/{EventKind.OBSERVED}", format="parquet").to_table(["receipt"], filter=within)
    return set(rows.column("receipt").to_pylist())


def pairs(path: str) -> list[tuple[str, ...]]:
    """The differences of Parquet below a path, each in the columns `SAME`."""
    rows = dataset.dataset(path, PAIRS, format="parquet").to_table()
    return list(zip(*(rows.column(name).to_pylist() for name in SAME), strict=True))


def bare_session() -> SparkSession:
    """As PySpark starts it for anybody."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    return SparkSession.builder.master(f"local[{CORES}]").getOrCreate()


def prepared_session() -> SparkSession:
    return session("bench", cores=CORES, size=0)


def one_stage(start: Callable[[], SparkSession]) -> Start:
    begun = time.perf_counter()
    spark = start()
    # Spark's workers can't import this module by its name in a process that was spawned: what has no name is sent to them.
    spark.range(1).mapInArrow(lambda batches: batches, "id long").collect()
    found = Start(time.perf_counter() - begun, processor_seconds())
    spark.stop()
    return found


def cold(root: str, period: Period, turns: int) -> Cold:
    taken = [
        (apart(one_stage, bare_session), apart(one_stage, prepared_session), apart(reconciled, root, period))
        for _ in range(turns)
    ]
    floors, prepared, smalls = zip(*taken, strict=True)
    started = [Start(small.seconds, small.processor) for small in smalls]
    return Cold(_median(floors), _median(prepared), _median(started), all(small.right for small in smalls))


def _median(starts: Sequence[Start]) -> Start:
    return Start(*map(median, zip(*starts, strict=True)))


def line(points: Sequence[Reconciled]) -> tuple[float, float]:
    """The slope, in seconds for a statement, and the constant, of the nearest straight line; all of processors."""
    return linear_regression([point.statements for point in points], [point.processor for point in points])


def last_hours(hours: int) -> Period:
    """Of the day."""
    return Period(START + DAY_MS - hours * HOUR_MS, START + DAY_MS)


def day_of(statements: int, rules: int) -> tuple[str, Plan]:
    return str(WHERE / f"{statements}-{rules}"), Plan(START, statements=statements, rules=rules, faults=SOME_OF_EACH)


def large_day(statements: int, rules: int) -> str:
    """The root of the lake."""
    small, plan = day_of(statements // TOWNS, rules // TOWNS)
    root, _ = day_of(statements, rules)
    apart(generated, small, plan)
    with timed(f"make {TOWNS} towns of it"):
        apart(build, small, root, plan, TOWNS, CORES)
    shutil.rmtree(small)
    return root


def measure(wanted: argparse.Namespace) -> Measured:
    fewest = min(wanted.rules)
    root = large_day(wanted.statements, fewest)
    print("periods of that day", flush=True)
    taken = [(apart(verify_alone, root), apart(reconciled, root, last_hours(hours))) for hours in wanted.hours]
    bare, by_statements = zip(*taken, strict=True)
    print("the verify stage", flush=True)
    stage = verify_stages(root, wanted.turns)
    by_rules = {fewest: by_statements[0]}
    for hour, (before, after) in enumerate(pairwise(sorted(wanted.rules))):
        apart(extended, root, before, after, START - 3 * DAY_MS - hour * HOUR_MS)
        by_rules[after] = apart(reconciled, root, last_hours(wanted.hours[0]))
    shutil.rmtree(root)
    print("a small day, cold, and the floor", flush=True)
    root, plan = day_of(SMALL, SMALL)
    apart(generated, root, plan)
    return Measured(by_statements, bare, by_rules, stage, cold(root, plan.period, wanted.turns))


def margin(measured: Measured) -> Figure:
    slope, _ = line(measured.by_statements)
    bare = median(measured.bare)
    return Figure(
        "reconcile: a further statement, beside bare `sr25519.verify`", 1e6 * slope, 1e6 * bare, bare / slope, "µs of processors"
    )  # fmt: skip


def figures(measured: Measured) -> list[Figure]:
    stage, (floor, prepared, small, _) = measured.stage, measured.cold
    growth = [
        Figure.alone(
            f"reconcile {found.statements:,} statements with {rules:,} rules", found.processor, "s of processors"
        )
        for rules, found in measured.by_rules.items()
    ]
    day = f"a day of {SMALL:,} statements, cold"
    return [
        margin(measured),
        Figure.alone("reconcile: constant", line(measured.by_statements)[1], "s of processors"),
        *growth,
        Figure("verify stage on two cores, beside bare `sr25519.verify`", 1e6 * stage.stage, 1e6 * stage.bare, stage.ratio, "µs"),
        Figure.beside(f"{day}, beside its floor, a bare session with one Python stage", small.seconds, floor.seconds, "s"),
        Figure.alone("what the small day takes over its floor", small.seconds - floor.seconds, "s"),
        Figure.beside(f"{day}, beside the session that it starts, with that stage", small.seconds, prepared.seconds, "s"),
        Figure.beside(f"{day}, beside its floor, of the processors", small.processor, floor.processor, "s"),
        Figure.alone("what the small day takes over its floor, of the processors", small.processor - floor.processor, "s"),
        Figure.beside(f"{day}, beside the session that it starts, of the processors", small.processor, prepared.processor, "s"),
    ]  # fmt: skip


def write(measured: Measured, found: Sequence[Figure], how: str) -> None:
    points = {
        "statements": [(point.statements, point.processor) for point in measured.by_statements],
        "rules": [(rules, point.processor) for rules, point in measured.by_rules.items()],
        "ruled": measured.by_statements[0].statements,
        "line": line(measured.by_statements),
        "bare": median(measured.bare),
    }
    PLOTTED.write_text(json.dumps(points, indent=2) + "\n")
    page = inserted(PAGE.read_text(), table(found))
    PAGE.write_text(re.sub(r"(?m)^Measured on .*$", how, page))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--statements", type=int, default=1_600_000, help="of the day whose periods are reconciled")
    parser.add_argument("--hours", type=int, nargs="+", default=[3, 6, 24], help="its last ones, of each period")
    parser.add_argument("--rules", type=int, nargs="+", default=[1_000_000, 3_000_000, 10_000_000])
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--try", dest="trial", action="store_true", help="write nothing into docs")
    wanted = parser.parse_args()
    shutil.rmtree(WHERE, ignore_errors=True)
    begun, how = time.perf_counter(), circumstances()
    measured = measure(wanted)
    found = figures(measured)
    report(found)
    if not wanted.trial:
        write(measured, found, how)
    judged = (*measured.by_statements, *measured.by_rules.values())
    right = all(each.right for each in judged) and measured.cold.right
    processor = (Spent.seconds + processor_seconds()) / 60
    print(f"planted faults and nothing else: {'yes' if right else 'NO'}")
    print(f"bench-pipeline: {'; '.join(map(str, found))}")
    print(
        f"slope: {margin(measured)}; bare before each period: {', '.join(f'{1e6 * one:.1f}' for one in measured.bare)} µs"
    )
    print(
        f"constant: {line(measured.by_statements)[1]:.1f} s of processors; "
        f"in all {time.perf_counter() - begun:.0f} s, {processor:.1f} minutes of processors"
    )
    return 0 if right else 1


def circumstances() -> str:
    """The machine, and what else it was doing when the bench began."""
    return (
        f"Measured on {datetime.now(UTC):%Y-%m-%d}, on {os.cpu_count()} processors ({platform.machine()}) "
        f"with {os.getloadavg()[0]:.1f} processes to run besides."
    )


if __name__ == "__main__":
    sys.exit(main())
