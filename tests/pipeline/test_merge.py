"""An hour that was compacted in many steps gets few files, and who reads it meanwhile notices nothing."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession

from clarion.events import PushTried
from pipeline.columns import UNREADABLE, EventKind
from pipeline.compaction.compact import compact
from pipeline.compaction.merge import MAX_SMALL_FILES, SMALL_BYTES, merge_small_files, small_files_to_merge
from pipeline.lake.commits import Kinds, LakeView, Manifest, commit, data_folder, read_manifest
from pipeline.lake.event_lake import EventLake
from pipeline.lake.lookup import Lookup
from pipeline.lake.parquet import DataFile, write_parquet
from pipeline.period import DAY_MS, HOUR_MS, Period, hour_path
from tests.pipeline.small_lake import START, SmallLake, Way, data_paths

pytestmark = pytest.mark.usefixtures("adaptive")

PERIOD = Period(START, START + HOUR_MS)
HOUR = hour_path(START)
WAYS = [Way(START + number, number) for number in range(MAX_SMALL_FILES + 1)]
PUSHES = [way.push() for way in WAYS]


@pytest.fixture
def small(tmp_path: Path) -> SmallLake:
    """An hour to which as many commits have added as it may have files, and one more."""
    lake = SmallLake(tmp_path / "lake")
    for push in PUSHES:
        lake.commit(push, at=START)
    lake.commit(Way(START + HOUR_MS).push())
    return lake


@pytest.fixture
def lake(spark: SparkSession, small: SmallLake) -> EventLake:
    return EventLake(spark, small.root)


def manifest(lake: EventLake) -> Manifest:
    found = read_manifest(lake.root, HOUR)
    assert found
    return found


def pushes(lake: EventLake) -> list[PushTried]:
    return sorted(Lookup(lake.root).every(PushTried, PERIOD), key=lambda push: push.at)


def sized(count: int, size: int) -> tuple[DataFile, ...]:
    return tuple(DataFile(f"push/{number}", 1, size, "") for number in range(count))


def test_only_a_kind_with_too_many_small_files_is_crowded() -> None:
    many, few, large = (
        sized(MAX_SMALL_FILES + 1, 1),
        sized(MAX_SMALL_FILES, 1),
        sized(10 * MAX_SMALL_FILES, SMALL_BYTES),
    )
    hour = Manifest(HOUR, "one", kinds={"push": (*many, *large), "rules": few, "observed": large})
    assert small_files_to_merge(hour) == {"push": many}


def test_compacting_merges_what_has_become_too_many_and_loses_nothing(lake: EventLake) -> None:
    before = manifest(lake)
    compact(lake, PERIOD, START + DAY_MS)
    after = manifest(lake)
    assert [len(each.kinds["push"]) for each in (before, after)] == [MAX_SMALL_FILES + 1, 1]
    assert pushes(lake) == PUSHES
    assert replace(after, commit=before.commit, kinds=before.kinds) == before


def test_what_was_merged_is_not_merged_again(lake: EventLake) -> None:
    merge_small_files(lake, PERIOD)
    once = manifest(lake)
    merge_small_files(lake, PERIOD)
    assert manifest(lake) == once


def test_a_reader_that_began_before_reads_the_files_that_it_met(lake: EventLake) -> None:
    reader = EventLake(lake.spark, lake.root)
    rows = reader.read(EventKind.PUSH, PERIOD)
    met = data_paths(lake.root, "push", PERIOD)
    merge_small_files(lake, PERIOD)
    assert rows.count() == len(PUSHES)
    assert all(Path(path).exists() for path in met)
    assert lake.read(EventKind.PUSH, PERIOD).count() == len(PUSHES)


def test_a_merge_that_another_commit_overtakes_leaves_the_hour_to_the_next_run(
    lake: EventLake, small: SmallLake
) -> None:
    late = Way(START + 999, 999).push()

    class Overtaken(EventLake):
        def write_files(self, kind: str, rows: DataFrame) -> Kinds:
            small.commit(late, at=START)
            return super().write_files(kind, rows)

    merge_small_files(Overtaken(lake.spark, lake.root), PERIOD)
    assert len(manifest(lake).kinds["push"]) == MAX_SMALL_FILES + 2
    merge_small_files(EventLake(lake.spark, lake.root), PERIOD)
    assert len(manifest(lake).kinds["push"]) == 1
    assert pushes(lake) == [*PUSHES, late]


def test_a_merge_that_loses_a_line_is_never_committed(lake: EventLake) -> None:
    class Forgetful(EventLake):
        def write_files(self, kind: str, rows: DataFrame) -> Kinds:
            return super().write_files(kind, rows.limit(3))

    before = manifest(lake)
    with pytest.raises(RuntimeError, match=f"^{HOUR}: of 17 lines 3 were written$"):
        merge_small_files(Forgetful(lake.spark, lake.root), PERIOD)
    assert manifest(lake) == before


def test_unreadable_lines_are_merged_as_text(spark: SparkSession, tmp_path: Path) -> None:
    root = str(tmp_path / "lake")
    texts = [f"line {number}" for number in range(MAX_SMALL_FILES + 1)]
    files = tuple(written(root, text) for text in texts)
    commit(root, Manifest(HOUR, "one", kinds={UNREADABLE: files}), None)
    merge_small_files(EventLake(spark, root), PERIOD)
    [hour] = LakeView(root).manifests(PERIOD)
    [file] = hour.kinds[UNREADABLE]
    assert sorted(parquet.read_table(Path(root) / file.path, partitioning=None)["value"].to_pylist()) == sorted(texts)


def written(root: str, text: str) -> DataFile:
    """A file with one line that nobody here can read."""
    rows = pa.RecordBatch.from_pydict({"value": [text]})
    return write_parquet(root, data_folder(UNREADABLE, HOUR, "one"), [rows])
