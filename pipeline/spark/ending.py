"""How a job of Spark's ends before its time: by a signal, or where the lake or the live system lets it go no further."""

import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from subprocess import TimeoutExpired
from threading import Thread
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pipeline.lake.commits import LAKE_ERRORS, CommitConflict
from pipeline.terminal import ON_INTERRUPTION, PREFIX

SIGNALS = (signal.SIGINT, signal.SIGTERM)
PATIENCE_S = 5


class JobStopped(Exception):  # noqa: N818 - it says what has happened
    """A job can't go on: the live system takes no more of what it sends, or isn't known."""


_EXPECTED = (*LAKE_ERRORS, CommitConflict, JobStopped)
_OF_SPARK = re.compile(
    r"\[(?:FAILED_READ_FILE|PATH_NOT_FOUND)[^\]]*\] (.+?)(?: SQLSTATE.*)?$"
    r"|^(?:OSError|(?:FileNotFound|FileExists|NotADirectory|IsADirectory|Permission)Error|pyarrow\.lib\.ArrowInvalid): (.+)$"
    r"|^: (?:java\.io|org\.apache\.hadoop\.fs)\.[\w.]+: (.+)$"
    r"|^Caused by: java\.io\.(?:IO|FileNotFound)Exception: (.+)$"
    r"|(No space left on device)",
    re.MULTILINE,
)
"""What could not be read or written: by Spark's own readers, by ours in Python, by a stream, and for want of space."""


def reason(error: Exception) -> str | None:
    """What can't be read, written or asked for, in one line; None if it is none of these, but a fault of ours."""
    if isinstance(error, ExceptionGroup):
        reasons = [reason(each) for each in error.exceptions]
        return None if None in reasons else "; ".join(filter(None, dict.fromkeys(reasons)))
    if isinstance(error, Py4JJavaError | PySparkException):
        found = _OF_SPARK.search(str(error))
        return next(filter(None, found.groups())).strip() if found else None
    return " ".join(str(error).split()) if isinstance(error, _EXPECTED) else None


@contextmanager
def ended_by_signals(start: Callable[[], SparkSession]) -> Iterator[SparkSession]:
    """Until this ends, a signal ends the JVM that `start` starts, and then the process: with 128 and its number.

    A JVM that is starting can't be ended in silence, or at all: the signal waits until it has. Then nothing is unwound:
    the call that Py4J waits for would fail, and so would whatever is asked of Spark after it. What was not committed
    counts for nothing, as after a crash.
    """
    held: list[int] = []
    before = {number: signal.signal(number, lambda number, _: held.append(number)) for number in SIGNALS}
    try:
        spark = start()
        for number in SIGNALS:
            signal.signal(number, lambda number, _: _end(spark, number))
        if held:
            _end(spark, held[0])
        yield spark
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(spark: SparkSession, number: int) -> None:
    signal.signal(number, signal.SIG_DFL)
    os.write(2, f"{PREFIX}{ON_INTERRUPTION}\n".encode())
    # What threads and tasks are at would be an error to each.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    silenced = Thread(target=_silence, args=(spark,), daemon=True)
    silenced.start()
    silenced.join(PATIENCE_S)
    # Where spark-submit has started us, it ends the JVM itself.
    if jvm := spark.sparkContext._gateway.proc:  # type: ignore[union-attr]  # noqa: SLF001 - nothing else knows of it
        jvm.stdin.close()
        with suppress(TimeoutExpired):
            jvm.wait(PATIENCE_S)
    os._exit(128 + number)


def _silence(spark: SparkSession) -> None:
    """Spark's log, and what threads of the JVM that nobody waits for would print in their end."""
    spark.sparkContext.setLogLevel("OFF")
    silence_stderr(spark)


def silence_stderr(spark: SparkSession) -> None:
    """From now on, that of the JVM and of the Python processes that it starts; its log has a stream of its own."""
    java: Any = spark.sparkContext._jvm  # noqa: SLF001 - nothing else reaches the JVM
    java.System.setErr(java.java.io.PrintStream(java.java.io.OutputStream.nullOutputStream()))
