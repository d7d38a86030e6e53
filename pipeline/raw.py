"""The stream's files: what has arrived, and its lines."""

import gzip
import io
import zlib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from typing import BinaryIO, cast

import pyarrow as pa

from clarion.batching import by_size
from pipeline.commits import WRITTEN
from pipeline.files import filesystem, folders, joined, listed
from pipeline.period import Period

RAW = "events"
LINES = pa.schema([("home", pa.string()), ("value", pa.string()), *WRITTEN])
"""A row for each line, its hour of arrival and `value`; and at the end of each file a row about it, without `value`.

Of a file that is damaged there is that row alone, without `digest`.
"""
LINE_BYTES = 2 << 20
"""What is longer is no line of Clarion's: it is one record of Firehose's, or a part of it, of 1,000 KiB at most."""
DAMAGES = (EOFError, gzip.BadGzipFile, zlib.error)
"""What is raised while a file is unpacked that was cut or changed."""
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
                if arrived.has_hour(hour := arrival_hour(path)) and not path.rpartition("/")[2].startswith((".", "_")):
                    found.setdefault(hour, []).append(path)
    return found


def arrival_hour(path: str) -> str:
    """The hour of arrival of a file: `…/day=2026-11-20/hour=16/…` gives `2026-11-20/16`."""
    _, day, hour, *_ = path.split("/")
    return f"{day.removeprefix('day=')}/{hour.removeprefix('hour=')}"


def line_batches(batches: Iterable[pa.RecordBatch], root: str) -> Iterator[pa.RecordBatch]:
    """`LINES` of the files whose `path` the batches have. What is not UTF-8 in a line is replaced."""
    for batch in batches:
        for path in batch.column("path").to_pylist():
            yield from _lines_of(root, path[path.rindex(f"{RAW}/day=") :])


def unpacked(content: bytes) -> BinaryIO:
    """A file's lines, compressed or not."""
    return cast("BinaryIO", gzip.GzipFile(fileobj=io.BytesIO(content))) if is_gzip(content) else io.BytesIO(content)


def is_gzip(content: bytes) -> bool:
    """RFC 1952, section 2.3.1."""
    return content.startswith(b"\x1f\x8b")


def lines_of(plain: BinaryIO) -> Iterator[bytes]:
    """Each line with its end; of one that is longer than `LINE_BYTES`, that much."""
    while line := plain.readline(LINE_BYTES):
        yield line
        while is_cut(line):
            line = plain.readline(LINE_BYTES)


def is_cut(line: bytes) -> bool:
    """Whether `lines_of` has left out the rest of a line."""
    return len(line) == LINE_BYTES and not line.endswith(b"\n")


def _lines_of(root: str, path: str) -> Iterator[pa.RecordBatch]:
    content, hour, lines = _read(root, path), arrival_hour(path), 0
    if not _is_whole(content):
        yield _batch(home=[hour], path=[path])
        return
    for some in by_size(filter(None, map(bytes.strip, lines_of(unpacked(content)))), len, _BATCH_BYTES):
        lines += len(some)
        yield _batch(home=[hour] * len(some), value=[line.decode(errors="replace") for line in some])
    digest = sha256(content).hexdigest()
    yield _batch(home=[hour], path=[path], lines=[lines], bytes=[len(content)], digest=[digest])


def _read(root: str, path: str) -> bytes:
    files, place = filesystem(joined(root, path))
    with files.open_input_stream(place, compression=None) as stream:
        content: bytes = stream.read()
    return content


def _is_whole(content: bytes) -> bool:
    """Whether a file can be unpacked to its end: found before any of its lines is taken."""
    try:
        with unpacked(content) as plain:
            while plain.read(_BATCH_BYTES):
                pass
    except DAMAGES:
        return False
    return True


def _batch(**columns: Sequence[object]) -> pa.RecordBatch:
    missing = [None] * len(columns["home"])
    arrays = [pa.array(columns.get(field.name, missing), field.type) for field in LINES]
    return pa.RecordBatch.from_arrays(arrays, schema=LINES)
