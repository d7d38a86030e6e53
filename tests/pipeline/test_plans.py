"""Which runs of `replay` are read, long after some of their plans have expired."""

import json
from dataclasses import asdict
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pytest

from pipeline.lake.commits import CommitConflict, DamagedRecord, Manifest, commit, new_commit
from pipeline.lake.files import write_text
from pipeline.lake.lookup import Lookup
from pipeline.lake.parquet import write_parquet
from pipeline.lake.plans import (
    LEASE_MS,
    PROGRESS,
    RunLease,
    RunProgress,
    next_run,
    progress,
    run_name,
    run_of,
    runs_since,
)
from pipeline.period import DAY_MS
from pipeline.repair.replay import unfinished
from pipeline.spark.ending import reason
from tests.pipeline.small_lake import START

PERSON = UUID(int=1)


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path)


def planned(root: str, run: str, receipt: UUID, at: int) -> Manifest:
    rows = pa.RecordBatch.from_pydict({"receipt": [str(receipt)], "subscription_id": [str(PERSON)]})
    name = run_name(run)
    manifest = Manifest(name, new_commit(), at, kinds={name: (write_parquet(root, name, [rows]),)})
    commit(root, manifest, None)
    return manifest


@pytest.fixture
def runs(root: str) -> list[Manifest]:
    """A run of 400 days ago, whose plan has expired, and one of now."""
    old = planned(root, "000009", UUID(int=9), START - 400 * DAY_MS)
    (Path(root) / old.files[0].path).unlink()
    return [old, planned(root, "000010", UUID(int=10), START)]


def test_a_plan_that_has_expired_is_not_read_by_what_is_about_later_days(root: str, runs: list[Manifest]) -> None:
    assert runs_since(root, START - 45 * DAY_MS) == runs[1:]
    known = Lookup(root).replayed({UUID(int=9), UUID(int=10)}, START - DAY_MS)
    assert known == {(UUID(int=10), PERSON)}


@pytest.mark.parametrize("aside", [f"{PROGRESS}/000011.damaged", "manifests/replays/run=000011.json.damaged"])
@pytest.mark.usefixtures("runs")
def test_a_record_that_somebody_has_moved_aside_is_of_no_run(root: str, aside: str) -> None:
    write_text(f"{root}/{aside}", "{")
    assert next_run(root) == "000011"
    assert [run_of(run) for run in runs_since(root, 0)] == ["000009", "000010"]


def test_runs_count_on_from_the_last_that_was_planned_or_begun(root: str, runs: list[Manifest]) -> None:
    assert (run_of(runs[1]), next_run(root)) == ("000010", "000011")
    write_text(f"{root}/{PROGRESS}/000012", "{}")
    assert next_run(root) == "000013"


def test_the_first_run_has_the_number_one(root: str) -> None:
    assert (next_run(root), runs_since(root, 0)) == ("000001", [])


def test_of_two_runs_that_plan_at_once_one_counts(root: str) -> None:
    run = next_run(root)
    first = planned(root, run, UUID(int=1), START)
    with pytest.raises(CommitConflict):
        planned(root, run, UUID(int=1), START + 1)
    assert runs_since(root, 0) == [first]


@pytest.mark.usefixtures("runs")
def test_a_run_is_finished_while_its_claims_are_known(root: str) -> None:
    assert [run_of(each) for each in unfinished(root, START + 45 * DAY_MS)] == ["000010"]
    assert unfinished(root, START + 45 * DAY_MS + 1) == []
    lease = RunLease(root, "000010")
    assert lease.take() == -1
    lease.finish()
    assert unfinished(root, START) == []


def test_one_at_a_time_has_a_run_and_another_goes_on_where_it_was_stopped(root: str) -> None:
    now = START
    first, second = (RunLease(root, "000001", clock=lambda: now) for _ in range(2))
    assert (first.take(), second.take()) == (-1, None)
    now += LEASE_MS - 1
    assert first.advance(9)
    now += LEASE_MS - 1
    assert second.take() is None
    now += 1
    assert second.take() == 9
    # The first one was only slow, and must not go on.
    assert not first.advance(19)
    first.finish()
    first.release()
    assert second.advance(29)
    second.release()
    assert first.take() == 29
    first.finish()
    now += 2 * LEASE_MS
    assert second.take() is None


def test_a_slow_pace_keeps_the_lease(root: str) -> None:
    now = START
    slow, other = (RunLease(root, "000001", pause_ms=pause, clock=lambda: now) for pause in (10 * LEASE_MS, 0))
    assert slow.take() == -1
    now += 10 * LEASE_MS
    assert other.take() is None
    assert slow.advance(9)


@pytest.mark.parametrize(
    "text", ["", "done", "7", "null", "[]", '"sent"', "{}", '{"sent": 9}', json.dumps(asdict(RunProgress()))[:-1]]
)
def test_progress_that_cannot_be_read_is_named_and_not_guessed_at(root: str, text: str) -> None:
    path = f"{root}/{PROGRESS}/000001"
    write_text(path, text)
    for ask in (lambda: progress(root, "000001"), RunLease(root, "000001").take):
        with pytest.raises(DamagedRecord) as raised:
            ask()
        said = reason(raised.value)
        assert said
        assert said.startswith(f"{path} can't be read: ")
        assert "\n" not in said
    assert Path(path).read_text() == text


def test_what_a_later_release_has_added_to_progress_is_passed_over(root: str) -> None:
    known = RunProgress(9, done=True)
    write_text(f"{root}/{PROGRESS}/000001", json.dumps(asdict(known) | {"region": "eu-west-1"}))
    assert progress(root, "000001") == known
    assert progress(root, "000002") == RunProgress()


def test_what_a_writer_left_behind_is_no_run(root: str, runs: list[Manifest]) -> None:
    for place in (f"manifests/{run_name('000010')}.json", f"{PROGRESS}/000011"):
        left = Path(root) / place
        left.parent.mkdir(exist_ok=True)
        left.with_name(f".{left.name}.0123abcd").write_text("")
    assert next_run(root) == "000011"
    assert runs_since(root, START) == runs[1:]
