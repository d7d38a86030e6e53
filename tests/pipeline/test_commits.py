"""The lake's commits on this machine's disk; what holds in S3 as well is in `test_commits_s3`."""

import json
import multiprocessing
import os
import resource
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from pipeline.compaction.vacuum import KEPT_MS, vacuum
from pipeline.lake.commits import (
    CommitConflict,
    LakeView,
    Manifest,
    commit,
    data_folder,
    manifest_path,
    manifest_text,
    new_commit,
    read_manifest,
)
from pipeline.lake.files import replace_file
from pipeline.lake.parquet import DataFile, write_parquet
from pipeline.period import DAY_MS, HOUR_MS, Period, hour_path, hour_start
from tests.pipeline.small_lake import data_paths

AT = 1_790_000_000_000 // DAY_MS * DAY_MS
HOUR = hour_path(AT)
DAY = Period(AT, AT + DAY_MS)
SCHEMA = pa.schema([("at", pa.int64())])
FILES = st.builds(DataFile, st.text(max_size=9), st.integers(0, 9), st.integers(0, 9), st.text("0123456789abcdef"))
WRITERS = 8


def made(root: str, hour: str, *values: int, kind: str = "push") -> Manifest:
    """Of a commit whose data file is written, and which nobody has committed."""
    name = new_commit()
    rows = pa.RecordBatch.from_pydict({"at": list(values)}, schema=SCHEMA)
    written = write_parquet(root, data_folder(kind, hour, name), [rows])
    return Manifest(hour, name, kinds={kind: (written,)})


def values(root: str, period: Period = DAY) -> list[int]:
    """What a reader meets."""
    tables = [parquet.read_table(path) for path in data_paths(root, "push", period)]
    return [value for table in tables for value in table["at"].to_pylist()]


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "lake")


@given(
    st.builds(
        Manifest,
        hour=st.just(HOUR),
        commit=st.text(min_size=1, max_size=9),
        sealed_at=st.none() | st.integers(0, 1 << 50),
        counted=st.none() | st.integers(0, 9),
        raw=st.lists(FILES, max_size=2).map(tuple),
        kinds=st.dictionaries(st.sampled_from(["push", "rules"]), st.lists(FILES, max_size=2).map(tuple)),
    )
)
def test_a_manifest_comes_out_of_its_json_as_it_went_in(manifest: Manifest) -> None:
    assert Manifest.from_json(manifest.to_json()) == manifest


def test_what_a_later_release_has_added_to_a_manifest_is_passed_over() -> None:
    manifest = Manifest(HOUR, "0" * 32)
    assert Manifest.from_json(manifest_text({**asdict(manifest), "added_later": 1})) == manifest


def test_a_manifest_of_a_release_without_digests_is_read_all_the_same() -> None:
    assert Manifest.from_json(json.dumps(asdict(Manifest(HOUR, "0" * 32)))) == Manifest(HOUR, "0" * 32)


@given(st.integers(0, 4_000_000_000_000))
def test_an_hour_begins_at_its_start(instant: int) -> None:
    assert hour_start(hour_path(instant)) == instant // HOUR_MS * HOUR_MS


def test_a_file_that_can_not_be_written_leaves_the_old_one_and_nothing_beside_it(tmp_path: Path) -> None:
    target = tmp_path / "manifest.json"
    replace_file(target, b"old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            replace_file(target, b"new" * 10)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [(path, path.read_bytes()) for path in tmp_path.iterdir()] == [(target, b"old")]


def test_a_written_file_counts_once_it_is_committed(root: str) -> None:
    new = made(root, HOUR, 1, 2)
    assert (values(root), read_manifest(root, HOUR)) == ([], None)
    commit(root, new, None)
    assert (values(root), read_manifest(root, HOUR)) == ([1, 2], new)


def test_a_data_file_is_described_as_it_lies_there(root: str) -> None:
    (written,) = made(root, HOUR, 1, 2, 3).files
    content = (Path(root) / written.path).read_bytes()
    assert (written.lines, written.bytes, written.digest) == (3, len(content), sha256(content).hexdigest())


def test_a_commit_replaces_the_one_that_it_knows(root: str) -> None:
    first, second = made(root, HOUR, 1), made(root, HOUR, 2)
    commit(root, first, None)
    commit(root, second, first.commit)
    assert values(root) == [2]


@pytest.mark.parametrize("replaces", [None, "another"])
def test_a_commit_that_does_not_know_its_predecessor_is_refused(root: str, replaces: str | None) -> None:
    first = made(root, HOUR, 1)
    commit(root, first, None)
    with pytest.raises(CommitConflict):
        commit(root, made(root, HOUR, 2), replaces)
    assert values(root) == [1]


def test_a_commit_that_replaces_what_is_not_there_is_refused(root: str) -> None:
    with pytest.raises(CommitConflict):
        commit(root, made(root, HOUR, 1), "another")
    assert read_manifest(root, HOUR) is None


def test_a_reader_keeps_its_files_while_they_are_replaced(root: str) -> None:
    first = made(root, HOUR, 1)
    commit(root, first, None)
    (met,) = data_paths(root, "push", DAY)
    commit(root, made(root, HOUR, 2), first.commit)
    assert parquet.read_table(met)["at"].to_pylist() == [1]


def test_hours_are_read_in_order_and_only_those_of_the_period(root: str) -> None:
    for number in (30, 2, 1, 23):
        commit(root, made(root, hour_path(AT + number * HOUR_MS), number), None)
    assert values(root) == [1, 2, 23]
    assert values(root, Period(AT + HOUR_MS + 1, AT + 2 * HOUR_MS + 1)) == [1, 2]
    assert len(LakeView(root).manifests(Period(0, AT + 9 * DAY_MS))) == 4


def test_a_lake_without_commits_has_none(root: str) -> None:
    assert (LakeView(root).manifests(DAY), data_paths(root, "push", DAY)) == ([], [])


def test_what_is_of_no_hour_is_committed_under_its_name(root: str) -> None:
    new = made(root, "snapshots/rules/day=2026-11-20", 7, kind="rules")
    commit(root, new, None)
    assert read_manifest(root, new.hour) == new
    assert new.files[0].path.startswith(f"snapshots/rules/day=2026-11-20/commit={new.commit}/")
    assert LakeView(root).manifests(Period(0, AT + DAY_MS)) == []


def _append(root: str, value: int) -> None:
    """Adds its file to the hour, beginning anew after each race that it loses."""
    while True:
        known = read_manifest(root, HOUR)
        new = made(root, HOUR, value)
        if known:
            new = replace(new, kinds={"push": (*known.kinds["push"], *new.kinds["push"])})
        try:
            return commit(root, new, known.commit if known else None)
        except CommitConflict:
            continue


def test_of_threads_that_race_none_is_lost(root: str) -> None:
    with ThreadPoolExecutor(WRITERS) as threads:
        list(threads.map(_append, [root] * WRITERS, range(WRITERS)))
    assert sorted(values(root)) == list(range(WRITERS))


def test_of_processes_that_race_none_is_lost(root: str) -> None:
    with multiprocessing.get_context("spawn").Pool(2) as processes:
        processes.starmap(_append, [(root, value) for value in range(WRITERS)])
    assert sorted(values(root)) == list(range(WRITERS))


def test_a_commit_shows_all_its_kinds_at_once(root: str) -> None:
    """A reader that asks again and again never meets one kind of one commit and another of the next."""
    pairs = [replace(made(root, HOUR, value), kinds={}) for value in range(2)]
    both = [
        replace(new, kinds={kind: made(root, HOUR, number, kind=kind).files for kind in ("push", "rules")})
        for number, new in enumerate(pairs)
    ]
    commit(root, both[0], None)

    def rewrite() -> None:
        for number in range(100):
            commit(root, both[1 - number % 2], both[number % 2].commit)

    with ThreadPoolExecutor(1) as writer:
        writing, met = writer.submit(rewrite), set()
        while not writing.done():
            found = read_manifest(root, HOUR)
            met.add(found and tuple(found.kinds.items()))
        writing.result()
    assert met <= {tuple(each.kinds.items()) for each in both}


@pytest.fixture
def replaced(root: str) -> tuple[Manifest, Manifest]:
    """An hour's first commit, and the one that has replaced it."""
    first = made(root, HOUR, 1)
    commit(root, first, None)
    second = made(root, HOUR, 2)
    commit(root, second, first.commit)
    return first, second


def _now(root: str) -> int:
    """When the hour's manifest was written."""
    return (Path(root) / manifest_path(HOUR)).stat().st_mtime_ns // 1_000_000


def test_what_was_replaced_is_removed_after_two_days(root: str, replaced: tuple[Manifest, Manifest]) -> None:
    first, second = replaced
    removed = vacuum(root, ["push"], _now(root) + KEPT_MS + 1)
    assert removed == [first.files[0].path]
    assert not (Path(root) / first.files[0].path).exists()
    assert values(root) == [2]
    assert read_manifest(root, HOUR) == second


@pytest.mark.usefixtures("replaced")
def test_what_was_replaced_is_kept_for_its_readers(root: str) -> None:
    assert vacuum(root, ["push"], _now(root) + KEPT_MS - 1) == []


def test_what_is_being_written_is_kept_for_its_commit(root: str, replaced: tuple[Manifest, Manifest]) -> None:
    coming = made(root, HOUR, 3)
    later = _now(root) + KEPT_MS + 1
    os.utime(Path(root) / coming.files[0].path, ns=(later * 1_000_000,) * 2)
    assert vacuum(root, ["push"], later) == [replaced[0].files[0].path]
    commit(root, coming, replaced[1].commit)
    assert values(root) == [3]


def test_only_data_files_are_ever_removed(root: str, replaced: tuple[Manifest, Manifest]) -> None:
    others = [Path(root) / "push" / f"day={HOUR.partition('/')[0]}" / "notes.txt", Path(root) / "events" / "raw.jsonl"]
    for other in others:
        other.parent.mkdir(parents=True, exist_ok=True)
        other.touch()
    assert len(vacuum(root, ["push", "events"], _now(root) + KEPT_MS + 1)) == 1
    assert all(other.exists() for other in others)
