"""Small tables, which are read whole, without Spark; and those that are committed together, one Parquet file each."""

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import sha256
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from pipeline.columns import file_name
from pipeline.lake.commits import DamagedRecord, Kinds, Manifest, data_folder, new_commit
from pipeline.lake.files import CONNECTIONS, read_file
from pipeline.lake.parquet import DataFile, write_parquet


def write_tables(root: str, name: str, tables: Mapping[str, pa.Table]) -> Kinds:
    """Their files, by the tables' names, below the folder of a new commit of `name`; none counts until it is committed."""
    folder = data_folder(name, name, new_commit())
    return {each: (write_parquet(root, folder, _batches(rows)),) for each, rows in tables.items()}


def read_tables(root: str, found: Manifest, names: Collection[str]) -> dict[str, pa.Table]:
    """Those of `names` that a commit has. Raises `FileNotFoundError` or `DamagedRecord`."""
    return {name: _concatenated(root, found.kinds[name], pa.schema([])) for name in names if name in found.kinds}


def read_rows(root: str, found: Sequence[DataFile], schema: pa.Schema) -> list[dict[str, Any]]:
    """The rows of files of one kind, by the names of its columns; what a file is too old to have is None.

    Raises `FileNotFoundError` or `DamagedRecord`.
    """
    as_written = pa.schema([field.with_name(file_name(field.name)) for field in schema])
    rows = _concatenated(root, found, as_written).select(as_written.names)
    named: list[dict[str, Any]] = rows.rename_columns(schema.names).to_pylist()
    return named


def _concatenated(root: str, found: Sequence[DataFile], schema: pa.Schema) -> pa.Table:
    """The rows of all files, with the columns of `schema` and any others that a file has."""
    with ThreadPoolExecutor(CONNECTIONS) as readers:
        tables = list(readers.map(partial(_read_checked, root), found))
    return pa.concat_tables([schema.empty_table(), *tables], promote_options="permissive")


def _read_checked(root: str, file: DataFile) -> pa.Table:
    """Raises `FileNotFoundError`, or `DamagedRecord` if its digest is not the manifest's."""
    content = read_file(root, file.path)
    if sha256(content).hexdigest() != file.digest:
        raise DamagedRecord(f"{file.path} is not as it was written")
    return parquet.read_table(pa.BufferReader(content))


def _batches(rows: pa.Table) -> list[pa.RecordBatch]:
    """One without rows if there are none."""
    return rows.to_batches() or [pa.RecordBatch.from_pylist([], rows.schema)]
