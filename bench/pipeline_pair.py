"""`make bench-pair`: one pair with ten million attempts, all in one task, and how much memory its Python takes.

A sender floods a client at over a hundred a second for a day. The pair's comparisons are made by Spark and go through
`verdicts.contradictions` as a day's would. The worker's memory is the most that its process ever had.
"""

import argparse
import os
import sys
import time
from collections.abc import Mapping
from math import ceil
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from clarion.decisions import NotificationDecision
from clarion.limiter import Limit
from clarion.networks import STATEMENTS
from pipeline.in_force.limits import LimitHistory, default_span
from pipeline.period import DAY_MS
from pipeline.reconciliation.verdicts import COMPARISON, contradictions
from pipeline.spark.session import session

BOUND_MIB = 2_048
STEP_MS = DAY_MS / 10_000_000


class LoudPair(NamedTuple):
    attempts: int
    worker_mib: float
    seconds: float


def loud_pair(attempts: int) -> LoudPair:
    spark = session("bench", cores=2)
    try:
        history = LimitHistory({STATEMENTS: (default_span(STATEMENTS),)})
        begun = time.perf_counter()
        found = contradictions(comparisons(spark, attempts, limit_of(history)), history)
        if wrong := found.count():
            raise ValueError(f"{wrong:,} contradictions in a healthy history")
        return LoudPair(attempts, worker_mib(), time.perf_counter() - begun)
    finally:
        spark.stop()


def limit_of(history: LimitHistory) -> Limit:
    limit = history.spans[STATEMENTS][0].limit
    if limit is None:
        raise ValueError("the network has no limit")
    return limit


def comparisons(spark: SparkSession, attempts: int, limit: Limit) -> DataFrame:
    """As many as a window lets pass, and then those that its cooldown refuses, over and over."""
    refused = ceil(limit.cooldown / STEP_MS)
    first = F.col("id") % (limit.count + refused) < limit.count
    at = F.floor(F.col("id") * STEP_MS)
    values = {
        "receipt": F.concat(F.lit("receipt-"), F.lpad(F.col("id").cast("string"), 28, "0")),
        "subscription_id": F.lit("8d0c4a52-3a5f-4c5e-9f0e-0c1b1f6f6a11"),
        "network": F.lit(STATEMENTS),
        "envelope_id": F.unhex(F.sha2(F.col("id").cast("string"), 256)),
        **{name: F.unhex(F.sha2(F.lit(name), 256)) for name in ("sender", "client_id", "key")},
        "channel": F.lit("apns"),
        "at": at,
        "judged_at": at,
        "order": F.col("id"),
        "counted": first,
        "found": F.when(first, NotificationDecision.QUEUED).otherwise(NotificationDecision.RATE_LIMITED),
        "refusals": F.array().cast("array<string>"),
        **dict.fromkeys(("full", "overfull"), F.lit(False)),
        **dict.fromkeys(("sure", "judged"), F.lit(True)),
        "of_envelope": F.lit("matched"),
        **dict.fromkeys(("wanted", "against"), F.lit(None).cast("string")),
    }
    return spark.range(attempts).select(*(values[name].alias(name) for name in COMPARISON))


def worker_mib() -> float:
    """The most memory that any of this session's Python workers has had. Spark lets them wait for more work."""
    statuses = [_status(place) for place in Path("/proc").glob("[0-9]*")]
    parents = {status["Pid"]: status["PPid"] for status in statuses if status}
    workers = [one for one in statuses if one and "VmHWM" in one and _is_below(one["Pid"], str(os.getpid()), parents)]
    return max(int(one["VmHWM"].removesuffix(" kB")) for one in workers if one["Name"].startswith("python")) / 1024


def _status(process: Path) -> dict[str, str]:
    """Empty if it has ended."""
    try:
        lines = (process / "status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _is_below(process: str, ancestor: str, parents: Mapping[str, str]) -> bool:
    parent = parents.get(process)
    return parent is not None and (parent == ancestor or _is_below(parent, ancestor, parents))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--attempts", type=int, default=10_000_000)
    found = loud_pair(parser.parse_args().attempts)
    print(
        f"bench-pair: {found.attempts:,} attempts of one pair: {found.worker_mib:,.0f} MiB of Python (at most "
        f"{BOUND_MIB:,}), {found.seconds:.0f} s"
    )
    return 0 if found.worker_mib < BOUND_MIB else 1


if __name__ == "__main__":
    sys.exit(main())
