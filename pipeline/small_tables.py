"""Small tables that are committed together, one Parquet file each: written and read whole, without Spark."""

from collections.abc import Collection, Mapping

import pyarrow as pa
from pyarrow import parquet

from pipeline.commits import Kinds, Manifest, data_folder, new_commit, write_parquet
from pipeline.files import filesystem, joined


def write_tables(root: str, name: str, tables: Mapping[str, pa.Table]) -> Kinds:
    """Their files, by the tables' names, below the folder of a new commit of `name`; none counts until it is committed."""
    folder = data_folder(name, name, new_commit())
    return {each: (write_parquet(root, folder, _batches(rows)),) for each, rows in tables.items()}


def read_tables(root: str, found: Manifest, names: Collection[str]) -> dict[str, pa.Table]:
    """Those of `names` that a commit has."""
    files, base = filesystem(root)
    paths = {name: [joined(base, each.path) for each in found.kinds[name]] for name in names if name in found.kinds}
    return {name: parquet.read_table(some, filesystem=files, partitioning=None) for name, some in paths.items()}


def _batches(rows: pa.Table) -> list[pa.RecordBatch]:
    """One without rows if there are none."""
    return rows.to_batches() or [pa.RecordBatch.from_pylist([], rows.schema)]
