"""Small tables, which are read whole, without Spark; and those that are committed together, one Parquet file each."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyarrow import dataset, parquet

from pipeline.columns import file_name
from pipeline.lake.commits import Kinds, Manifest, data_folder, new_commit
from pipeline.lake.files import filesystem, joined
from pipeline.lake.parquet import DataFile, write_parquet


def write_tables(root: str, name: str, tables: Mapping[str, pa.Table]) -> Kinds:
    """Their files, by the tables' names, below the folder of a new commit of `name`; none counts until it is committed."""
    folder = data_folder(name, name, new_commit())
    return {each: (write_parquet(root, folder, _batches(rows)),) for each, rows in tables.items()}


def read_tables(root: str, found: Manifest, names: Collection[str]) -> dict[str, pa.Table]:
    """Those of `names` that a commit has."""
    files, base = filesystem(root)
    paths = {name: [joined(base, each.path) for each in found.kinds[name]] for name in names if name in found.kinds}
    return {name: parquet.read_table(some, filesystem=files, partitioning=None) for name, some in paths.items()}


def read_rows(root: str, found: Sequence[DataFile], schema: pa.Schema) -> list[dict[str, Any]]:
    """The rows of files of one kind, by the names of its columns; what a file is too old to have is None."""
    files, base = filesystem(root)
    as_written = pa.schema([field.with_name(file_name(field.name)) for field in schema])
    paths = [joined(base, each.path) for each in found]
    rows = dataset.dataset(paths, as_written, format="parquet", filesystem=files, partitioning=None).to_table()
    named: list[dict[str, Any]] = rows.rename_columns(schema.names).to_pylist()
    return named


def _batches(rows: pa.Table) -> list[pa.RecordBatch]:
    """One without rows if there are none."""
    return rows.to_batches() or [pa.RecordBatch.from_pylist([], rows.schema)]
