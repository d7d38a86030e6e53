import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from pipeline.spark.progress import at_work, progress


def _wait_for(batches: Iterable[pa.RecordBatch], place: Path) -> Iterator[pa.RecordBatch]:
    while not place.exists():
        time.sleep(0.01)
    yield from batches


def _wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_while_a_task_runs_a_line_says_so(spark: SparkSession, tmp_path: Path) -> None:
    """The task ends once it has been reported."""
    lines: list[str] = []

    def log(line: str) -> None:
        lines.append(line)
        (tmp_path / "reported").touch()

    with progress(spark, log, every_s=0.01):
        one = spark.range(1, numPartitions=1).mapInArrow(partial(_wait_for, place=tmp_path / "reported"), "id long")
        assert one.count() == 1

    assert lines[0].endswith(": 0 of 1 tasks done")
    # The tracker hears of the end of a stage a moment after whoever waited for it.
    _wait_until(lambda: at_work(spark.sparkContext.statusTracker()) == "")


def test_nothing_is_said_once_it_is_over(spark: SparkSession) -> None:
    lines: list[str] = []
    with progress(spark, lines.append, every_s=3_600):
        assert spark.range(1).count() == 1
    assert lines == []
