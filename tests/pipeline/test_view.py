"""A job reads each manifest once, and whoever asks it later in the same job meets the same."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.compaction.completeness import incomplete_hours
from pipeline.lake.commits import (
    CommitConflict,
    LakeView,
    Manifest,
    commit,
    manifest_path,
    merged,
    read_manifest,
    update,
)
from pipeline.lake.event_lake import differences_name
from pipeline.period import DAY_MS, HOUR_MS, Period, hour_path
from pipeline.reconciliation.due_days import due_days
from pipeline.report import inputs
from pipeline.report.report_files import write_page, write_tables
from tests.pipeline.small_lake import add_files
from tests.pipeline.test_commits import AT, HOUR, made, values
from tests.pipeline.test_commits_s3 import BUCKET, MANIFEST, ROOT, RecordedS3, s3, server  # noqa: F401 - fixtures

PERIOD = Period(AT, AT + 2 * HOUR_MS)
NOW = AT + DAY_MS
HOURS = [hour_path(AT + number * HOUR_MS) for number in range(-1, 3)]
"""Those in which something of the period arrives."""
WRITERS = 6


def sealed(root: str, hour: str, *found: int) -> Manifest:
    new = replace(made(root, hour, *found), sealed_at=NOW)
    commit(root, new, None)
    return new


def manifests_read(s3: RecordedS3) -> Counter[str]:  # noqa: F811 - of the fixture
    """How often each manifest of an hour was asked for."""
    asked = (each["PATH_INFO"] for each in s3.requests if each["REQUEST_METHOD"] == "GET")
    return Counter(path for path in asked if path.startswith(f"/{BUCKET}/manifests/day="))


def test_completeness_report_and_reads_ask_for_each_manifest_once(s3: RecordedS3) -> None:  # noqa: F811 - a fixture
    for number, hour in enumerate(HOURS):
        sealed(ROOT, hour, number)
    s3.requests.clear()
    view = LakeView(ROOT)
    assert incomplete_hours(view, PERIOD, NOW) == []
    rows = inputs.hours(view, PERIOD, NOW, provisional=False).to_pylist()
    assert [row["problem"] for row in rows] == [None] * 4
    assert inputs.newest(view, NOW) == HOURS[-1]
    assert [found.hour for found in view.manifests(PERIOD)] == HOURS[1:3]
    assert manifests_read(s3) == {f"/{BUCKET}/{manifest_path(hour)}": 1 for hour in HOURS}


def test_a_manifest_that_is_replaced_while_it_is_read_is_the_old_one_or_the_new_one(s3: RecordedS3) -> None:  # noqa: F811 - a fixture
    """The new one is longer: what asks for the size first would get a part of it."""
    first, second = made(ROOT, HOUR, 1), made(ROOT, HOUR, 2)
    longer = replace(second, kinds=merged(first.kinds, second.kinds))
    commit(ROOT, first, None)
    s3.requests.clear()
    s3.before["GET", MANIFEST] = lambda: commit(ROOT, longer, first.commit)
    assert read_manifest(ROOT, HOUR) in (first, longer)
    assert "HEAD" not in {each["REQUEST_METHOD"] for each in s3.requests}


def test_days_that_share_an_hour_are_looked_at_once(s3: RecordedS3) -> None:  # noqa: F811 - a fixture
    """A day is due again if the first hour of the next one has changed since."""
    for back in range(3):
        sealed(ROOT, hour_path(AT - back * DAY_MS))
    seen = {hour_path(AT - back * DAY_MS): NOW for back in range(3)}
    for back in range(1, 4):
        day = Period(AT - back * DAY_MS, AT - (back - 1) * DAY_MS)
        update(ROOT, differences_name(day), lambda known: replace(known, sealed_at=NOW, seen=seen))
        write_page(ROOT, day, write_tables(ROOT, day, {}), "<p>", read_manifest(ROOT, differences_name(day)))
    s3.requests.clear()
    assert due_days(LakeView(ROOT), Period(AT - DAY_MS, AT)).due == []
    assert set(manifests_read(s3).values()) == {1}


def test_what_was_found_complete_is_what_is_read_whatever_is_committed_meanwhile(tmp_path: Path) -> None:
    root = str(tmp_path)
    first = sealed(root, HOUR, 1)
    view = LakeView(root)
    assert [each.hour for each in incomplete_hours(view, Period(AT, AT + 1), NOW)] == [HOURS[0], HOURS[2]]
    commit(root, replace(made(root, HOUR, 2), sealed_at=None), first.commit)
    assert view.manifests(Period(AT, AT + 1)) == [first]
    view.refresh()
    assert view.manifests(Period(AT, AT + 1)) != [first]


def test_a_day_that_is_first_asked_for_later_is_seen_as_it_is_then(tmp_path: Path) -> None:
    root = str(tmp_path)
    today, tomorrow = sealed(root, HOUR, 1), sealed(root, hour_path(NOW), 2)
    view = LakeView(root)
    assert view.manifests(Period(AT, NOW)) == [today]
    after = replace(made(root, hour_path(NOW), 3), sealed_at=NOW)
    commit(root, after, tomorrow.commit)
    assert view.manifests(Period(AT, NOW + 1)) == [today, after]


def test_a_lake_that_gets_its_first_commit_is_seen_after_a_refresh(tmp_path: Path) -> None:
    view = LakeView(str(tmp_path))
    assert view.manifests(PERIOD) == []
    new = sealed(str(tmp_path), HOUR, 1)
    view.refresh()
    assert view.manifests(PERIOD) == [new]


def test_an_empty_hour_is_a_manifest_without_lines(tmp_path: Path) -> None:
    root = str(tmp_path)
    for hour in HOURS:
        commit(root, Manifest(hour, "one", sealed_at=NOW, counted=0), None)
    view = LakeView(root)
    assert incomplete_hours(view, PERIOD, NOW) == []
    assert [(found.lines, found.files) for found in view.manifests(PERIOD)] == [(0, ()), (0, ())]
    rows = inputs.hours(view, PERIOD, NOW, provisional=False).to_pylist()
    assert [(row["lines"], row["problem"]) for row in rows] == [(0, None)] * 4


def test_an_update_that_is_overtaken_in_s3_begins_anew_and_keeps_both(s3: RecordedS3) -> None:  # noqa: F811 - a fixture
    first, second, third = (made(ROOT, HOUR, number) for number in range(3))
    commit(ROOT, first, None)
    s3.before["PUT", MANIFEST] = lambda: add_files(ROOT, HOUR, second.kinds)
    add_files(ROOT, HOUR, third.kinds)
    assert values(ROOT) == [0, 1, 2]


def test_an_update_of_what_was_not_there_is_overtaken_as_well(s3: RecordedS3) -> None:  # noqa: F811 - a fixture
    first, second = (made(ROOT, HOUR, number) for number in range(2))
    s3.before["PUT", MANIFEST] = lambda: commit(ROOT, first, None)
    add_files(ROOT, HOUR, second.kinds)
    assert values(ROOT) == [0, 1]


@pytest.mark.usefixtures("s3")
def test_of_writers_that_race_in_s3_none_is_lost() -> None:
    news = [made(ROOT, HOUR, number) for number in range(WRITERS)]
    with ThreadPoolExecutor(WRITERS) as writers:
        list(writers.map(lambda new: add_files(ROOT, HOUR, new.kinds), news))
    assert sorted(values(ROOT)) == list(range(WRITERS))


@pytest.mark.usefixtures("s3")
def test_of_two_commits_that_know_the_same_predecessor_the_second_is_refused_in_s3() -> None:
    first = made(ROOT, HOUR, 0)
    commit(ROOT, first, None)
    commit(ROOT, made(ROOT, HOUR, 1), first.commit)
    with pytest.raises(CommitConflict, match=f"^{HOUR} is no longer as commit {first.commit} left it$"):
        commit(ROOT, made(ROOT, HOUR, 2), first.commit)
    assert values(ROOT) == [1]


@pytest.mark.usefixtures("s3")
def test_hours_of_two_months_are_committed_and_read_apart_in_s3() -> None:
    last, first = "2026-11-30/23", "2026-12-01/00"
    for number, hour in enumerate((last, first)):
        sealed(ROOT, hour, number)
    assert [found.hour for found in LakeView(ROOT).manifests(Period(0, 1 << 42))] == [last, first]
    found = read_manifest(ROOT, last)
    assert found
    assert found.files[0].path.startswith("push/day=2026-11-30/hour=23/")


def test_files_of_the_same_kind_are_put_one_after_another() -> None:
    some, others = Manifest(HOUR, "", kinds={"push": (), "rules": ()}).kinds, {"limits": ()}
    assert list(merged(some, others)) == ["push", "rules", "limits"]
