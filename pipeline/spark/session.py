"""The Spark session: `local[*]` out of the box, and whatever spark-submit says where that started us."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from pipeline.spark.class_archive import archive_options
from pipeline.spark.java_classes import look_up_once

LOGGING = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties')}"
SMALL = "spark.clarion.small"
COMMON = {
    "spark.sql.session.timeZone": "UTC",
    # `generate` replaces the hours of the stream that it writes, and no others.
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    # Statements have up to 1 MB: a batch is bounded by its bytes as well as by its rows.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(16 << 20),
    # What a job keeps on the disks.
    "spark.rdd.compress": "true",
    # What is spread by receipt is joined by receipt and subscription as it lies.
    "spark.sql.requireAllClusterKeysForCoPartition": "false",
    # Each column would be told its line of the code, for errors: ten calls of the JVM instead of one.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    SMALL: "false",
}
LOCAL = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "4g",
    # By TCP, each task's first bytes wait 40 ms for an acknowledgement that is sent late.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.daemon.module": "pipeline.spark.daemon",
    # To begin a task has its price too: it should verify for a second or more after that, and yet there should be
    # enough tasks for all cores to end together. Opening a local file costs next to nothing.
    "spark.sql.files.maxPartitionBytes": str(16 << 20),
    "spark.sql.files.openCostInBytes": str(64 << 10),
    # Each broadcast table takes a page at least, which by default is 64 MB of the heap even for a few rows.
    "spark.buffer.pageSize": "2m",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower(),
}
SMALL_BYTES = 8 << 20
"""Bytes of Parquet that are read and compared in less time than it takes to compile a plan's code, and to plan it anew."""
SMALL_SETTINGS = {
    SMALL: "true",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.files.minPartitionNum": "1",
    "spark.sql.shuffle.partitions": "1",
}
SHORT_LIVED_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A JVM that runs for seconds: its second compiler and its collector's threads would take as much as all the rest."""


def starts_jvm() -> bool:
    """Whether this process starts it; otherwise spark-submit has, and has named the master as well."""
    return "PYSPARK_GATEWAY_PORT" not in os.environ


def session(
    name: str,
    *,
    cores: int | None = None,
    shuffles: int | None = None,
    size: int | None = None,
    conf: Mapping[str, str] | None = None,
) -> SparkSession:
    """`cores` and `shuffles` (shuffle partitions) are for one machine; there, all cores and two partitions on each.

    So is `size`, in bytes of Parquet: all that the session will read, if that is known.
    """
    builder = SparkSession.builder.appName(name)
    settings = COMMON | dict(conf or {})
    if starts_jvm():
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = builder.master(f"local[{cores or '*'}]")
        partitions = shuffles or 2 * (cores or os.cpu_count() or 1)
        brief = {"spark.driver.extraJavaOptions": SHORT_LIVED_JVM} if size is not None and size <= SMALL_BYTES else {}
        options = {"spark.driver.defaultJavaOptions": f"{LOGGING} {archive_options()}".strip()}
        settings = LOCAL | options | brief | {"spark.sql.shuffle.partitions": str(partitions)} | settings
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    look_up_once(spark)
    return spark


@contextmanager
def small_lake_settings(spark: SparkSession, size: int) -> Iterator[None]:
    """Within it, plans are made for a small amount of Parquet if `size`, in bytes, is small. The results are the same.

    Without adaptive planning, code generation and shuffles: where rows are few, these are half of the work.
    """
    if size > SMALL_BYTES:
        yield
        return
    before = {name: spark.conf.get(name, None) for name in SMALL_SETTINGS}
    try:
        for name, value in SMALL_SETTINGS.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, known in before.items():
            if known is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, known)


def is_small(spark: SparkSession) -> bool:
    """Whether plans are made for a small lake: then nothing has to be counted or left out to save work."""
    return spark.conf.get(SMALL) == "true"
