"""The lake's commits: which files count, hour by hour.

    manifests/day=2026-11-20/hour=16.json                 what counts of an hour of arrival
    <kind>/day=2026-11-20/hour=16/commit=<id>/….parquet   data files, never rewritten

Data files are written first, below the id of their commit, and count for nothing until a manifest names them. The
commit is one write of the manifest, on the condition that the manifest is still the one that it replaces:

    a writer                        another writer
    reads manifest A                reads manifest A
    writes data files               writes data files
    writes B, if A is there         ·
                                    writes C, if A is there: CommitConflict, it begins the hour anew

A reader asks for the manifests once, and then meets the same files for as long as it runs: a file that was left out is
removed by `pipeline.compaction.vacuum`, no earlier than two days later. What is of no hour has a name for one, such as
`snapshots/rules/day=2026-11-20`.
"""

import json
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from itertools import chain
from typing import Any, Self

import pyarrow as pa
from pyarrow import parquet

from pipeline.lake.files import CONNECTIONS, folders, joined, listed, opened, read_text, remove, swap_text
from pipeline.lake.links import write_link
from pipeline.period import Period

MANIFESTS = "manifests"
ROW_GROUP_BYTES = 64 << 20
"""In memory: whoever reads a row group has as much of it there."""
_HOUR = re.compile(r"^(\d{4}-\d\d-\d\d)/(\w+)$")


class CommitConflict(Exception):  # noqa: N818 - it says what has happened
    """Another commit came first: what this one was made of may not be all any more."""


class DamagedManifest(Exception):  # noqa: N818 - it says what it is
    """A manifest that can't be read, or that is another hour's: nobody can say what counts, so whoever needs it comes to an end."""


LAKE_ERRORS = (OSError, pa.ArrowInvalid, DamagedManifest, json.JSONDecodeError)
"""What is raised at a file that is forbidden, gone or damaged; S3's refusals are `OSError`, too."""


@dataclass(frozen=True)
class DataFile:
    """`path` is relative to the lake's root, `digest` the SHA-256 of the file's bytes, in hex."""

    path: str
    lines: int
    bytes: int
    digest: str


WRITTEN = pa.schema([("path", pa.string()), ("lines", pa.int64()), ("bytes", pa.int64()), ("digest", pa.string())])
"""Data files as rows."""

type Kinds = Mapping[str, tuple[DataFile, ...]]
"""Data files by what they hold."""


@dataclass(frozen=True)
class Manifest:
    """What counts of an hour.

    `sealed_at` is when it was found complete, in UNIX milliseconds. `counted` is how many records the live system's own
    counters say must at least be there; None if nobody has asked them. `raw` are the stream's files that it was made of.
    Of a period's differences, `seen` are the hours that they were made of, with the `sealed_at` that each had.
    """

    hour: str
    commit: str
    sealed_at: int | None = None
    counted: int | None = None
    raw: tuple[DataFile, ...] = ()
    kinds: Kinds = field(default_factory=dict)
    seen: Mapping[str, int | None] = field(default_factory=dict)

    @property
    def lines(self) -> int:
        return sum(each.lines for each in self.files)

    @property
    def files(self) -> tuple[DataFile, ...]:
        """The data files of all kinds."""
        return tuple(chain.from_iterable(self.kinds.values()))

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> Self:
        values: dict[str, Any] = json.loads(text)
        kinds = {kind: _files(found) for kind, found in values["kinds"].items()}
        return cls(**values | {"raw": _files(values["raw"]), "kinds": kinds})


@dataclass(frozen=True)
class LakeView:
    """What counts in a lake, for a reader that asks several times: each day as it was when it was first asked for."""

    root: str
    _days: dict[str, list[Manifest]] = field(default_factory=dict)

    def manifests(self, period: Period) -> list[Manifest]:
        """Those of the hours that have one, in order."""
        if not self._days:
            self._days.update((day, []) for day in folders(self.root, MANIFESTS))
        days = [day for day in self._days if period.has_day(day.removeprefix("day="))]
        return [found for found in chain.from_iterable(map(self._day, days)) if period.has_hour(found.hour)]

    def files(self, kind: str, period: Period) -> list[DataFile]:
        """Those of a kind that count, in order of their hours."""
        return [file for found in self.manifests(period) for file in found.kinds.get(kind, ())]

    def refresh(self) -> None:
        """From now on, what counts by now."""
        self._days.clear()

    def _day(self, day: str) -> list[Manifest]:
        if not self._days[day]:
            self._days[day] = read_manifests(self.root, sorted(map(name_of, listed(self.root, f"{MANIFESTS}/{day}"))))
        return self._days[day]


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


def new_commit() -> str:
    """An id that sorts by time."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"


def manifest_path(hour: str) -> str:
    return f"{MANIFESTS}/{_folder(hour)}.json"


def data_folder(kind: str, hour: str, commit: str) -> str:
    """Where a commit's files of a kind lie. What is of no hour has one folder for all kinds."""
    return f"{home(kind, hour)}/commit={commit}"


def read_manifest(root: str, hour: str) -> Manifest | None:
    """None if the hour has never been committed. Raises `DamagedManifest`."""
    return _parsed(hour, read_text(joined(root, manifest_path(hour))))


def _parsed(hour: str, text: str | None) -> Manifest | None:
    if text is None:
        return None
    try:
        found = Manifest.from_json(text)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise DamagedManifest(f"{manifest_path(hour)} can't be read: {error}") from error
    if found.hour != hour:
        raise DamagedManifest(f"{manifest_path(hour)} can't be read: it is that of {found.hour}")
    return found


def read_manifests(root: str, hours: Sequence[str]) -> list[Manifest]:
    """Those that are there, in the order of `hours`."""
    with ThreadPoolExecutor(CONNECTIONS) as readers:
        return [found for found in readers.map(partial(read_manifest, root), hours) if found]


def manifests(root: str, period: Period) -> list[Manifest]:
    """Those of the hours that have one, in order."""
    return LakeView(root).manifests(period)


def data_files(root: str, kind: str, period: Period) -> list[str]:
    """Whole paths or URIs of the files that count, in order of their hours."""
    return [joined(root, each.path) for hour in manifests(root, period) for each in hour.kinds.get(kind, ())]


def commit(root: str, new: Manifest, replaces: str | None) -> None:
    """Make `new` what counts, if the manifest is still that of the commit `replaces`, or still missing if it is None.

    The data files have to be there already. Raises `CommitConflict`.
    """

    def replaced(text: str | None) -> str | None:
        known = _parsed(new.hour, text)
        return new.to_json() if (known and known.commit) == replaces else None

    if not swap_text(joined(root, manifest_path(new.hour)), replaced):
        raise CommitConflict(f"{new.hour} is no longer as commit {replaces} left it")
    write_links(root, new.hour, new.kinds)


def discard(root: str, made: Manifest) -> None:
    """Remove the data files of a commit that another one came before: they may hold whom that one has erased.

    If the answer to it was lost, it may have been made, and what came before the next attempt was made of it.
    """
    known = read_manifest(root, made.hour)
    named = {each.path for each in known.files} if known else set()
    remove(root, [each.path for each in made.files if each.path not in named])


def write_links(root: str, hour: str, kinds: Iterable[str]) -> None:
    """Have Athena's lists of an hour's kinds name what counts by now; on a disk, and of another name, there are none."""
    if "://" in root and _HOUR.fullmatch(hour):
        with ThreadPoolExecutor(CONNECTIONS) as writers:
            list(writers.map(partial(_write_link, root, hour), kinds))


def _write_link(root: str, hour: str, kind: str) -> None:
    def counting() -> list[str]:
        found = read_manifest(root, hour)
        return [each.path for each in found.kinds.get(kind, ())] if found else []

    write_link(root, kind, _folder(hour), counting)


def update(root: str, hour: str, change: Callable[[Manifest], Manifest]) -> Manifest:
    """Commit what `change` makes of an hour as it is, or of an empty one: anew whenever another commit comes first."""
    while True:
        known = read_manifest(root, hour)
        new = replace(change(known or Manifest(hour, "")), commit=new_commit())
        with suppress(CommitConflict):
            commit(root, new, known.commit if known else None)
            return new


def add_files(root: str, hour: str, kinds: Kinds) -> None:
    update(root, hour, lambda known: replace(known, kinds=merged(known.kinds, kinds)))


def merged(some: Kinds, others: Kinds) -> Kinds:
    return {kind: (*some.get(kind, ()), *others.get(kind, ())) for kind in {**some, **others}}


def write_parquet(root: str, folder: str, batches: Iterable[pa.RecordBatch]) -> DataFile:
    """Write a new file into a folder, under its final name at once: nothing is renamed, and nobody reads it yet."""
    path = f"{folder}/{secrets.token_hex(8)}.parquet"
    hashed, lines, groups = _Hashed(opened(joined(root, path))), 0, _row_groups(batches)
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


def _files(values: Iterable[Mapping[str, Any]]) -> tuple[DataFile, ...]:
    return tuple(DataFile(**each) for each in values)


def home(kind: str, hour: str) -> str:
    """The folder that the files of all commits of an hour's kind lie below."""
    return f"{kind}/{_folder(hour)}" if _HOUR.fullmatch(hour) else hour


def _folder(hour: str) -> str:
    """Such as `day=2026-11-20/hour=16`."""
    return _HOUR.sub(r"day=\1/hour=\2", hour)


def name_of(path: str) -> str:
    """The hour, or the name, of the path of a manifest."""
    name = path.removeprefix(f"{MANIFESTS}/").removesuffix(".json")
    return re.sub(r"^day=(.+)/hour=(.+)$", r"\1/\2", name)
