"""A report's tables in the lake, and those of the days before."""

from pathlib import Path

import pyarrow as pa
import pytest

from clarion.limiter import Limit
from pipeline.in_force.limits import LimitHistory, LimitSpan
from pipeline.lake.commits import LakeView, Manifest, commit, manifest_path, read_manifest
from pipeline.lake.files import write_text
from pipeline.period import DAY_MS, FOREVER, HOUR_MS, Period, hour_path
from pipeline.report import inputs
from pipeline.report.report_files import earlier, read_tables, report_name, write_tables

START = 1_795_132_800_000
TODAY = Period(START, START + DAY_MS)
TABLES = {
    "notifications": pa.table({"hour": [START], "wanted": [3]}),
    "differences": pa.table({"hour": pa.array([], pa.int64())}),
}


@pytest.fixture
def lake(tmp_path: Path) -> str:
    return str(tmp_path)


def test_tables_are_read_as_they_were_written(lake: str) -> None:
    write_tables(lake, TODAY, TABLES)
    assert read_tables(lake, TODAY) == {"notifications": [{"hour": START, "wanted": 3}], "differences": []}


def test_a_later_report_leaves_nothing_of_the_one_before(lake: str) -> None:
    """Without `differences`, nobody has compared."""
    write_tables(lake, TODAY, TABLES)
    write_text(f"{lake}/{report_name(TODAY)}/report.html", "the page")
    write_tables(lake, TODAY, {"notifications": TABLES["notifications"]})
    assert (read_tables(lake, TODAY) or {}).keys() == {"notifications"}
    assert Path(lake, report_name(TODAY), "report.html").exists()


def test_the_week_has_each_day_and_says_which_has_no_report(lake: str) -> None:
    yesterday = Period(START - DAY_MS, START)
    write_tables(lake, yesterday, TABLES)
    # A report of an older form has a folder for each table.
    write_text(f"{lake}/{report_name(Period(START - 2 * DAY_MS, START - DAY_MS))}/funnel/part-0.parquet", "")
    days = list(earlier(lake, TODAY))
    assert [start for start, _ in days] == [START - day * DAY_MS for day in range(6, 0, -1)]
    assert [tables is not None for _, tables in days] == [False] * 5 + [True]


@pytest.mark.parametrize("what", ["a table is gone", "a table was changed", "the manifest was cut"])
def test_a_report_of_the_week_that_cannot_be_read_is_none_and_is_logged(
    lake: str, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    yesterday, before = Period(START - DAY_MS, START), Period(START - 2 * DAY_MS, START - DAY_MS)
    for day in (before, yesterday):
        write_tables(lake, day, TABLES)
    found = read_manifest(lake, report_name(before))
    assert found
    table, manifest = Path(lake, found.kinds["notifications"][0].path), Path(lake, manifest_path(found.hour))
    match what:
        case "a table is gone":
            table.unlink()
        case "a table was changed":
            table.write_bytes(table.read_bytes().replace(b"wanted", b"wantee"))
        case _:
            manifest.write_text("{")
    assert [tables is not None for _, tables in earlier(lake, TODAY)] == [False] * 5 + [True]
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"» no report of {before}, which can't be read: ")


def test_an_hour_that_is_missing_or_not_over_cannot_be_judged(lake: str) -> None:
    """The hours before and after the period count as well: its first lines may be filed there, its last ones arrive then."""
    before, first, second, third = (hour_path(START + place * HOUR_MS) for place in range(-1, 3))
    commit(lake, Manifest(first, "a", sealed_at=START + 2 * HOUR_MS, counted=0), None)
    commit(lake, Manifest(second, "b", counted=0), None)
    table = inputs.hours(LakeView(lake), Period(START, START + 2 * HOUR_MS), START + DAY_MS, provisional=False)
    assert table.to_pylist() == [
        {"hour": before, "lines": None, "sealed_at": None, "problem": "nothing has arrived"},
        {"hour": first, "lines": 0, "sealed_at": START + 2 * HOUR_MS, "problem": None},
        {"hour": second, "lines": 0, "sealed_at": None, "problem": "it was not over when it was compacted"},
        {"hour": third, "lines": None, "sealed_at": None, "problem": "nothing has arrived"},
    ]


def test_the_newest_hour_is_that_of_the_last_commit_if_it_is_not_old(lake: str) -> None:
    commit(lake, Manifest(hour_path(START), "a"), None)
    assert inputs.newest(LakeView(lake), START + DAY_MS) == hour_path(START)
    assert inputs.newest(LakeView(lake), START + 3 * DAY_MS) is None


def test_limits_are_those_that_were_in_force_in_the_period() -> None:
    cap, noon = Limit(300, 60_000, 0), START + 12 * HOUR_MS
    spans = [
        LimitSpan(0, START, Limit(10, 60_000, 0), cap),
        LimitSpan(START, noon, Limit(30, 60_000, 120_000), cap),
        LimitSpan(noon, FOREVER, None, cap),
    ]
    rows = inputs.limits(LimitHistory({"statements": spans}), TODAY).to_pylist()
    assert rows == [
        {"network": "statements", "since": START, "pair": "30 in 60 s, then none for 120 s", "cap": "300 in 60 s"},
        {"network": "statements", "since": noon, "pair": "none", "cap": "300 in 60 s"},
    ]
