"""The lake's newest files, each read once, and of a busy lake so much at a time as fits into memory."""

import zlib
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import NamedTuple

from botocore.exceptions import ClientError

from clarion.storage import EVENTS_PREFIX
from console.faults import AwsError
from console.lake import READERS, File, Lake, hours_back

LATEST = timedelta(minutes=15)
"""What was written longer ago is not looked at. Firehose keeps a file back no longer."""
FILES_AT_ONCE = 200
BYTES_AT_ONCE = 32_000_000
"""Of lines, without compression. Where more is new, the newest is read: of a large deployment the page shows some items."""
MOST_TRIES = 3
_DENIED = {"AccessDenied", "AccessDeniedException", "KMS.AccessDeniedException"}
_LINE_OVERHEAD = 64
"""Bytes that Python takes for a line beside its text, and for its place in a list."""
_DAMAGED = (EOFError, OSError, zlib.error)
"""What `gzip` raises; `OSError` is `BadGzipFile`'s base."""


class Look(NamedTuple):
    """`error` is what AWS said to some of the files, which are tried again."""

    lines: list[bytes]
    error: Exception | None = None


class _FileRead(NamedTuple):
    lines: list[bytes]
    whole: bool = True
    error: Exception | None = None


class _Budget:
    """What all readers together may take."""

    def __init__(self, size: int) -> None:
        self._left = size
        self._lock = Lock()

    def take(self, size: int) -> bool:
        with self._lock:
            self._left -= size
            return self._left >= 0


class LakeTail:
    """A file may be written so much later than others of its time as `late` says: what is older is listed no more.

    A key begins with the time at which the first of the file's events arrived.
    https://docs.aws.amazon.com/firehose/latest/dev/s3-object-name.html

    `passed_over` counts the files that were not read, or not to their end: too much was new, they are damaged, or AWS has
    refused them `MOST_TRIES` times.
    """

    def __init__(self, lake: Lake, late: timedelta = LATEST) -> None:
        self.passed_over = 0
        self._lake = lake
        self._late = late
        self._read: set[str] = set()
        self._listed_after = EVENTS_PREFIX
        self._tries = Counter[str]()

    def look(self) -> Look:
        """The new lines, the oldest file's first. Raises what AWS says to the listing."""
        now = datetime.now(UTC)
        found = list(self._listed(now))
        new = sorted(
            (file for file in found if file.key not in self._read), key=lambda file: file.written_at, reverse=True
        )
        chosen = new[:FILES_AT_ONCE]
        budget = _Budget(BYTES_AT_ONCE)
        with ThreadPoolExecutor(READERS) as readers:
            reads = list(readers.map(lambda file: self._read_file(file, budget), chosen))
        refused = [(file, read.error) for file, read in zip(chosen, reads, strict=True) if read.error]
        failed = {file.key for file, error in refused if self._again(file, error)}
        self.passed_over += len(new) - len(failed) - sum(read.whole for read in reads)
        self._remember(found, failed, now)
        error = next((read.error for read in reads if read.error), None)
        return Look([line for read in reversed(reads) for line in read.lines], error)

    def _read_file(self, file: File, budget: _Budget) -> _FileRead:
        lines: list[bytes] = []
        try:
            for line in self._lake.lines(file):
                if not budget.take(len(line) + _LINE_OVERHEAD):
                    return _FileRead(lines, whole=False)
                lines.append(line)
        except AwsError as error:
            return _FileRead([], whole=False, error=error)
        except _DAMAGED:
            return _FileRead(lines, whole=False)
        return _FileRead(lines)

    def _again(self, file: File, error: Exception) -> bool:
        """What nobody may read is asked for until somebody may: the page says so all the while."""
        if isinstance(error, ClientError) and error.response["Error"]["Code"] in _DENIED:
            return True
        self._tries[file.key] += 1
        return self._tries[file.key] < MOST_TRIES

    def _remember(self, found: list[File], failed: set[str], now: datetime) -> None:
        self._read = {file.key for file in found} - failed
        self._tries = Counter({key: tries for key, tries in self._tries.items() if key in failed})
        old = (file.key for file in found if file.written_at < now - self._late)
        self._listed_after = max((key for key in old if not failed or key < min(failed)), default=self._listed_after)

    def _listed(self, now: datetime) -> Iterator[File]:
        since = now - LATEST
        for hour in hours_back(since, now):
            yield from (file for file in self._lake.files(hour, self._listed_after) if file.written_at >= since)
