"""How Spark's Python workers are started, and end."""

import io
import subprocess
import sys
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pyspark
import pytest
from pyspark.sql import SparkSession

from pipeline.spark.class_archive import ARCHIVE
from pipeline.spark.compiled_spark import add_compiled
from pipeline.spark.daemon import work_or_end


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


def test_python_takes_compiled_modules_from_the_archive_and_its_other_links_are_left(tmp_path: Path) -> None:
    archive, link = tmp_path / "pyspark.zip", tmp_path / "link.zip"
    with ZipFile(archive, "w") as packed:
        packed.writestr("some/__init__.py", "")
        packed.writestr("some/module.py", "print(__file__)")
    link.hardlink_to(archive)
    add_compiled(archive)
    add_compiled(archive)
    ran = subprocess.run(
        [sys.executable, "-c", "import some.module"],
        env={"PYTHONPATH": str(archive)},
        check=True,
        capture_output=True,
        text=True,
    )
    assert ran.stdout == f"{archive}/some/module.pyc\n"
    assert [ZipFile(each).namelist()[2:] for each in (archive, link)] == [["some/__init__.pyc", "some/module.pyc"], []]


@pytest.mark.skipif(not ARCHIVE.exists(), reason="no archive has been made: `make .venv-pipeline/.ready` does")
def test_the_jvm_maps_the_archive_of_classes(spark: SparkSession) -> None:
    gateway: Any = spark.sparkContext._gateway
    assert ARCHIVE.name in Path(f"/proc/{gateway.proc.pid}/maps").read_text()
