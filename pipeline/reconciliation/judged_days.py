"""What the lake has of the days that were judged: their differences, claims and pages, and what these say."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pipeline.compaction.completeness import damaged_files
from pipeline.lake.commits import DamagedRecord, Manifest, manifest_path, read_manifest
from pipeline.lake.event_lake import differences_name
from pipeline.lake.files import exists, joined
from pipeline.lake.small_tables import read_tables
from pipeline.lake.snapshots import CLAIMS, snapshot_name
from pipeline.period import Period
from pipeline.reconciliation.due_days import has_page_of_whole_day
from pipeline.report.report_files import report_name
from pipeline.terms import TERMS, Terms, judged_by

HOURS_TABLE = "hours"
"""Of a report: see `pipeline.report.inputs.HOURS`."""
_GONE_OR_DAMAGED = (FileNotFoundError, DamagedRecord, pa.ArrowInvalid)
"""What has a day judged again. Where S3 refuses or throttles instead, nobody knows how the day is kept."""


@dataclass(frozen=True)
class JudgedDay:
    """`differences` is the manifest; `problems` says, by hour, why the page calls it not judgeable.

    `terms` are those it was judged by.
    """

    differences: Manifest
    problems: dict[str, str]
    terms: Terms


type JudgedDays = Mapping[Period, JudgedDay]


def judged_days(root: str, days: Iterable[Period]) -> tuple[JudgedDays, list[Period]]:
    """Those of `days` that were judged, as they are; and those to judge again.

    Of the latter, a file that the manifests of the day's differences, claims or report name is gone or has another size, a
    manifest or the table of hours or of terms can't be read, no page shows these differences, or they were found before
    the day was over. `report.html` itself is not looked for.
    """
    found = {day: _judged_day(root, day) for day in days if _was_judged(root, day)}
    return {day: known for day, known in found.items() if known}, [day for day, known in found.items() if not known]


def _was_judged(root: str, day: Period) -> bool:
    return exists(joined(root, manifest_path(differences_name(day))))


def _judged_day(root: str, day: Period) -> JudgedDay | None:
    with suppress(*_GONE_OR_DAMAGED):
        names = (differences_name(day), report_name(day), snapshot_name(CLAIMS, day))
        differences, page, claims = (read_manifest(root, name) for name in names)
        if differences and page and has_page_of_whole_day(root, day, differences):
            manifests = [each for each in (differences, page, claims) if each]
            return None if damaged_files(root, manifests) else _read_judged(root, differences, page)
    return None


def _read_judged(root: str, differences: Manifest, page: Manifest) -> JudgedDay:
    hours, terms = _rows(root, page, HOURS_TABLE), _rows(root, differences, TERMS)
    problems = {row["hour"]: row["problem"] for row in hours if row["problem"]}
    return JudgedDay(differences, problems, judged_by({TERMS: terms})[0])


def _rows(root: str, found: Manifest, table: str) -> list[dict[str, Any]]:
    return [row for rows in read_tables(root, found, (table,)).values() for row in rows.to_pylist()]
