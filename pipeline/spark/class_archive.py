"""The archive of the classes that Spark's JVM loads, which one machine keeps beside its packages.

To find, verify and compile thousands of classes anew takes half of what a session's start takes of the processors. The
JVM maps the archive instead, if it is of the same JVM and jars, and otherwise does without:
https://docs.oracle.com/en/java/javase/17/vm/class-data-sharing.html

    python -m pipeline.spark.class_archive    # make it: what this session loads is what it has
"""

import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F

ARCHIVE = Path(sys.prefix) / "spark-classes.jsa"
_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"


def archive_options() -> str:
    """For the JVM; none where no archive has been made."""
    return f"-XX:SharedArchiveFile={ARCHIVE} -Xshare:auto {_QUIET}" if ARCHIVE.exists() else ""


def make_archive() -> None:
    """By a session that ends with writing down which classes it had."""
    from pipeline.spark.session import SHORT_LIVED_JVM, session  # noqa: PLC0415 - which asks this module for the options

    ARCHIVE.unlink(missing_ok=True)
    dump = f"-XX:ArchiveClassesAtExit={ARCHIVE} {_QUIET}"
    spark = session("classes", cores=1, shuffles=1, conf={"spark.driver.extraJavaOptions": f"{SHORT_LIVED_JVM} {dump}"})
    with tempfile.TemporaryDirectory() as folder:
        _use(spark, folder)
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001 - nobody else knows the JVM's process
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


def _use(spark: SparkSession, folder: str) -> None:
    """Something of all that jobs do."""
    spark.range(10).withColumn("key", F.sha1(F.col("id").cast("string"))).write.parquet(f"{folder}/rows")
    rows = spark.read.parquet(f"{folder}/rows").mapInArrow(_unchanged, "id long, key string")
    kept = rows.withColumn("hash", F.xxhash64("key")).localCheckpoint(eager=False)
    by_key = Window.partitionBy("key").orderBy("id")
    windowed = kept.withColumn("place", F.row_number().over(by_key)).dropDuplicates(["key"])
    counted = kept.groupBy("key").agg(F.max(F.struct("id", "hash")).alias("last"), F.collect_set("id").alias("ids"))
    some = spark.createDataFrame([("a", 1)], "key string, value long")
    both = windowed.join(counted, on="key", how="full").join(F.broadcast(some), on="key", how="leftanti")
    both.unionByName(windowed.join(counted, on="key", how="inner")).where("size(ids) > 0").orderBy("key").collect()
    both.select("key").write.mode("overwrite").json(f"{folder}/lines")
    spark.read.format("binaryFile").load(f"{folder}/lines").select("path").collect()


def _unchanged(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    return batches


if __name__ == "__main__":
    make_archive()
