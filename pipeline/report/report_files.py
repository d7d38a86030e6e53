"""The reports in the lake: the tables of a period, which are one commit, and the page that was made of them.

manifests/reports/from=<start>/to=<end>.json           which tables count: see `pipeline.lake.commits`
reports/from=<start>/to=<end>/commit=<id>/….parquet    the tables
reports/from=<start>/to=<end>/report.html              the page of the last commit
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace

import pyarrow as pa

from pipeline.lake import small_tables
from pipeline.lake.commits import (
    LAKE_ERRORS,
    CommitConflict,
    Manifest,
    commit,
    new_commit,
    read_manifest,
    update,
)
from pipeline.lake.files import joined, swap_text
from pipeline.period import DAY_MS, Period
from pipeline.report.summary import Tables
from pipeline.terminal import log
from pipeline.terms import TERMS

REPORTS = "reports"
_DAYS = 7


def report_name(period: Period) -> str:
    return f"{REPORTS}/from={period.start}/to={period.end}"


def page_path(period: Period) -> str:
    return f"{report_name(period)}/report.html"


def write_tables(root: str, period: Period, tables: Mapping[str, pa.Table]) -> str:
    """Commit them in the place of an earlier report; returns the commit."""
    name = report_name(period)
    files = small_tables.write_tables(root, name, tables)
    return update(root, name, lambda known: replace(known, kinds=files, sealed_at=None, seen={}, shows=None)).commit


def write_page(root: str, period: Period, made: str, html: str, judged: Manifest | None = None) -> None:
    """Replace the page by that of the commit `made`, unless another has come first: whoever made that writes its own.

    Once it is there, it is noted of which of the period's differences it is: those of `judged`.
    """

    def unless_overtaken(_: str | None = None) -> str | None:
        last = read_manifest(root, report_name(period))
        return html if last and last.commit == made else None

    while unless_overtaken() and not swap_text(joined(root, page_path(period)), unless_overtaken):
        pass
    last = read_manifest(root, report_name(period))
    if last and judged:
        with suppress(CommitConflict):
            noted = replace(last, sealed_at=judged.sealed_at, seen=judged.seen, shows=_name_of(judged))
            commit(root, replace(noted, commit=new_commit()), made)


def found_at(root: str, period: Period, judged: Manifest) -> int | None:
    """When these differences were found (UNIX milliseconds), by the page that shows them; None if no page does."""
    last = read_manifest(root, report_name(period))
    if last is None or last.seen != judged.seen or last.shows != _name_of(judged):
        return None
    return last.sealed_at


def _name_of(differences: Manifest) -> str | None:
    """What each reconciliation writes anew and nobody else: the file of its terms."""
    return next((each.path for each in differences.kinds.get(TERMS, ())), None)


def read_tables(root: str, period: Period) -> Tables | None:
    """None if there is no report. Raises one of `LAKE_ERRORS`."""
    found = read_manifest(root, report_name(period))
    if found is None:
        return None
    return {name: rows.to_pylist() for name, rows in small_tables.read_tables(root, found, found.kinds).items()}


def earlier(root: str, period: Period) -> Iterator[tuple[int, Tables | None]]:
    """The reports of the same hours of the six days before, the oldest first, by their beginnings.

    One that can't be read is logged, and counts as none: this page is of another day.
    """
    for days in range(_DAYS - 1, 0, -1):
        before = Period(period.start - days * DAY_MS, period.end - days * DAY_MS)
        yield before.start, _read_or_none(root, before)


def _read_or_none(root: str, period: Period) -> Tables | None:
    try:
        return read_tables(root, period)
    except LAKE_ERRORS as error:
        log(f"no report of {period}, which can't be read: {error}")
        return None
