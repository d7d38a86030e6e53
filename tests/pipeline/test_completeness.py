"""What a lake has to have before anybody judges it; and which days are left to judge."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipeline.columns import UNREADABLE
from pipeline.compaction.completeness import FRESH_MS, SEALED_AFTER_MS, incomplete_hours
from pipeline.generator.plan import Plan
from pipeline.lake.commits import LakeView, Manifest, data_folder, manifest_path, read_manifest, update
from pipeline.lake.event_lake import EventLake, differences_name
from pipeline.lake.parquet import DataFile, write_parquet
from pipeline.lake.snapshots import IN_FORCE, day_of, snapshot_name
from pipeline.period import DAY_MS, HOUR_MS, SNAPSHOT_DAYS, Period, hour_path
from pipeline.reconciliation.due_days import CATCH_UP_DAYS, DueDays, due_days
from pipeline.report.report_files import report_name, write_page, write_tables

AT = 1_790_000_000_000 // DAY_MS * DAY_MS
PERIOD = Period(AT, AT + 2 * HOUR_MS)
NOW = AT + DAY_MS + 2 * HOUR_MS
BEFORE, FIRST, SECOND, AFTER = (hour_path(AT + number * HOUR_MS) for number in range(-1, 3))
RAW_FILE = "events/day={}/hour={}/file.jsonl"


def arrive(root: Path, hour: str, name: str = "file") -> DataFile:
    """One of the stream's files, of two lines."""
    path = RAW_FILE.format(*hour.split("/")).replace("file", name)
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text("1\n2\n")
    return DataFile(path, 2, 4, "")


def complete(root: Path, hour: str) -> None:
    """An hour as `compact` leaves it."""
    rows = pa.RecordBatch.from_pydict({"at": [1, 2]})
    files = write_parquet(str(root), data_folder("push", hour, "one"), [rows])
    raw = (arrive(root, hour),)
    update(str(root), hour, lambda known: replace(known, sealed_at=NOW, raw=raw, kinds={"push": (files,)}))


def change(root: Path, hour: str, **values: Any) -> None:
    update(str(root), hour, lambda known: replace(known, **values))


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """The hours of a period, the one before and the one after, all of them complete."""
    for hour in (BEFORE, FIRST, SECOND, AFTER):
        complete(tmp_path, hour)
    return tmp_path


def reasons(
    root: Path, period: Period = PERIOD, *, now: int = NOW, provisional: bool = False, up_to_now: bool = False
) -> dict[str, str]:
    found = incomplete_hours(LakeView(str(root)), period, now, provisional=provisional, up_to_now=up_to_now)
    return dict(found)


def manifest(root: Path, hour: str) -> Manifest:
    found = read_manifest(str(root), hour)
    assert found
    return found


def remove_hour(root: Path) -> None:
    (root / manifest_path(SECOND)).unlink()


def remove_raw(root: Path) -> None:
    (root / manifest(root, SECOND).raw[0].path).unlink()


def remove_data(root: Path) -> None:
    (root / manifest(root, SECOND).files[0].path).unlink()


def cut_data(root: Path) -> None:
    """As a disk that was full leaves it."""
    path = root / manifest(root, SECOND).files[0].path
    path.write_bytes(path.read_bytes()[:-1])


def arrive_late(root: Path) -> None:
    arrive(root, SECOND, "late")


def unseal(root: Path) -> None:
    change(root, SECOND, sealed_at=None)


def count_more(root: Path) -> None:
    change(root, SECOND, counted=3)


def read_less(root: Path) -> None:
    """One of the two lines is of a version that nobody here knows."""
    rows = pa.RecordBatch.from_pydict({"value": ["{}"]})
    unreadable = write_parquet(str(root), data_folder(UNREADABLE, SECOND, "one"), [rows])
    change(root, SECOND, kinds={**manifest(root, SECOND).kinds, UNREADABLE: (unreadable,)})


def lose_all(root: Path) -> None:
    """Nothing has arrived, and no counter says that nothing came."""
    remove_raw(root)
    change(root, SECOND, raw=(), kinds={})


FLAWS: dict[Callable[[Path], None], str] = {
    remove_hour: "files have arrived, and none is compacted",
    remove_raw: "1 of the 1 files that it was made of are gone",
    remove_data: "1 data files are gone or not as they were written",
    cut_data: "1 data files are gone or not as they were written",
    arrive_late: "1 files have arrived since it was compacted",
    unseal: "it was not over when it was compacted",
    count_more: "2 lines have arrived, of 3 records at least",
    read_less: "1 lines can't be read",
    lose_all: "nothing has arrived, and nobody has counted what came",
}


def test_what_is_complete_can_be_judged(lake: Path) -> None:
    assert reasons(lake) == {}


@pytest.mark.parametrize("flaw", FLAWS, ids=lambda flaw: flaw.__name__)
def test_an_hour_that_can_not_be_judged_is_named_with_the_reason(lake: Path, flaw: Callable[[Path], None]) -> None:
    flaw(lake)
    found = reasons(lake)
    assert found.keys() == {SECOND}
    assert found[SECOND].startswith(FLAWS[flaw])


EARLIER = Period(AT - HOUR_MS, AT)
"""`SECOND` comes after all of its hours."""
AWAITED_UNTIL = AT + 2 * HOUR_MS + SEALED_AFTER_MS + FRESH_MS
"""Until then `SECOND` may await its compaction."""


@pytest.fixture
def earlier(lake: Path) -> Path:
    """With all hours of `EARLIER`."""
    complete(lake, hour_path(AT - 2 * HOUR_MS))
    return lake


@pytest.mark.parametrize("flaw", FLAWS, ids=lambda flaw: flaw.__name__)
def test_a_flaw_of_an_hour_after_the_period_is_named_to_who_asks_up_to_now(
    earlier: Path, flaw: Callable[[Path], None]
) -> None:
    flaw(earlier)
    assert reasons(earlier, EARLIER, now=AWAITED_UNTIL) == {}
    found = reasons(earlier, EARLIER, now=AWAITED_UNTIL, up_to_now=True)
    assert found.keys() == {SECOND}
    assert found[SECOND].startswith(FLAWS[flaw])


@pytest.mark.parametrize("flaw", FLAWS, ids=lambda flaw: flaw.__name__)
def test_the_last_hours_after_the_period_are_judged_by_what_has_arrived(
    earlier: Path, flaw: Callable[[Path], None]
) -> None:
    """The files are as young as this test."""
    flaw(earlier)
    is_awaited = flaw in {remove_hour, arrive_late, unseal, count_more, lose_all}
    assert (reasons(earlier, EARLIER, now=AWAITED_UNTIL - 1, up_to_now=True) == {}) == is_awaited


def test_a_file_of_the_last_hours_that_nobody_has_compacted_for_half_an_hour_is_named(earlier: Path) -> None:
    now = AT + 2 * HOUR_MS
    late = earlier / arrive(earlier, SECOND, "late").path
    for age_ms, named in ((FRESH_MS, set()), (FRESH_MS + 1, {SECOND})):
        at = (now - age_ms) * 1_000_000
        os.utime(late, ns=(at, at))
        assert reasons(earlier, EARLIER, now=now, up_to_now=True).keys() == named


def test_hours_of_the_period_itself_have_to_be_over(lake: Path) -> None:
    unseal(lake)
    assert reasons(lake, now=AT + 2 * HOUR_MS, up_to_now=True).keys() == {SECOND}


def test_a_made_up_day_that_was_compacted_is_complete(day: EventLake, plan: Plan) -> None:
    assert incomplete_hours(LakeView(day.root), plan.period, plan.period.end + DAY_MS) == []


@pytest.mark.parametrize("name", [".file.jsonl.crc", "_SUCCESS"])
def test_what_spark_takes_for_hidden_has_not_arrived(lake: Path, name: str) -> None:
    (lake / RAW_FILE.format(*SECOND.split("/"))).with_name(name).touch()
    assert reasons(lake) == {}


def test_an_hour_of_which_there_is_nothing_at_all_is_named(lake: Path) -> None:
    before = hour_path(AT - 2 * HOUR_MS)
    assert reasons(lake, Period(AT - HOUR_MS, AT + HOUR_MS)) == {before: "nothing has arrived"}


def test_the_hour_in_which_the_last_lines_arrive_has_to_be_there(lake: Path) -> None:
    (lake / manifest_path(AFTER)).unlink()
    assert reasons(lake).keys() == {AFTER}
    assert reasons(lake, Period(AT, AT + HOUR_MS)) == {}


def test_the_hour_in_which_firehose_may_have_begun_the_first_file_has_to_be_there(lake: Path) -> None:
    (lake / manifest_path(BEFORE)).unlink()
    assert reasons(lake).keys() == {BEFORE}
    (lake / RAW_FILE.format(*BEFORE.split("/"))).unlink()
    assert reasons(lake).keys() == {BEFORE}
    assert reasons(lake, Period(AT + HOUR_MS, AT + 2 * HOUR_MS)) == {}


def test_what_is_yet_to_come_is_not_missed(lake: Path) -> None:
    assert reasons(lake, Period(AT, AT + 9 * HOUR_MS), now=AT + 3 * HOUR_MS) == {}


def test_a_quiet_hour_is_complete_once_a_counter_says_that_nothing_came(lake: Path) -> None:
    lose_all(lake)
    change(lake, SECOND, counted=0)
    assert reasons(lake) == {}


def test_lines_of_days_before_that_nobody_has_compacted_or_can_read_may_say_what_was_in_force(lake: Path) -> None:
    early, unread, compacted = (hour_path(AT - number * DAY_MS) for number in (9, 5, 7))
    arrive(lake, early)
    complete(lake, compacted)
    complete(lake, unread)
    unreadable = DataFile("unreadable/none", 3, 0, "")
    change(lake, unread, kinds={UNREADABLE: (unreadable,)})
    assert reasons(lake) == {
        early: f"files are not compacted, and may say what was in force, such as {RAW_FILE.format(*early.split('/'))}",
        unread: "3 lines can't be read, and may say what was in force",
    }


def test_what_lies_before_the_last_snapshots_says_nothing_more_unless_it_came_late(lake: Path) -> None:
    for kind in IN_FORCE:
        update(str(lake), snapshot_name(kind, day_of(AT - 2 * DAY_MS)), lambda known: known)
    arrive(lake, hour_path(AT - 5 * DAY_MS))
    assert reasons(lake) == {}
    arrive(lake, late := hour_path(AT - 2 * DAY_MS))
    assert list(reasons(lake)) == [late]


def test_an_hour_under_way_can_be_judged_provisionally_and_no_other_flaw(lake: Path) -> None:
    unseal(lake)
    (lake / manifest_path(AFTER)).unlink()
    (lake / RAW_FILE.format(*AFTER.split("/"))).unlink()
    soon = AT + 2 * HOUR_MS + 1
    assert reasons(lake, now=soon).keys() == {SECOND, AFTER}
    assert reasons(lake, now=soon, provisional=True) == {}
    assert reasons(lake, provisional=True).keys() == {SECOND, AFTER}
    read_less(lake)
    assert reasons(lake, now=soon, provisional=True) == {SECOND: "1 lines can't be read"}
    arrive_late(lake)
    assert reasons(lake, now=soon, provisional=True).keys() == {SECOND}


def day(back: int) -> Period:
    """Of the days up to yesterday, the first of which something has arrived is 20 days back."""
    return Period(AT - back * DAY_MS, AT - (back - 1) * DAY_MS)


def judge(root: Path, back: int, at: int = NOW + 2 * HOUR_MS) -> None:
    """Once all its hours are over."""
    change(root, differences_name(day(back)), sealed_at=at)
    report(root, back)


def report(root: Path, back: int) -> None:
    """On the differences that there are by now."""
    write_page(
        str(root), day(back), write_tables(str(root), day(back), {}), "<p>", manifest(root, differences_name(day(back)))
    )


@pytest.fixture
def days(tmp_path: Path) -> Path:
    arrive(tmp_path, hour_path(day(20).start))
    for back in range(21):
        judge(tmp_path, back)
    return tmp_path


def test_only_yesterday_is_due_after_a_night_that_went_well(days: Path) -> None:
    (days / manifest_path(differences_name(day(0)))).unlink()
    assert due_days(LakeView(str(days)), day(0)) == DueDays([day(0)], [])


def test_a_day_of_which_a_manifest_cannot_be_read_is_named_and_the_others_are_due_all_the_same(days: Path) -> None:
    """An hour's manifest is read for its own day and for those beside it."""
    for back in (0, 9):
        (days / manifest_path(differences_name(day(back)))).unlink()
    for name in (differences_name(day(3)), differences_name(day(10)), hour_path(day(5).start + 2 * HOUR_MS)):
        (days / manifest_path(name)).parent.mkdir(exist_ok=True)
        (days / manifest_path(name)).write_text("{")
    found = due_days(LakeView(str(days)), day(0))
    assert (found.due, found.overdue, set(found.unreadable)) == ([day(0)], [day(9)], set(map(day, (3, 4, 5, 6, 10))))


def test_days_that_two_failed_nights_left_are_due(days: Path) -> None:
    for back in range(3):
        (days / manifest_path(differences_name(day(back)))).unlink()
    assert due_days(LakeView(str(days)), day(0)) == DueDays([day(2), day(1), day(0)], [])


def test_a_day_is_due_again_once_something_of_it_has_been_committed_since(days: Path) -> None:
    hour = hour_path(day(3).start + HOUR_MS)
    change(days, hour, sealed_at=NOW)
    change(days, differences_name(day(3)), seen={hour: NOW})
    report(days, 3)
    assert due_days(LakeView(str(days)), day(0)) == DueDays([], [])
    change(days, hour, sealed_at=NOW + 1)
    assert due_days(LakeView(str(days)), day(0)) == DueDays([day(3)], [])


def test_a_day_is_due_again_if_what_was_committed_since_is_of_a_job_that_began_before(days: Path) -> None:
    hour = hour_path(day(3).start + HOUR_MS)
    change(days, differences_name(day(3)), seen={hour: NOW - 2})
    report(days, 3)
    change(days, hour, sealed_at=NOW - 1)
    assert due_days(LakeView(str(days)), day(0)) == DueDays([day(3)], [])


def test_a_day_of_which_there_is_no_page_is_due(days: Path) -> None:
    """The run that judged it died before it had written one, or after its tables."""
    (days / manifest_path(report_name(day(3)))).unlink()
    write_tables(str(days), day(2), {})
    assert due_days(LakeView(str(days)), day(0)) == DueDays([day(3), day(2)], [])


def test_a_day_whose_page_is_of_earlier_differences_is_due(days: Path) -> None:
    """It was judged again by what came late, and that run died before it had written the new page."""
    hour = hour_path(day(3).start + HOUR_MS)
    change(days, hour, sealed_at=NOW + 1)
    change(days, differences_name(day(3)), sealed_at=NOW + 1, seen={hour: NOW + 1})
    assert due_days(LakeView(str(days)), day(0)) == DueDays([day(3)], [])
    report(days, 3)
    assert due_days(LakeView(str(days)), day(0)) == DueDays([], [])


def test_days_that_were_missed_for_too_long_are_named(days: Path) -> None:
    for back in range(CATCH_UP_DAYS + 2):
        (days / manifest_path(differences_name(day(back)))).unlink()
    due, overdue, _ = due_days(LakeView(str(days)), day(0))
    assert due == [day(back) for back in range(CATCH_UP_DAYS)][::-1]
    assert overdue == [day(CATCH_UP_DAYS + 1), day(CATCH_UP_DAYS)]


def test_a_day_that_can_not_be_judged_is_named_for_as_long_as_its_lines_may_come(days: Path) -> None:
    """The days after it were judged each night."""
    (days / manifest_path(differences_name(day(16)))).unlink()
    named = [due_days(LakeView(str(days)), day(back)).overdue for back in range(11)]
    assert named == [*([[]] * 2), *([[day(16)]] * 8), []]


def test_a_folder_of_a_day_long_before_any_snapshot_names_no_day(tmp_path: Path) -> None:
    arrive(tmp_path, "1970-01-01/00")
    due, overdue, _ = due_days(LakeView(str(tmp_path)), day(0))
    assert len(due) + len(overdue) == SNAPSHOT_DAYS + 1


def test_days_before_anything_arrived_are_not_due(tmp_path: Path) -> None:
    arrive(tmp_path, hour_path(day(1).start))
    assert due_days(LakeView(str(tmp_path)), day(0)) == DueDays([day(1), day(0)], [])
    assert due_days(LakeView(str(tmp_path / "empty")), day(0)) == DueDays([day(0)], [])


def test_a_day_of_which_hours_were_counted_alone_before_the_lakes_first_file_is_not_due(tmp_path: Path) -> None:
    """A run counts the day before the first that is due, too: else the first day of all would grow by one each night."""
    arrive(tmp_path, hour_path(day(1).start))
    for hour in day(2).hours():
        change(tmp_path, hour, counted=0, sealed_at=NOW)
    assert due_days(LakeView(str(tmp_path)), day(0)) == DueDays([day(1), day(0)], [])
