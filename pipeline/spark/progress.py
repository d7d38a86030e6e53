"""How far Spark has come, as lines for a log: at a terminal it draws a bar, elsewhere it says nothing for minutes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

from pyspark import StatusTracker
from pyspark.sql import SparkSession

EVERY_S = 30.0


@contextmanager
def progress(spark: SparkSession, log: Callable[[str], None], every_s: float = EVERY_S) -> Iterator[None]:
    """Meanwhile, log every `every_s` seconds what is at work."""
    stopped = Event()
    thread = Thread(target=_report, args=(spark.sparkContext.statusTracker(), log, stopped, every_s), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def at_work(tracker: StatusTracker) -> str:
    """The stages that have tasks running, and how many of their tasks are done; empty between two stages."""
    stages = filter(None, map(tracker.getStageInfo, sorted(tracker.getActiveStageIds())))
    return ", ".join(
        f"stage {stage.stageId}: {stage.numCompletedTasks} of {stage.numTasks} tasks done" for stage in stages
    )


def _report(tracker: StatusTracker, log: Callable[[str], None], stopped: Event, every_s: float) -> None:
    while not stopped.wait(every_s):
        if line := at_work(tracker):
            log(line)
