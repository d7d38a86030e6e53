"""The tables of reports in the lake: one Parquet file each, below one folder for the period.

reports/from=<start>/to=<end>/<table>.parquet
"""

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyarrow import fs, parquet

from pipeline.files import filesystem, joined, listed
from pipeline.period import DAY_MS, Period
from pipeline.summary import Tables

REPORTS = "reports"
_SUFFIX = ".parquet"
_DAYS = 7


def report_folder(period: Period) -> str:
    return f"{REPORTS}/from={period.start}/to={period.end}"


def write_tables(root: str, period: Period, tables: Mapping[str, pa.Table]) -> str:
    """A later run replaces all. Returns where they are."""
    folder = joined(root, report_folder(period))
    files, place = filesystem(folder)
    files.create_dir(place)
    for name in _names(root, period) - tables.keys():
        files.delete_file(f"{place}/{name}{_SUFFIX}")
    for name, table in tables.items():
        parquet.write_table(table, f"{place}/{name}{_SUFFIX}", filesystem=files)
    return folder


def read_tables(root: str, period: Period) -> Tables | None:
    """None if there is no report, or one of an older form."""
    files, place = filesystem(joined(root, report_folder(period)))
    names = _names(root, period)
    if "notifications" not in names:
        return None
    return {name: _read(files, f"{place}/{name}{_SUFFIX}") for name in names}


def earlier(root: str, period: Period) -> Iterator[tuple[int, Tables | None]]:
    """The reports of the same hours of the six days before, the oldest first, by their beginnings."""
    for days in range(_DAYS - 1, 0, -1):
        before = Period(period.start - days * DAY_MS, period.end - days * DAY_MS)
        yield before.start, read_tables(root, before)


def _names(root: str, period: Period) -> set[str]:
    folder = report_folder(period)
    names = (path.removeprefix(f"{folder}/") for path in listed(root, folder))
    return {name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX) and "/" not in name}


def _read(files: fs.FileSystem, path: str) -> list[dict[str, object]]:
    return list(parquet.read_table(path, filesystem=files).to_pylist())
