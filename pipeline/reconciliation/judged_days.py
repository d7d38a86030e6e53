"""What the lake has of the days that were judged: their differences, claims and pages, and what these say."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pipeline.compaction.completeness import damaged_files
from pipeline.lake.commits import LAKE_ERRORS, Manifest, manifest_path, read_manifest
from pipeline.lake.event_lake import differences_name
from pipeline.lake.files import exists, joined
from pipeline.lake.small_tables import read_tables
from pipeline.lake.snapshots import CLAIMS, snapshot_name
from pipeline.period import Period
from pipeline.reconciliation.due_days import has_whole_page
from pipeline.report.report_files import report_name
from pipeline.terms import TERMS, Terms, judged_by

HOURS_TABLE = "hours"
"""Of a report: see `pipeline.report.inputs.HOURS`."""


@dataclass(frozen=True)
class JudgedDay:
    """`differences` is their manifest, `problems` why hours can't be judged, by hour, as the page says."""

    differences: Manifest
    problems: dict[str, str]
    terms: Terms


type JudgedDays = Mapping[Period, JudgedDay]


def judged_days(root: str, days: Iterable[Period]) -> tuple[JudgedDays, list[Period]]:
    """Those of `days` that were judged, as they are; and those of which that has to be done again.

    So it is if a file of the day's differences, claims or page is gone, damaged or can't be read, if there is no page of
    these differences, or if they were found before the day was over.
    """
    found = {day: _judged_day(root, day) for day in days if _was_judged(root, day)}
    return {day: known for day, known in found.items() if known}, [day for day, known in found.items() if not known]


def _was_judged(root: str, day: Period) -> bool:
    return exists(joined(root, manifest_path(differences_name(day))))


def _judged_day(root: str, day: Period) -> JudgedDay | None:
    with suppress(*LAKE_ERRORS):
        names = (differences_name(day), report_name(day), snapshot_name(CLAIMS, day))
        differences, page, claims = (read_manifest(root, name) for name in names)
        if differences and page and has_whole_page(root, day, differences):
            kept = [each for each in (differences, page, claims) if each]
            return None if damaged_files(root, kept) else _as_kept(root, differences, page)
    return None


def _as_kept(root: str, differences: Manifest, page: Manifest) -> JudgedDay:
    hours, terms = _rows(root, page, HOURS_TABLE), _rows(root, differences, TERMS)
    problems = {row["hour"]: row["problem"] for row in hours if row["problem"]}
    return JudgedDay(differences, problems, judged_by({TERMS: terms})[0])


def _rows(root: str, found: Manifest, table: str) -> list[dict[str, Any]]:
    return [row for rows in read_tables(root, found, (table,)).values() for row in rows.to_pylist()]
