"""How the daily snapshot of rules grows: a first one, the next day's with a hundredth changed, and what a job reads.

    python -m bench.pipeline_snapshots 1000000 3000000 10000000

Each size runs in a process of its own, on two cores.
"""

import argparse
import shutil
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from bench.processors import processor_seconds
from pipeline.columns import EventKind
from pipeline.generator.writing import hour_columns, write_kind
from pipeline.in_force.rules import in_force
from pipeline.in_force.states import states_since, write_snapshots
from pipeline.lake.event_lake import EventLake
from pipeline.lake.snapshots import day_of, read_snapshot
from pipeline.period import DAY_MS, HOUR_MS
from pipeline.reconciliation.wanted import rules_naming
from pipeline.spark.session import session

START = 1_790_000_000_000 // DAY_MS * DAY_MS
WHERE = Path(".build") / "bench-snapshots"
RULES_OF_ONE = 10
CHANGED = 100
"""One of so many rules changes in a day."""
ENVELOPES = 100_000


class Growth(NamedTuple):
    """Seconds of a processor for the first snapshot, for the next day's, and to find the rules of `ENVELOPES` envelopes.

    `size` is that of the rules' snapshot, in bytes.
    """

    first: float
    following: float
    read: float
    size: int


def snapshot_growth(root: str, rules: int) -> Growth:
    """With so many rules of a tenth as many subscriptions, in a new lake at `root`."""
    lake = EventLake(session("bench", cores=2), root)
    add_rules(lake, lake.spark.range(rules // RULES_OF_ONE), START)
    first = _seconds(lambda: write_snapshots(lake, START + DAY_MS))
    add_rules(lake, lake.spark.range(0, rules // RULES_OF_ONE, CHANGED), START + DAY_MS)
    following = _seconds(lambda: write_snapshots(lake, START + 2 * DAY_MS))
    read = _seconds(lambda: _found(lake, rules).write.format("noop").mode("overwrite").save())
    snapshot = read_snapshot(lake.root, EventKind.RULES, day_of(START + DAY_MS))
    size = sum(file.bytes for file in snapshot.files) if snapshot else 0
    lake.spark.stop()
    return Growth(first, following, read, size)


def add_rules(lake: EventLake, numbers: DataFrame, at: int) -> None:
    """A line for the subscription of each of the `numbers` (`id`), and one for its rules, all in one hour of their own."""
    who = F.substring(F.sha1(F.col("id").cast("string")), 1, 36).alias("subscription_id")
    revision = F.lit(at // DAY_MS).cast("long").alias("revision")
    same = [
        F.lit(at).cast("long").alias("at"),
        F.lit("statements").alias("network"),
        who,
        F.lit(1).cast("long").alias("generation"),
        revision,
    ]
    subscriptions = numbers.select(
        *same,
        F.unhex(F.sha2(F.col("id").cast("string"), 256)).alias("client_id"),
        F.lit("fcm").alias("channel"),
        F.lit("active").alias("status"),
        F.lit(None).cast("string").alias("status_reason"),
    )
    nothing = [F.lit(None).cast("binary").alias(name) for name in ("condition", "condition_digest")]
    each = F.transform(
        F.sequence(F.lit(1), F.lit(RULES_OF_ONE)),
        lambda n: F.struct(_key(F.col("id") * RULES_OF_ONE + n).alias("key"), *nothing),
    )
    ruled = numbers.select(*same, F.lit("added").alias("change"), each.alias("rules"))
    for kind, rows in ((EventKind.SUBSCRIPTION, subscriptions), (EventKind.RULES, ruled)):
        write_kind(lake, kind, rows.select("*", *hour_columns(F.col("at"))))
    lake.view.refresh()


def _key(number: Column) -> Column:
    """65 bytes, as those of statements."""
    sender, topic = (F.unhex(F.sha2(F.concat(F.lit(part), number.cast("string")), 256)) for part in ("s", "t"))
    return F.concat(F.lit(b"\x01"), sender, topic)


def _found(lake: EventLake, rules: int) -> DataFrame:
    """As `reconcile` finds them: the rules that name a key of an envelope, when they were in force."""
    numbers = lake.spark.range(0, rules, max(1, rules // ENVELOPES))
    envelopes = numbers.select(F.array(_key(F.col("id") + 1)).alias("keys"))
    since = START + 2 * DAY_MS + HOUR_MS
    changes = rules_naming(states_since(lake, EventKind.RULES, since, since), envelopes)
    return in_force(changes, states_since(lake, EventKind.SUBSCRIPTION, since, since))


def _seconds(work: Callable[[], object]) -> float:
    """Of processors: whatever else the machine does makes no difference."""
    begun = processor_seconds()
    work()
    return processor_seconds() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rules", type=int, nargs="*", default=[1_000_000, 3_000_000])
    for rules in parser.parse_args().rules:
        root = WHERE / str(rules)
        shutil.rmtree(root, ignore_errors=True)
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            growth = process.submit(snapshot_growth, str(root.absolute()), rules).result()
        print(f"{rules:>12,} rules: {growth}", flush=True)
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
