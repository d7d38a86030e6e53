"""How Spark's Python workers are started, and end."""

import io
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession

from pipeline.class_archive import ARCHIVE
from pipeline.daemon import work_or_end


def not_called(infile: io.BufferedReader, outfile: io.BufferedWriter) -> None:
    raise AssertionError


def test_a_worker_whose_connection_is_closed_before_a_task_ends_without_writing_anything() -> None:
    written = io.BytesIO()
    with pytest.raises(SystemExit) as ended:
        work_or_end(not_called, io.BufferedReader(io.BytesIO()), io.BufferedWriter(written))
    assert (ended.value.code, written.getvalue()) == (1, b"")


def test_a_task_meets_all_of_its_input() -> None:
    written = io.BytesIO()

    def copy(infile: io.BufferedReader, outfile: io.BufferedWriter) -> None:
        outfile.write(infile.read())
        outfile.flush()

    outfile: io.BufferedWriter = io.BufferedWriter(written)
    work_or_end(copy, io.BufferedReader(io.BytesIO(b"a task")), outfile)
    assert written.getvalue() == b"a task"


def test_workers_import_the_installed_pyspark(spark: SparkSession) -> None:
    found = spark.sparkContext.parallelize([0], 1).map(lambda _: sys.modules["pyspark"].__file__).collect()
    assert found == [pyspark.__file__]


@pytest.mark.skipif(not ARCHIVE.exists(), reason="no archive has been made: `make .venv-pipeline/.ready` does")
def test_the_jvm_maps_the_archive_of_classes(spark: SparkSession) -> None:
    gateway: Any = spark.sparkContext._gateway
    assert ARCHIVE.name in Path(f"/proc/{gateway.proc.pid}/maps").read_text()
