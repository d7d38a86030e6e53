"""The stream's files: what has arrived, and its lines."""

import gzip
import io
from collections.abc import Buffer, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256

import pyarrow as pa

from clarion.batching import by_size
from pipeline.files import filesystem, folders, joined, listed
from pipeline.period import Period

RAW = "events"
LINES = pa.schema([
    ("home", pa.string()), ("value", pa.string()),
    ("path", pa.string()), ("lines", pa.int64()), ("bytes", pa.int64()), ("digest", pa.string()),
])  # fmt: skip
"""A row for each line, its hour of arrival and `value`; and at the end of each file a row about it, without `value`."""
_BATCH_BYTES = 4 << 20
_READERS = 16


def arrived_files(root: str, arrived: Period) -> dict[str, list[str]]:
    """The paths of the stream's files, relative to the lake's root, by their hours of arrival.

    What Spark takes for hidden, such as the sums that Hadoop writes beside its files on a disk, is none of them.
    """
    days = [day for day in folders(root, RAW) if arrived.has_day(day.removeprefix("day="))]
    found: dict[str, list[str]] = {}
    with ThreadPoolExecutor(_READERS) as readers:
        for day in readers.map(lambda day: listed(root, f"{RAW}/{day}"), days):
            for path in sorted(day):
                if arrived.has_hour(hour := hour_of(path)) and not path.rpartition("/")[2].startswith((".", "_")):
                    found.setdefault(hour, []).append(path)
    return found


def hour_of(path: str) -> str:
    """The hour of arrival of a file: `…/day=2026-11-20/hour=16/…` gives `2026-11-20/16`."""
    _, day, hour, *_ = path.split("/")
    return f"{day.removeprefix('day=')}/{hour.removeprefix('hour=')}"


def line_batches(batches: Iterable[pa.RecordBatch], root: str) -> Iterator[pa.RecordBatch]:
    """`LINES` of the files whose `path` the batches have. What is not UTF-8 in a line is replaced."""
    for batch in batches:
        for path in batch.column("path").to_pylist():
            yield from _lines_of(root, path[path.rindex(f"{RAW}/day=") :])


def _lines_of(root: str, path: str) -> Iterator[pa.RecordBatch]:
    files, place = filesystem(joined(root, path))
    hour, lines = hour_of(path), 0
    with _Measured(files.open_input_stream(place, compression=None)) as measured, _opened(measured, path) as content:
        for some in by_size(filter(None, map(bytes.strip, content)), len, _BATCH_BYTES):
            lines += len(some)
            yield _batch(home=[hour] * len(some), value=[line.decode(errors="replace") for line in some])
        digest = measured.digest.hexdigest()
        yield _batch(home=[hour], path=[path], lines=[lines], bytes=[measured.bytes], digest=[digest])


def _opened(measured: "_Measured", path: str) -> gzip.GzipFile | io.BufferedReader:
    return gzip.GzipFile(fileobj=measured) if path.endswith(".gz") else io.BufferedReader(measured)


def _batch(**columns: Sequence[object]) -> pa.RecordBatch:
    missing = [None] * len(columns["home"])
    arrays = [pa.array(columns.get(field.name, missing), field.type) for field in LINES]
    return pa.RecordBatch.from_arrays(arrays, schema=LINES)


class _Measured(io.RawIOBase):
    """A file's bytes as they lie there, measured while they are read."""

    def __init__(self, stream: pa.NativeFile) -> None:
        self._stream, self.digest, self.bytes = stream, sha256(), 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        read: bytes = self._stream.read(memoryview(buffer).nbytes)
        memoryview(buffer)[: len(read)] = read
        self.digest.update(read)
        self.bytes += len(read)
        return len(read)

    def close(self) -> None:
        self._stream.close()
        super().close()
