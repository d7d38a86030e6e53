"""Jobs that run at once over one lake."""

import shutil
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Event

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from clarion.clock import now_ms
from pipeline import arguments
from pipeline.cli import JOBS
from pipeline.columns import EventKind
from pipeline.compaction.compact import MAX_ROUNDS, Compacted, compact
from pipeline.erase.run import erase
from pipeline.generator.day import answers
from pipeline.generator.plan import Plan
from pipeline.lake.commits import CommitConflict, Kinds, LakeView, Manifest, read_manifest, update
from pipeline.lake.event_lake import EventLake
from pipeline.period import HOUR_MS, Period, hour_path, instant_text
from pipeline.repair import replay
from tests.pipeline.conftest import DAY, NOW, START, copied
from tests.pipeline.small_lake import CLIENT, OTHER, TABLET, SmallLake, Way
from tests.pipeline.test_lake import ARRIVED, EVENTS, arrive, lines_of

EVERYTHING = Period(START - 3 * DAY, NOW)
MOST_COMMITS = 6
"""Beside one judgement: enough for each of its stages to meet one."""


def at_once(*jobs: Callable[[], object]) -> list[object]:
    """What they return, all begun at the same moment."""
    together = Barrier(len(jobs))

    def begun(job: Callable[[], object]) -> object:
        together.wait()
        return job()

    with ThreadPoolExecutor(len(jobs)) as threads:
        return [running.result() for running in [threads.submit(begun, job) for job in jobs]]


def test_of_two_that_compact_at_once_each_line_is_taken_in_once(lake: EventLake) -> None:
    for hour in range(2):
        arrive(lake, lines_of(EVENTS), hour, name=f"file-{hour}")
    done = at_once(*[lambda: compact(EventLake(lake.spark, lake.root), ARRIVED, now_ms())] * 2)
    assert lake.read(EventKind.PUSH).count() == 2
    lines = Counter[str]()
    for compacted in done:
        assert isinstance(compacted, Compacted)
        lines.update(compacted.lines)
    assert lines == {str(kind): 2 for kind in EventKind}


def test_a_compact_that_another_one_overtakes_begins_its_hour_anew(lake: EventLake) -> None:
    arrive(lake, lines_of(EVENTS[:1]), hour=0)

    class Overtaken(EventLake):
        overtaken = False

        def write_files(self, kind: str, rows: DataFrame) -> Kinds:
            if not Overtaken.overtaken:
                Overtaken.overtaken = True
                compact(lake, ARRIVED, now_ms())
                arrive(lake, lines_of(EVENTS[1:2]), hour=0, name="late")
            return super().write_files(kind, rows)

    taken_in = compact(Overtaken(lake.spark, lake.root), ARRIVED, now_ms())
    assert taken_in.lines == {EventKind.ENVELOPE: 1}
    assert (lake.read(EventKind.OBSERVED).count(), lake.read(EventKind.ENVELOPE).count()) == (1, 1)


def test_a_compact_that_is_always_overtaken_ends_with_an_error(tmp_path: Path) -> None:
    """There is nothing new to read; what it would commit is how many records were counted."""
    hour, commits = hour_path(START), list[str]()

    class BusyView(LakeView):
        def manifests(self, period: Period) -> list[Manifest]:
            found = super().manifests(period)
            commits.append(update(self.root, hour, lambda known: known).commit)
            return found

    class BusyLake(EventLake):
        view = BusyView(str(tmp_path))

    lake = BusyLake(None, str(tmp_path))  # type: ignore[arg-type] # nothing is read or written by Spark
    with pytest.raises(CommitConflict):
        compact(lake, Period(START, START + HOUR_MS), NOW, {hour: 3})
    assert len(commits) == 2 * MAX_ROUNDS
    last = read_manifest(lake.root, hour)
    assert last
    assert (last.commit, last.counted) == (commits[-1], None)


def test_a_reader_meets_what_it_asked_for_while_late_files_are_compacted_and_old_ones_removed(lake: EventLake) -> None:
    arrive(lake, lines_of(EVENTS), hour=0)
    compact(lake, ARRIVED, now_ms())
    reader = EventLake(lake.spark, lake.root)
    rows = reader.read(EventKind.PUSH)
    arrive(lake, lines_of(EVENTS), hour=0, name="late")
    compact(lake, ARRIVED, now_ms())
    assert rows.count() == reader.read(EventKind.PUSH).count() == 1
    assert lake.read(EventKind.PUSH).count() == 2


@pytest.mark.usefixtures("adaptive")
def test_compact_reconcile_and_replay_run_at_once_and_find_what_each_would_alone(
    day: EventLake, plan: Plan, tmp_path: Path
) -> None:
    """An hour of the period is compacted anew, file by file, while it is judged: what is found stays the same."""
    root = copied(day, tmp_path).root
    lake = EventLake(day.spark, root)
    period = ["--from", instant_text(plan.period.start), "--to", instant_text(plan.period.end)]
    asked = [*period, "--now", instant_text(NOW), "--lake", root]
    stop = Event()

    def keep_compacting() -> int:
        commits = 0
        while commits < MOST_COMMITS and not stop.is_set():
            arrive_again(lake, commits)
            compact(EventLake(day.spark, root), EVERYTHING, NOW)
            commits += 1
        return commits

    def judge() -> None:
        try:
            JOBS["reconcile"](lake, arguments.parse(["reconcile", *asked]))
            JOBS["replay"](EventLake(day.spark, root), arguments.parse(["replay", "--dry-run", *asked]))
        finally:
            stop.set()

    commits, _ = at_once(keep_compacting, judge)
    assert commits
    found = EventLake(day.spark, root).differences(plan.period)
    assert found
    same = ("receipt", "subscription_id", "difference")
    assert {tuple(row) for row in found.select(*same).collect()} == {
        tuple(row) for row in answers(day).select(*same).collect()
    }


def arrive_again(lake: EventLake, number: int) -> None:
    """One of the stream's files once more, under another name, as after a retry: each of its lines is a repeat."""
    first = min(Path(lake.root).glob("events/*/*/*.gz"))
    shutil.copy(first, first.with_name(f"again-{number}.gz"))


def test_a_replay_that_another_one_overtakes_plans_nothing(
    day: EventLake, plan: Plan, differences: DataFrame, tmp_path: Path
) -> None:
    """It may have planned the same: so no plan holds a message twice."""
    lake = copied(day, tmp_path)

    class Overtaken(EventLake):
        def plans(self, since: int) -> DataFrame:
            replay.plan(lake, differences, plan.period, NOW, dry_run=False)
            return super().plans(since)

    with pytest.raises(CommitConflict):
        replay.plan(Overtaken(lake.spark, lake.root), differences, plan.period, NOW, dry_run=False)
    planned = lake.plans(since=0).groupBy("receipt", "subscription_id").count()
    assert planned.count() > 0
    assert planned.where(F.col("count") > 1).count() == 0


def test_what_a_compact_has_written_that_an_erasure_overtakes_is_not_left_behind(lake: EventLake) -> None:
    """It read the client's lines before they were removed, and comes to its commit after that."""
    small = SmallLake(lake.root)
    way = Way()
    small.stream(*way.delivered(), way.notification(to=TABLET, client=OTHER))

    class Overtaken(EventLake):
        overtaken = False

        def write_files(self, kind: str, rows: DataFrame) -> Kinds:
            if not Overtaken.overtaken:
                Overtaken.overtaken = True
                erase(lake.root, CLIENT, dry_run=False, on_progress=lambda _: None)
            return super().write_files(kind, rows)

    compact(Overtaken(lake.spark, lake.root), ARRIVED, now_ms())
    assert lake.read(EventKind.NOTIFICATION).select("client_id").collect() == [(bytearray(OTHER),)]
    assert lake.read(EventKind.OBSERVED).count() == 1
    assert [path for path, content in small.texts() if CLIENT in content or CLIENT.hex().encode() in content] == []
