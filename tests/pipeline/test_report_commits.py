"""Reports that are made at once, or cut short: what is read is one of them, never a mixture."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier

import pyarrow as pa
import pytest

from pipeline.compaction.vacuum import KEPT_MS, vacuum
from pipeline.lake.commits import Manifest, read_manifest
from pipeline.lake.files import read_text, write_text
from pipeline.lake.parquet import DataFile
from pipeline.report.report_files import (
    REPORTS,
    found_at,
    page_path,
    read_tables,
    report_name,
    write_page,
    write_tables,
)
from pipeline.terms import TERMS
from tests.pipeline.test_commits import HOUR
from tests.pipeline.test_commits_s3 import BUCKET, ROOT, RecordedS3, s3, server  # noqa: F401 - fixtures
from tests.pipeline.test_report_files import TODAY

NAMES = ("notifications", "latency", "drops", "hours")
WRITERS = 4
PAGE = page_path(TODAY)
UNWRITABLE = pa.table({"span": pa.array([(1, 2, 3)], pa.month_day_nano_interval())})
"""Parquet has no such type."""


def tables(number: int) -> dict[str, pa.Table]:
    """Those of one report, each of which says whose it is."""
    return {name: pa.table({"report": [number]}) for name in NAMES}


def reports_read(root: str) -> set[int]:
    """Whose the tables are that are read."""
    return {row["report"] for rows in (read_tables(root, TODAY) or {}).values() for row in rows}


@pytest.fixture(params=["disk", "S3"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "disk":
        return str(tmp_path)
    request.getfixturevalue("s3")
    return ROOT


def test_a_table_without_rows_is_one(root: str) -> None:
    empty = pa.table({"hour": pa.array([], pa.int64())})
    write_tables(root, TODAY, {"differences": empty, "hours": pa.table({"hour": [1]})})
    assert read_tables(root, TODAY) == {"differences": [], "hours": [{"hour": 1}]}


def test_of_reports_that_are_made_at_once_the_tables_and_the_page_are_those_of_one(root: str) -> None:
    together = Barrier(WRITERS)

    def report(number: int) -> None:
        together.wait()
        write_page(root, TODAY, write_tables(root, TODAY, tables(number)), f"page {number}")

    with ThreadPoolExecutor(WRITERS) as writers:
        list(writers.map(report, range(WRITERS)))
    (last,) = reports_read(root)
    assert read_text(f"{root}/{PAGE}") == f"page {last}"


def test_a_report_that_is_cut_short_leaves_the_one_before(root: str) -> None:
    write_page(root, TODAY, write_tables(root, TODAY, tables(1)), "page 1")
    with pytest.raises(pa.ArrowNotImplementedError):
        write_tables(root, TODAY, {**tables(2), "unwritable": UNWRITABLE})
    assert reports_read(root) == {1}
    assert read_text(f"{root}/{PAGE}") == "page 1"


def test_a_report_that_a_later_one_has_overtaken_leaves_its_page(root: str) -> None:
    first = write_tables(root, TODAY, tables(1))
    write_page(root, TODAY, write_tables(root, TODAY, tables(2)), "page 2")
    write_page(root, TODAY, first, "page 1")
    assert read_text(f"{root}/{PAGE}") == "page 2"


def test_a_report_that_is_overtaken_while_it_writes_its_page_leaves_that_of_the_other(s3: RecordedS3) -> None:  # noqa: F811 - a fixture
    def overtake() -> None:
        write_page(ROOT, TODAY, write_tables(ROOT, TODAY, tables(2)), "page 2")

    first = write_tables(ROOT, TODAY, tables(1))
    s3.before["PUT", f"/{BUCKET}/{PAGE}"] = overtake
    write_page(ROOT, TODAY, first, "page 1")
    assert reports_read(ROOT) == {2}
    assert read_text(f"{ROOT}/{PAGE}") == "page 2"


def test_a_page_says_when_the_differences_it_shows_were_found_once_it_is_written(root: str) -> None:
    first, second = (Manifest("differences", "", sealed_at=number, seen={HOUR: number}) for number in (1, 2))
    made = write_tables(root, TODAY, tables(1))
    assert found_at(root, TODAY, first) is None
    write_page(root, TODAY, made, "page 1", first)
    assert found_at(root, TODAY, first) == 1
    assert found_at(root, TODAY, second) is None
    write_tables(root, TODAY, tables(2))
    assert found_at(root, TODAY, first) is None


def test_a_page_of_an_earlier_reconciliation_of_the_same_hours_is_not_the_current_one(root: str) -> None:
    """Of what was found by other terms, say: nothing else differs."""
    first, second = (
        Manifest("differences", "", 1, seen={HOUR: 1}, kinds={TERMS: (DataFile(f"{number}.parquet", 1, 1, ""),)})
        for number in (1, 2)
    )
    write_page(root, TODAY, write_tables(root, TODAY, tables(1)), "page 1", first)
    assert found_at(root, TODAY, replace(first, commit="noted that nothing has come since", sealed_at=2)) == 1
    assert found_at(root, TODAY, second) is None


def test_of_a_report_that_was_overtaken_nothing_is_noted(root: str) -> None:
    judged = Manifest("differences", "", sealed_at=1, seen={HOUR: 1})
    first = write_tables(root, TODAY, tables(1))
    write_tables(root, TODAY, tables(2))
    write_page(root, TODAY, first, "page 1", judged)
    assert found_at(root, TODAY, judged) is None


def test_a_page_in_s3_is_one_put(s3: RecordedS3) -> None:  # noqa: F811 - a fixture
    commit = write_tables(ROOT, TODAY, tables(1))
    s3.requests.clear()
    write_page(ROOT, TODAY, commit, "page 1")
    assert s3.writes() == [("PUT", f"/{BUCKET}/{PAGE}")]


def test_a_text_elsewhere_in_s3_is_one_put(s3: RecordedS3) -> None:  # noqa: F811 - a fixture
    write_text(f"{ROOT}/elsewhere.html", "x" * 1_000_000)
    assert s3.writes() == [("PUT", f"/{BUCKET}/elsewhere.html")]


def test_who_has_opened_a_page_reads_it_to_its_end(tmp_path: Path) -> None:
    root = str(tmp_path)
    write_page(root, TODAY, write_tables(root, TODAY, tables(1)), "page 1")
    with (tmp_path / PAGE).open() as opened:
        write_page(root, TODAY, write_tables(root, TODAY, tables(2)), "page 2")
        assert opened.read() == "page 1"


def test_a_text_is_replaced_whole_and_leaves_nothing_beside(tmp_path: Path) -> None:
    target = tmp_path / "new" / "page.html"
    write_text(str(target), "a long first page")
    with target.open() as opened:
        write_text(f"file:{target}", "short")
        assert opened.read() == "a long first page"
    assert target.read_text() == "short"
    assert list(target.parent.iterdir()) == [target]


def test_a_text_that_cannot_be_written_leaves_the_one_before(tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    write_text(str(target), "the page")
    with pytest.raises(UnicodeEncodeError):
        write_text(str(target), "half of a character: \ud800")
    assert target.read_text() == "the page"


def test_the_tables_of_an_earlier_report_are_removed_after_two_days(tmp_path: Path) -> None:
    root = str(tmp_path)
    write_tables(root, TODAY, tables(1))
    before = read_manifest(root, report_name(TODAY))
    assert before
    write_page(root, TODAY, write_tables(root, TODAY, tables(2)), "page 2")
    written = (tmp_path / f"manifests/{report_name(TODAY)}.json").stat().st_mtime_ns // 1_000_000
    assert vacuum(root, [REPORTS], written + KEPT_MS - 1) == []
    assert sorted(vacuum(root, [REPORTS], written + KEPT_MS + 1)) == sorted(each.path for each in before.files)
    assert reports_read(root) == {2}
    assert read_text(f"{root}/{PAGE}") == "page 2"
