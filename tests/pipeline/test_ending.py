"""What ends a job before its time is one line: what can't be read, written or asked for, and a signal."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from botocore.exceptions import NoCredentialsError
from pyspark.sql import DataFrame, SparkSession

from pipeline.__main__ import main
from pipeline.jobs.replay import ReplaySettings
from pipeline.jobs.retire import RetireSettings
from pipeline.jobs.shared import BadSettings, settings_of
from pipeline.lake.commits import CommitConflict
from pipeline.lake.event_lake import EventLake
from pipeline.repair.replay import ReplayStopped
from pipeline.repair.retire import RetireStopped
from pipeline.spark.ending import reason
from pipeline.terminal import ON_INTERRUPTION, PREFIX

INTERRUPTED_WITHIN_S = 60


def raised_by(rows: DataFrame) -> Exception:
    with pytest.raises(Exception, match=r"\w") as raised:
        rows.collect()
    return raised.value


@pytest.fixture
def damaged(spark: SparkSession, tmp_path: Path) -> DataFrame:
    path = tmp_path / "half.parquet"
    path.write_bytes(b"PAR1 and nothing more")
    return spark.read.schema("a long").parquet(str(path))


def test_a_file_that_spark_can_not_read_is_named_in_one_line(damaged: DataFrame) -> None:
    why = reason(raised_by(damaged))
    assert why
    assert why.startswith("Encountered error while reading file")
    assert "half.parquet" in why
    assert "\n" not in why


def test_a_file_that_is_gone_is_named_in_one_line(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="PATH_NOT_FOUND") as raised:
        spark.read.schema("a long").parquet(str(tmp_path / "gone.parquet"))
    assert reason(raised.value) == f"Path does not exist: file:{tmp_path}/gone.parquet."


def test_a_folder_that_spark_can_not_make_is_named_in_one_line(spark: SparkSession) -> None:
    """As where it may not, which holds for root as well: the task fails, and not the job."""
    with pytest.raises(Exception, match="Mkdirs failed") as raised:
        spark.range(1).write.parquet("/proc/nowhere")
    why = reason(raised.value)
    assert why
    assert why.startswith("Mkdirs failed to create file:/proc/nowhere")
    assert "\n" not in why


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), pa.ArrowInvalid("no Parquet")])
def test_what_a_task_of_python_can_not_do_is_its_last_line(spark: SparkSession, error: Exception) -> None:
    def fail(_: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        raise error

    assert reason(raised_by(spark.range(1).mapInArrow(fail, "id long"))) == str(error)


def test_a_fault_of_ours_is_no_reason_and_keeps_its_trace(spark: SparkSession) -> None:
    def fail(_: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        raise KeyError("column")

    fault = raised_by(spark.range(1).mapInArrow(fail, "id long"))
    assert reason(fault) is None
    assert reason(KeyError("column")) is None
    assert reason(ExceptionGroup("days", [OSError("gone"), fault])) is None


def test_each_of_several_reasons_is_given_once() -> None:
    group = ExceptionGroup("days", [OSError("gone"), CommitConflict("another"), OSError("gone"), NoCredentialsError()])
    assert reason(group) == "gone; another; Unable to locate credentials"


@pytest.mark.parametrize("error", [ReplayStopped("SQS refused 1 of 10"), RetireStopped(["a", "b"])])
def test_what_the_live_system_does_not_take_is_a_reason(error: Exception) -> None:
    assert reason(error) == str(error)


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        (ReplaySettings, ["CLARION_ENVELOPES_QUEUE_URL: "]),
        (RetireSettings, ["CLARION_TABLE_PREFIX: ", "CLARION_EVENTS_STREAM: ", "CLARION_LATE_EVENTS_QUEUE_URL: "]),
    ],
)
def test_what_the_environment_lacks_is_named_in_one_line(
    settings: type[ReplaySettings | RetireSettings], names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in os.environ:
        if name.startswith("CLARION_"):
            monkeypatch.delenv(name)
    with pytest.raises(BadSettings) as raised:
        settings_of(settings)
    why = reason(raised.value)
    assert why
    assert [name for name in names if name not in why] == []
    assert "\n" not in why


def test_a_damaged_manifest_ends_a_job_before_spark_is_started(
    lake: EventLake, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = Path(lake.root) / "manifests" / "day=2026-11-20" / "hour=10.json"
    manifest.parent.mkdir(parents=True)
    manifest.write_text("{")
    period = ["--from", "2026-11-20", "--to", "2026-11-21"]
    assert main(["reconcile", "--lake", lake.root, *period]) == 4
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("» reconcile can't go on: manifests/day=2026-11-20/hour=10.json can't be read: ")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_job_with_one_line_though_spark_is_only_starting(tmp_path: Path, number: int) -> None:
    words = ["reconcile", "--lake", str(tmp_path), "--from", "2026-09-21", "--to", "2026-09-22"]
    with subprocess.Popen(
        [sys.executable, "-m", "pipeline", *words], stderr=subprocess.PIPE, start_new_session=True, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509 - no threads yet
    ) as job:  # fmt: skip
        assert job.stderr
        while "Using incubator modules" not in job.stderr.readline():
            pass
        os.killpg(job.pid, number) if number == signal.SIGINT else job.send_signal(number)
        said = job.stderr.read().splitlines()
        assert job.wait(INTERRUPTED_WITHIN_S) == 128 + number
    assert said[-1] == f"{PREFIX}{ON_INTERRUPTION}"
    assert not [line for line in said if "Traceback" in line or line.lstrip().startswith("at ")]
