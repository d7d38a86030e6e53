"""How a data file is written: as Parquet, measured and hashed on its way."""

import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain

import pyarrow as pa
from pyarrow import parquet

from pipeline.lake.files import create, joined

ROW_GROUP_BYTES = 64 << 20
"""In memory: a reader of a row group has as much of it there."""


@dataclass(frozen=True)
class DataFile:
    """`path` is relative to the lake's root, `digest` the SHA-256 of the file's bytes, in hex."""

    path: str
    lines: int
    bytes: int
    digest: str


WRITTEN = pa.schema([("path", pa.string()), ("lines", pa.int64()), ("bytes", pa.int64()), ("digest", pa.string())])
"""Data files as rows."""


def write_parquet(root: str, folder: str, batches: Iterable[pa.RecordBatch]) -> DataFile:
    """Write a new file into a folder, under its final name at once: nothing is renamed, no manifest names it yet."""
    path = f"{folder}/{secrets.token_hex(8)}.parquet"
    hashed, lines, groups = _Hashed(create(joined(root, path))), 0, _row_groups(batches)
    first = next(groups)
    with (
        pa.PythonFile(hashed, mode="w") as sink,
        parquet.ParquetWriter(sink, first.schema, compression="zstd") as writer,
    ):
        for group in chain([first], groups):
            writer.write_table(group, row_group_size=max(1, group.num_rows))
            lines += group.num_rows
    return DataFile(path, lines, hashed.bytes, hashed.digest.hexdigest())


def _row_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    some: list[pa.RecordBatch] = []
    for batch in batches:
        some.append(batch)
        if sum(each.nbytes for each in some) >= ROW_GROUP_BYTES:
            yield pa.Table.from_batches(some)
            some = []
    if some:
        yield pa.Table.from_batches(some)


class _Hashed:
    """What PyArrow writes into: passes the bytes on, and measures them."""

    def __init__(self, stream: pa.NativeFile) -> None:
        self._stream, self.digest, self.bytes, self.closed = stream, sha256(), 0, False

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        self.bytes += len(data)
        self._stream.write(data)
        return len(data)

    def flush(self) -> None:
        self._stream.flush()

    def close(self) -> None:
        self._stream.close()
        self.closed = True
