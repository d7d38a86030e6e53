"""The lake's newest files, each read once."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

from clarion.storage import EVENTS_PREFIX
from console.lake import READERS, File, Lake, hours_back

LATEST = timedelta(minutes=15)
"""What was written longer ago is not looked at. Firehose keeps a file back no longer."""
FILES_AT_ONCE = 200
"""Where more are new, the newest are read: of a large deployment the page shows some items."""


class LakeTail:
    """A file may be written so much later than others of its time as `late` says: what is older is listed no more.

    A key begins with the time at which the first of the file's events arrived.
    https://docs.aws.amazon.com/firehose/latest/dev/s3-object-name.html
    """

    def __init__(self, lake: Lake, late: timedelta = LATEST) -> None:
        self._lake = lake
        self._late = late
        self._read: set[str] = set()
        self._passed = EVENTS_PREFIX

    def new_lines(self) -> list[bytes]:
        now = datetime.now(UTC)
        found = list(self._listed(now))
        new = sorted((file for file in found if file.key not in self._read), key=lambda file: file.written_at)
        self._read = {file.key for file in found}
        self._passed = max((file.key for file in found if file.written_at < now - self._late), default=self._passed)
        with ThreadPoolExecutor(READERS) as readers:
            files = readers.map(lambda file: list(self._lake.lines(file)), new[-FILES_AT_ONCE:])
            return [line for lines in files for line in lines]

    def _listed(self, now: datetime) -> Iterator[File]:
        since = now - LATEST
        for hour in hours_back(since, now):
            yield from (file for file in self._lake.files(hour, self._passed) if file.written_at >= since)
