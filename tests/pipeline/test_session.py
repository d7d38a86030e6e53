"""How Spark's settings are fitted to the size of what it reads."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from clarion.events import LimitsLoaded
from clarion.networks import STATEMENTS
from pipeline.columns import EventKind
from pipeline.generator.plan import Plan
from pipeline.lake.commits import LakeView, Manifest, commit, new_commit
from pipeline.lake.event_lake import EventLake
from pipeline.lake.parquet import DataFile
from pipeline.lake.snapshots import CLAIMS, IN_FORCE, day_of, snapshot_name
from pipeline.period import EVER, HOUR_MS, Period, hour_path
from pipeline.reconciliation.reconcile import MIN_ROW_BYTES, reconcile, size_of
from pipeline.spark.session import SMALL_BYTES, SMALL_SETTINGS, is_small, small_lake_settings
from pipeline.terms import Terms
from tests.pipeline.conftest import ADAPTIVE, NOW, START
from tests.pipeline.small_lake import SmallLake, add_files

SAME = ("receipt", "subscription_id", "difference", "evidence")
JOBS = 24
"""Of Spark, for a small day with every fault: each has its plan, which is most of what it takes."""


def known(spark: SparkSession) -> dict[str, str | None]:
    return {name: spark.conf.get(name, None) for name in SMALL_SETTINGS}


@pytest.mark.usefixtures("adaptive")
def test_a_plan_for_few_bytes_is_neither_compiled_nor_planned_anew(spark: SparkSession) -> None:
    before = known(spark)
    with small_lake_settings(spark, SMALL_BYTES):
        assert (known(spark), is_small(spark)) == (SMALL_SETTINGS, True)
    assert known(spark) == before
    assert before[ADAPTIVE] == "true"


@pytest.mark.usefixtures("adaptive")
def test_a_plan_for_more_bytes_runs_as_the_session_does(spark: SparkSession) -> None:
    before = known(spark)
    with small_lake_settings(spark, SMALL_BYTES + 1):
        assert (known(spark), is_small(spark)) == (before, False)


def test_the_settings_are_put_back_after_an_error(spark: SparkSession) -> None:
    before = known(spark)
    with pytest.raises(ValueError, match="broken"), small_lake_settings(spark, 0):
        raise ValueError("broken")
    assert known(spark) == before


def test_the_class_and_the_method_that_make_a_column_are_looked_up_once(spark: SparkSession) -> None:
    java: Any = spark.sparkContext._jvm
    assert java.functions.col is java.functions.col


def test_the_size_of_a_reconciliation_is_that_of_all_kinds_it_reads(day: EventLake, plan: Plan) -> None:
    files = [
        (kind, file) for found in day.view.manifests(EVER) for kind in EventKind for file in found.kinds.get(kind, ())
    ]
    assert size_of(day.view, plan.period, NOW, Terms()) == sum(
        file.bytes if kind in IN_FORCE else max(file.bytes, MIN_ROW_BYTES * file.lines) for kind, file in files
    )


def decided(root: str, at: int, lines: int) -> None:
    add_files(root, hour_path(at), {EventKind.NOTIFICATION: (DataFile("file", lines, 1, ""),)})


def test_what_was_decided_before_counts_as_far_back_as_it_is_read_and_lines_count_however_well_they_are_packed(
    tmp_path: Path,
) -> None:
    root, period, terms = str(tmp_path), Period(START, START + HOUR_MS), Terms(lookback=24 * HOUR_MS)
    for hours, lines in ((30, 1), (10, 20), (0, 300)):
        decided(root, START - hours * HOUR_MS, lines)
    assert size_of(LakeView(root), period, NOW, terms) == 320 * MIN_ROW_BYTES
    commit(root, Manifest(snapshot_name(CLAIMS, day_of(START - 1)), new_commit()), None)
    assert size_of(LakeView(root), period, NOW, terms) == 300 * MIN_ROW_BYTES
    loaded = LimitsLoaded(network=STATEMENTS, at=START, cap=1, cap_window=11 * HOUR_MS)
    limits = SmallLake(root).commit(loaded).kinds[EventKind.LIMITS]
    assert size_of(LakeView(root), period, NOW, terms) == 320 * MIN_ROW_BYTES + limits[0].bytes


@pytest.fixture(scope="module")
def few(day: EventLake, plan: Plan) -> DataFrame:
    """What is found where nothing is left out, in few jobs."""
    context = day.spark.sparkContext
    context.setJobGroup("few", "")
    with small_lake_settings(day.spark, 0):
        found = reconcile(replace(day), plan.period, NOW, Terms()).differences.localCheckpoint()
    context.setJobGroup("", "")
    return found


def test_a_few_are_compared_as_a_whole_and_found_to_differ_as_many_are(few: DataFrame, differences: DataFrame) -> None:
    found, expected = ({tuple(row) for row in rows.select(*SAME).collect()} for rows in (few, differences))
    assert found == expected
    assert few.count() == len(expected)


def test_a_few_take_few_jobs(few: DataFrame) -> None:
    assert 0 < len(few.sparkSession.sparkContext.statusTracker().getJobIdsForGroup("few")) <= JOBS
