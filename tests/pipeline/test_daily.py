"""What the schedule runs, and the environment that it runs in on EMR Serverless."""

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyspark
import pytest

from clarion.clock import now_ms
from infra.config import Platform
from infra.spark_bundle import code_archive, packages_archive
from pipeline import arguments
from pipeline.cli import JOBS
from pipeline.compaction.compact import compact
from pipeline.generator.day import answers, generate
from pipeline.generator.plan import Faults, Plan
from pipeline.lake.commits import LakeView, manifest_path, read_manifest, update
from pipeline.lake.event_lake import EventLake, differences_name
from pipeline.lake.snapshots import CLAIMS, IN_FORCE, day_of, snapshot_days, snapshot_name
from pipeline.period import DAY_MS, HOUR_MS, Period, hour_path, instant_text
from pipeline.reconciliation.due_days import DAILY, first_uncompacted, note_reported
from pipeline.report.inputs import hours
from pipeline.report.report_files import report_name, write_page, write_tables
from pipeline.spark.ending import reason
from tests.pipeline.small_lake import SmallLake, Way, subscribed

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
    compact(lake, Period(START - 5 * DAY_MS, START), now_ms())
    period = ["--from", instant_text(START), "--to", instant_text(START + DAY_MS), "--now", instant_text(NOW)]
    status = JOBS["daily"](lake, arguments.parse(["daily", "--strict", "--lake", lake.root, *period]))
    found = lake.differences(Period(START, START + DAY_MS))
    assert found
    assert found.count() == answers(lake).count() > 0
    assert status == 1
    assert list(Path(lake.root).glob("reports/*/*/report.html"))
    for name in (*IN_FORCE, CLAIMS):
        assert snapshot_days(lake.root, name) == [day_of(START)]


@pytest.mark.usefixtures("adaptive")
@pytest.mark.parametrize(("words", "status"), [([], 1), (["--assume-quiet"], 0)])
def test_a_day_without_a_file_is_a_finding_unless_nobody_can_count_what_came(
    lake: EventLake, words: list[str], status: int
) -> None:
    period = ["--from", instant_text(START), "--to", instant_text(START + DAY_MS), "--now", instant_text(NOW)]
    wanted = arguments.parse(["daily", "--strict", *words, "--lake", lake.root, *period])
    assert JOBS["daily"](lake, wanted) == status


def judged(lake: EventLake, day: Period, seen: dict[str, int | None], at: int) -> None:
    """As a run of then has left it."""
    name = differences_name(day)
    update(lake.root, name, lambda known: replace(known, sealed_at=at, seen=seen))
    tables = {"hours": hours(LakeView(lake.root), day, at, provisional=False)}
    write_page(lake.root, day, write_tables(lake.root, day, tables), "<p>", read_manifest(lake.root, name))


def nightly(lake: EventLake, now: int, *words: str) -> tuple[int, list[str]]:
    """How the scheduled run ends, and why."""
    wanted = arguments.parse(["daily", "--strict", *words, "--lake", lake.root, "--now", instant_text(now)])
    lake.view.refresh()
    return JOBS["daily"](lake, wanted), wanted.findings


def test_what_a_run_found_that_died_before_its_end_is_returned_by_the_next_one(lake: EventLake) -> None:
    SmallLake(lake.root).commit(Way(START).observed())
    yesterday = str(day_of(START))
    assert nightly(lake, NOW)[0] == 1
    # A run that is killed gets no further than the page.
    update(lake.root, DAILY, lambda known: replace(known, sealed_at=NOW - 1))
    status, why = nightly(lake, NOW + DAY_MS)
    assert (status, [each.startswith(yesterday) for each in why].count(True)) == (1, 1)


def test_a_daily_run_of_an_earlier_now_does_not_set_the_marker_back(tmp_path: Path) -> None:
    note_reported(str(tmp_path), NOW + 1)
    note_reported(str(tmp_path), NOW)
    last = read_manifest(str(tmp_path), DAILY)
    assert last
    assert last.sealed_at == NOW + 1


def test_what_was_returned_once_is_not_returned_after_a_run_that_failed_or_without_a_marker(lake: EventLake) -> None:
    SmallLake(lake.root).commit(Way(START).observed())
    yesterday = str(day_of(START))
    nightly(lake, NOW)
    nightly(lake, NOW + DAY_MS)
    # This one has noted that nothing has come of the day, and then failed.
    update(lake.root, DAILY, lambda known: replace(known, sealed_at=NOW))
    assert not any(each.startswith(yesterday) for each in nightly(lake, NOW + DAY_MS + HOUR_MS)[1])
    # As before the first run.
    (Path(lake.root) / manifest_path(DAILY)).unlink()
    assert not any(each.startswith(yesterday) for each in nightly(lake, NOW + DAY_MS + 2 * HOUR_MS)[1])


def test_a_day_is_judged_though_a_file_is_gone_of_what_came_late_for_others(lake: EventLake) -> None:
    late = SmallLake(lake.root).commit(*Way(START - 5 * DAY_MS).delivered())
    for back in (*range(1, 8), 10):
        # The last one was judged before the others, and before what came late.
        seen, at = ({}, START - 2) if back == 10 else ({late.hour: late.sealed_at}, START - 1)
        judged(lake, day_of(START - back * DAY_MS), seen, at)
    for file in late.kinds["push"]:
        Path(lake.path(file.path)).unlink()
    with pytest.raises(ExceptionGroup, match="could not be judged"):
        nightly(lake, NOW)
    assert lake.differences(day_of(START)) is not None


DAMAGED = {
    "what was found nine days ago": differences_name(day_of(START - 9 * DAY_MS)),
    "an hour of five days ago": hour_path(START - 5 * DAY_MS + 3 * HOUR_MS),
    "when a daily run last reported": DAILY,
    "the page of twelve days ago": report_name(day_of(START - 12 * DAY_MS)),
}


@pytest.mark.parametrize("what", DAMAGED)
def test_yesterday_is_judged_though_an_older_manifest_cannot_be_read(lake: EventLake, what: str) -> None:
    small = SmallLake(lake.root)
    small.stream(Way(START - 12 * DAY_MS).observed())
    newest = small.stream(Way(START).observed())
    for back in range(1, 13):
        judged(lake, day_of(START - back * DAY_MS), {}, START + 2 * HOUR_MS)
    for kind in IN_FORCE:
        update(
            lake.root, snapshot_name(kind, day_of(START - 2 * DAY_MS)), lambda known: replace(known, sealed_at=START)
        )
    note_reported(lake.root, START + 2 * HOUR_MS)
    damaged = Path(lake.root) / manifest_path(DAMAGED[what])
    damaged.parent.mkdir(exist_ok=True)
    damaged.write_text("{")
    # Old enough for what it names to be looked through for files to remove.
    os.utime(damaged, times=((NOW - 3 * DAY_MS) / 1_000,) * 2)
    with pytest.raises(ExceptionGroup, match="could not be judged") as ended:
        nightly(lake, NOW, "--assume-quiet")
    why = f"{manifest_path(DAMAGED[what])} can't be read: "
    assert any((reason(each) or "").startswith(why) for each in ended.value.exceptions)
    assert lake.differences(day_of(START)) is not None
    committed = {file.path for found in LakeView(lake.root).manifests(day_of(START)) for file in found.raw}
    assert committed == {newest}


def compact_the_day(lake: EventLake) -> None:
    period = ["--from", instant_text(START), "--to", instant_text(START + DAY_MS), "--now", instant_text(NOW)]
    JOBS["compact"](lake, arguments.parse(["compact", "--lake", lake.root, *period]))


def test_hours_that_no_run_has_compacted_are_made_up_for(lake: EventLake) -> None:
    """They hold the subscriptions and rules of all that was switched on before the pipeline was."""
    earlier = START - 20 * DAY_MS
    SmallLake(lake.root).stream(subscribed(at=earlier))
    compact_the_day(lake)
    manifest = read_manifest(lake.root, hour_path(earlier))
    assert manifest
    assert manifest.lines == 1


def test_what_a_snapshot_has_read_is_not_looked_through_again(lake: EventLake) -> None:
    small, before = SmallLake(lake.root), day_of(START - 10 * DAY_MS)
    small.stream(subscribed(at=before.start))
    small.stream(subscribed(at=before.end + HOUR_MS))
    for kind in IN_FORCE:
        update(lake.root, snapshot_name(kind, before), lambda known: replace(known, sealed_at=before.end))
    assert first_uncompacted(lake, START) == before.end + HOUR_MS


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
