"""The stream's files: what has arrived, and its lines."""

import gzip
import io
import re
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from typing import TYPE_CHECKING, BinaryIO, cast

import pyarrow as pa

from clarion.batching import by_size
from clarion.storage import EVENTS_PREFIX
from pipeline.lake.files import CONNECTIONS, files_in, folders, is_shown, listed, read_file
from pipeline.lake.parquet import WRITTEN
from pipeline.period import Period, is_hour

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

RAW = EVENTS_PREFIX.rstrip("/")
LINES = pa.schema([("home", pa.string()), ("value", pa.string()), *WRITTEN])
"""A row for each line, its hour of arrival and `value`; and at the end of each file a row about it, without `value`.

Of a file that is damaged there is that row alone, without `digest`.
"""
MAX_LINE_BYTES = 2 << 20
"""What is longer is no line of Clarion's: it is one record of Firehose's, or a part of it, of 1,000 KiB at most."""
MAX_UNPACKED_BYTES = 512 << 20
"""Firehose packs 64 MiB into a file, by `infra.stream`, and more only to catch up. What unpacks to more is damaged."""
_DAY = re.compile(r"day=\d{4}-\d\d-\d\d")
_FILE = re.compile(rf"{RAW}/{_DAY.pattern}/hour=\d\d/.+")
_DEFLATE_RATIO = 1_032
"""No bytes unpack to more than so many times as many: https://zlib.net/zlib_tech.html, "Maximum Compression Factor"."""


class UnpacksTooFar(ValueError):  # noqa: N818 - it says what the file does
    """A compressed file, such as a gzip bomb, that unpacks to more than `MAX_UNPACKED_BYTES`."""


DAMAGES = (EOFError, gzip.BadGzipFile, zlib.error, UnpacksTooFar)
"""What is raised while a file is unpacked that was cut or changed, or unpacks too far."""
_BATCH_BYTES = 4 << 20
_READ_BYTES = 128 << 10


def arrived_files(root: str, arrived: Period) -> dict[str, list[str]]:
    """The paths of the stream's files, relative to the lake's root, by their hours of arrival.

    What Spark takes for hidden, such as the sums that Hadoop writes beside its files on a disk, is none of them; nor is
    what is `misplaced`.
    """
    found: dict[str, list[str]] = {}
    for path in _paths(root, arrived):
        if is_arrived(path) and arrived.has_hour(hour := arrival_hour(path)):
            found.setdefault(hour, []).append(path)
    return found


def written_since(root: str, hour: str, moment: int) -> set[str]:
    """The paths of an hour's files that were written then or later (UNIX milliseconds)."""
    day, _, name = hour.partition("/")
    found = listed(root, f"{RAW}/day={day}/hour={name}")
    return {path for path, file in found.items() if (file.mtime_ns or 0) >= moment * 1_000_000}


def misplaced(root: str, arrived: Period) -> list[str]:
    """What lies among the stream's days, or in one of these days, and is of no hour: somebody has put it there."""
    others = [*filter(is_shown, files_in(root, RAW)), *(name for name in folders(root, RAW) if not is_day(name))]
    named = [f"{RAW}/{name}" for name in others]
    return named + [path for path in _paths(root, arrived) if not is_arrived(path)]


def is_arrived(path: str) -> bool:
    """Whether a path is that of a file of the stream's, in the folder of an hour that there is."""
    return _FILE.fullmatch(path) is not None and is_hour(arrival_hour(path))


def is_day(folder: str) -> bool:
    """Whether it has the name of one day's folder, such as `day=2026-11-20`."""
    return _DAY.fullmatch(folder) is not None and is_hour(f"{folder.removeprefix('day=')}/00")


def _paths(root: str, arrived: Period) -> Iterator[str]:
    days = [day for day in folders(root, RAW) if is_day(day) and arrived.has_day(day.removeprefix("day="))]
    with ThreadPoolExecutor(CONNECTIONS) as readers:
        for day in readers.map(lambda day: listed(root, f"{RAW}/{day}"), days):
            yield from filter(is_shown, sorted(day))


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
    """A file's lines, compressed or not; they may have any size."""
    return cast("BinaryIO", gzip.GzipFile(fileobj=io.BytesIO(content))) if is_gzip(content) else io.BytesIO(content)


def bounded(content: bytes) -> BinaryIO:
    """The same; reading raises `UnpacksTooFar` where what is compressed comes to more than `MAX_UNPACKED_BYTES`."""
    if not is_gzip(content):
        return io.BytesIO(content)
    return io.BufferedReader(_Bounded(gzip.GzipFile(fileobj=io.BytesIO(content))), _READ_BYTES)


def unpacks_too_far(content: bytes) -> bool:
    """Whether `bounded` raises so before the file comes to its end. Most files are too small for it, and not read."""
    if not is_gzip(content) or len(content) * _DEFLATE_RATIO <= MAX_UNPACKED_BYTES:
        return False
    return isinstance(_damage(content), UnpacksTooFar)


def is_gzip(content: bytes) -> bool:
    """RFC 1952, section 2.3.1."""
    return content.startswith(b"\x1f\x8b")


def lines_of(plain: BinaryIO) -> Iterator[bytes]:
    """Each line with its end; of one that is longer than `MAX_LINE_BYTES`, that much."""
    while line := plain.readline(MAX_LINE_BYTES):
        yield line
        while is_cut(line):
            line = plain.readline(MAX_LINE_BYTES)


def is_cut(line: bytes) -> bool:
    """Whether `lines_of` has left out the rest of a line."""
    return len(line) == MAX_LINE_BYTES and not line.endswith(b"\n")


def _lines_of(root: str, path: str) -> Iterator[pa.RecordBatch]:
    content, hour, lines = read_file(root, path), arrival_hour(path), 0
    if is_cut_to_nothing(content, path) or _damage(content):
        yield _batch(home=[hour], path=[path])
        return
    for some in by_size(filter(None, map(bytes.strip, lines_of(bounded(content)))), sys.getsizeof, _BATCH_BYTES):
        lines += len(some)
        yield _batch(home=[hour] * len(some), value=[line.decode(errors="replace") for line in some])
    digest = sha256(content).hexdigest()
    yield _batch(home=[hour], path=[path], lines=[lines], bytes=[len(content)], digest=[digest])


def is_cut_to_nothing(content: bytes, path: str) -> bool:
    """What is compressed has a header at least."""
    return not content and path.endswith(".gz")


def _damage(content: bytes) -> Exception | None:
    """Why a file can't be unpacked to its end, if so: found before any of its lines is taken."""
    try:
        with bounded(content) as plain:
            while plain.read(_BATCH_BYTES):
                pass
    except DAMAGES as damage:
        return damage
    return None


class _Bounded(io.RawIOBase):
    """What is unpacked, up to `MAX_UNPACKED_BYTES`."""

    def __init__(self, plain: gzip.GzipFile) -> None:
        self._plain, self._left = plain, MAX_UNPACKED_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        with memoryview(buffer) as view:
            # Of a file that was cut, what comes before the cut: `read` would raise as soon as it comes to it.
            some = self._plain.read1(view.nbytes)
            view[: len(some)] = some
        self._left -= len(some)
        if self._left < 0:
            raise UnpacksTooFar(f"unpacks to more than {MAX_UNPACKED_BYTES >> 20} MiB")
        return len(some)


def _batch(**columns: Sequence[object]) -> pa.RecordBatch:
    missing = [None] * len(columns["home"])
    arrays = [pa.array(columns.get(field.name, missing), field.type) for field in LINES]
    return pa.RecordBatch.from_arrays(arrays, schema=LINES)
