"""`make pipeline-environment`: try on this machine what is packaged for EMR Serverless.

Spark starts an executor as a process of its own, which unpacks the archives as it would on EMR. Neither it nor the
driver has any Python package but those in the archives and Spark's own. The entry point runs `daily` over a day with
one statement, which an executor has to verify. Exit code 0 only if it was read, and nothing else was found.
"""

import os
import shutil
import subprocess
import sys
import venv
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

from clarion.events import EnvelopeObserved, LimitsLoaded
from clarion.networks import STATEMENTS
from infra.archives import ROOT
from infra.config import Platform
from infra.spark_bundle import ENTRY, PYTHONPATH, code_archive, packages_archive
from local.device import Device, topic_of

FOLDER = ROOT / ".build" / "pipeline-environment"
SPARK = next((ROOT / ".venv-pipeline" / "lib").glob("python*")) / "site-packages" / "pyspark"
DAY = datetime(2026, 11, 19, tzinfo=UTC)
NOON = DAY + timedelta(hours=12)
PERIOD = ("--from", "2026-11-19", "--to", "2026-11-20", "--now", "2026-11-20T02:00")
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def main() -> int:
    shutil.rmtree(FOLDER, ignore_errors=True)
    archives = {"packages": packages_archive(Platform.HOST), "code": code_archive()}
    for name, archive in archives.items():
        shutil.unpack_archive(archive, FOLDER / "driver" / name)
    _write_lake()
    words = ["daily", "--strict", "--lake", str(FOLDER / "lake"), *PERIOD]
    options = [f"--conf={name}={value}" for name, value in _settings(archives).items()]
    ran = subprocess.run(
        [SPARK / "bin" / "spark-submit", *options, ENTRY, *words],
        cwd=FOLDER / "driver",  # where EMR unpacks them for the driver
        env={**os.environ, "SPARK_HOME": str(SPARK), "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": PYTHONPATH}
        | {"PYSPARK_PYTHON": _python(), "PYSPARK_DRIVER_PYTHON": _python()},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    print(ran.stdout)
    found_nothing, read = "{}" in ran.stdout.splitlines(), any(FOLDER.glob("lake/observed/*/*/*/*.parquet"))
    complete = ran.returncode == 0 and found_nothing and read
    print(f"» the environment for EMR is {'complete' if complete else 'not complete'}")
    return 0 if complete else 1


def _settings(archives: dict[str, Path]) -> dict[str, str]:
    return {
        "spark.master": "local-cluster[1,1,1024]",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": SHORT_LIVED,
        "spark.executor.extraJavaOptions": SHORT_LIVED,
        "spark.executor.memory": "1g",
        "spark.log.level": "ERROR",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.ui.enabled": "false",
        "spark.archives": ",".join(f"{archive}#{name}" for name, archive in archives.items()),
        "spark.executorEnv.PYSPARK_PYTHON": _python(),
        "spark.executorEnv.PYTHONPATH": PYTHONPATH,
    }


def _python() -> str:
    """An interpreter without packages."""
    home = FOLDER / "python"
    if not home.exists():
        venv.create(home, symlinks=True)
    return str(home / "bin" / "python")


def _write_lake() -> None:
    at = int(NOON.timestamp() * 1000)
    statement = Device("alice").statement(topic_of("a topic"), data=b"hello")
    observed = EnvelopeObserved(network=STATEMENTS, at=at, receipt=uuid4(), observed_at=at, raw=statement)
    limits = LimitsLoaded(network=STATEMENTS, at=at, cap=300, cap_window=60_000)
    for number in range(25):
        arrived = DAY + timedelta(hours=number)
        hour = FOLDER / "lake" / "events" / f"day={arrived:%Y-%m-%d}" / f"hour={arrived:%H}"
        hour.mkdir(parents=True)
        event = observed if arrived == NOON else limits
        (hour / "stream.jsonl").write_text(f"{event.model_dump_json()}\n")


if __name__ == "__main__":
    sys.exit(main())
