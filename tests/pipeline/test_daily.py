"""What the schedule runs, and the environment that it runs in on EMR Serverless."""

import shutil
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from infra.config import Platform
from infra.spark_bundle import code_archive, packages_archive
from pipeline import arguments
from pipeline.claims import CLAIMS
from pipeline.cli import JOBS
from pipeline.compact import compact
from pipeline.generator.day import answers, generate
from pipeline.generator.plan import Faults, Plan
from pipeline.lake import EventLake
from pipeline.period import DAY_MS, HOUR_MS, Period, instant_text
from pipeline.snapshots import day_of, snapshot_days
from pipeline.state import STATES

START = 1_790_000_000_000 // DAY_MS * DAY_MS
NOW = START + DAY_MS + 2 * HOUR_MS

COMPLETE = """
import importlib, pkgutil
import boto3, pandas, pydantic
import clarion, pipeline
from clarion.networks.statements import signature
from clarion.networks.statements.codec import Statement, decode, encode
import pipeline.cli
import sr25519

for module in pkgutil.walk_packages(pipeline.__path__, "pipeline."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
keypair = sr25519.pair_from_seed(bytes(32))
signed = decode(encode(signature.sign(Statement(expiry=1 << 63, topics=(), data=b"", channel=None), keypair)))
print(pandas.__file__, pipeline.__file__, signed.data)
"""


@pytest.mark.usefixtures("adaptive")
def test_the_daily_run_finds_what_is_wrong_and_nothing_else_and_still_reports(lake: EventLake) -> None:
    """Earlier runs have done the days before; the last lines of this one arrive after midnight."""
    generate(lake, Plan(START + 22 * HOUR_MS, statements=200, rules=100, hours=2, faults=Faults(lost=500)))
    compact(lake, Period(START - 5 * DAY_MS, START))
    period = ["--from", instant_text(START), "--to", instant_text(START + DAY_MS), "--now", instant_text(NOW)]
    status = JOBS["daily"](lake, arguments.parse(["daily", "--strict", "--lake", lake.root, *period]))
    found = lake.differences(Period(START, START + DAY_MS))
    assert found
    assert found.count() == answers(lake).count() > 0
    assert status == 1
    assert list(Path(lake.root).glob("reports/*/*/report.html"))
    for name in (*STATES, CLAIMS):
        assert snapshot_days(lake.root, name) == [day_of(START)]


def test_the_environment_for_emr_is_complete(tmp_path: Path) -> None:
    """With an interpreter that has no packages, and Spark's own Python beside, as the release brings it."""
    for name, archive in (("packages", packages_archive(Platform.HOST)), ("code", code_archive())):
        shutil.unpack_archive(archive, tmp_path / name)
    release = (Path(pyspark.__file__).parent / "python" / "lib").glob("*.zip")
    path = ":".join(["./code", "./packages", *map(str, release)])
    bare = getattr(sys, "_base_executable")  # noqa: B009
    ran = subprocess.run(
        [bare, "-S", "-c", COMPLETE], cwd=tmp_path, env={"PYTHONPATH": path}, check=True, capture_output=True, text=True
    )
    assert ran.stdout.split() == [
        f"{tmp_path}/packages/pandas/__init__.py", f"{tmp_path}/code/pipeline/__init__.py", "b''",
    ]  # fmt: skip
