"""The lake's commits: which files are part of it, hour by hour.

    manifests/day=2026-11-20/hour=16.json                 what is committed of an hour of arrival
    <kind>/day=2026-11-20/hour=16/commit=<id>/….parquet   data files, never rewritten
    symlinks/<kind>/day=2026-11-20/hour=16/files          for Athena: the URI of each committed data file, a line each

Data files are written first, below the id of their commit, and are part of the lake once a manifest names them. The
commit is one write of the manifest, on the condition that the manifest is still the one that it replaces:

    a writer                        another writer
    reads manifest A                reads manifest A
    writes data files               writes data files
    writes B, if A is there         ·
                                    writes C, if A is there: CommitConflict, it begins the hour anew

A reader reads the manifests once, and from then on the same files for as long as it runs: a file that was left out is
removed by `pipeline.compaction.vacuum`, no earlier than two days later. A commit that is not of an hour has a name, such
as `snapshots/rules/day=2026-11-20`.
"""

import json
import re
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from itertools import chain
from typing import Any, Self

import pyarrow as pa
from botocore.exceptions import BotoCoreError, ClientError

from pipeline.columns import LINKS
from pipeline.lake.files import CONNECTIONS, folders, joined, listed, read_text, remove, swap_text
from pipeline.lake.parquet import DataFile
from pipeline.period import Period

MANIFESTS = "manifests"
_DIGEST = "digest"
_REQUIRED = ("hour", "commit", "sealed_at", "counted", "raw", "kinds")
"""Fields that the manifests of all releases have."""
_HOUR = re.compile(r"^(\d{4}-\d\d-\d\d)/(\w+)$")


class CommitConflict(Exception):  # noqa: N818 - it says what has happened
    """Another commit came first: what this one was made of may not be all any more."""


class DamagedRecord(Exception):  # noqa: N818 - it says what it is
    """A manifest, or a run's progress, can't be read or is another hour's; or a small table has another digest.

    A job that needs it ends; `report` and `daily` go on without that of another day.
    """


LAKE_ERRORS = (OSError, pa.ArrowInvalid, DamagedRecord, json.JSONDecodeError, BotoCoreError, ClientError)
"""What is raised at a file that is forbidden, gone or damaged; what S3 refuses is PyArrow's `OSError` or boto3's own."""


type Kinds = Mapping[str, tuple[DataFile, ...]]
"""Data files by kind, or by the hour or the name that they were written for."""


@dataclass(frozen=True)
class Manifest:
    """What is committed of an hour.

    `sealed_at` is when it was found complete, in UNIX milliseconds. `counted` is how many records the live system's own
    counters say must at least have come; None if they were not read. `erased` is how many of its lines have been
    removed. `raw` are the stream's files that it was made of.
    `seen`: the hours that a period's differences, or its report, were made of, with the `sealed_at` that each had then.
    `unread`: of a snapshot, the hours before its end that could not be read in full, with theirs.
    `shows`: of a report, which differences its page is of.
    """

    hour: str
    """What is committed: an hour of arrival (`2026-11-20/16`), or a name such as `snapshots/rules/day=2026-11-20`."""
    commit: str
    sealed_at: int | None = None
    counted: int | None = None
    raw: tuple[DataFile, ...] = ()
    kinds: Kinds = field(default_factory=dict)
    seen: Mapping[str, int | None] = field(default_factory=dict)
    unread: Mapping[str, int | None] = field(default_factory=dict)
    erased: int = 0
    shows: str | None = None

    @property
    def lines(self) -> int:
        return sum(each.lines for each in self.files)

    @property
    def arrived(self) -> int:
        """How many lines have come."""
        return self.lines + self.erased

    @property
    def files(self) -> tuple[DataFile, ...]:
        """The data files of all kinds."""
        return tuple(chain.from_iterable(self.kinds.values()))

    def to_json(self) -> str:
        return manifest_text(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Fields of later releases are ignored.

        Raises `ValueError`, `LookupError`, `TypeError` or `AttributeError` if it is damaged.
        """
        values = _without_digest(json.loads(text))
        kinds = {kind: _files(found) for kind, found in values["kinds"].items()}
        names = (each.name for each in fields(cls) if each.name in _REQUIRED or each.name in values)
        known = {name: values[name] for name in names}
        return cls(**known | {"raw": _files(values["raw"]), "kinds": kinds})


def manifest_text(values: Mapping[str, Any]) -> str:
    """The JSON of a manifest's `values`, with their digest."""
    return json.dumps({**values, _DIGEST: _digest(values)}, indent=1)


def _without_digest(values: dict[str, Any]) -> dict[str, Any]:
    """The values without their digest, which earlier releases did not write. Raises `ValueError` if it doesn't match."""
    digest = values.pop(_DIGEST, None)
    if digest is not None and digest != _digest(values):
        raise ValueError("it is not as it was written")
    return values


def _digest(values: Mapping[str, Any]) -> str:
    return sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class LakeView:
    """What is committed in a lake, for several reads: each day as it was when it was first read."""

    root: str
    _days: dict[str, list[Manifest]] = field(default_factory=dict)

    def manifests(self, period: Period) -> list[Manifest]:
        """Those of the hours that have one, in order."""
        if not self._days:
            self._days.update((day, []) for day in folders(self.root, MANIFESTS))
        days = [day for day in self._days if period.has_day(day.removeprefix("day="))]
        return [found for found in chain.from_iterable(map(self._day, days)) if period.has_hour(found.hour)]

    def files(self, kind: str, period: Period) -> list[DataFile]:
        """The committed ones of a kind, in order of their hours."""
        return [file for found in self.manifests(period) for file in found.kinds.get(kind, ())]

    def refresh(self) -> None:
        """From now on, what is committed by now."""
        self._days.clear()

    def _day(self, day: str) -> list[Manifest]:
        if not self._days[day]:
            self._days[day] = read_manifests(self.root, sorted(map(name_of, listed(self.root, f"{MANIFESTS}/{day}"))))
        return self._days[day]


def new_commit() -> str:
    """An id that sorts by time."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"


def manifest_path(hour: str) -> str:
    return f"{MANIFESTS}/{hour_folder(hour)}.json"


def data_folder(kind: str, hour: str, commit: str) -> str:
    """Where a commit's files of a kind lie. A commit that is not of an hour has one folder for all kinds."""
    return f"{home(kind, hour)}/commit={commit}"


def read_manifest(root: str, hour: str) -> Manifest | None:
    """None if the hour has never been committed. Raises `DamagedRecord`."""
    return _parsed(hour, read_text(joined(root, manifest_path(hour))))


def whole(text: str) -> str:
    """A text that was written as JSON. Raises `ValueError` if a byte of it was damaged: see `pipeline.lake.files`."""
    if "\ufffd" in text:
        raise ValueError("it is not UTF-8")
    return text


def _parsed(hour: str, text: str | None) -> Manifest | None:
    if text is None:
        return None
    try:
        found = Manifest.from_json(whole(text))
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise DamagedRecord(f"{manifest_path(hour)} can't be read: {error}") from error
    if found.hour != hour:
        raise DamagedRecord(f"{manifest_path(hour)} can't be read: it is that of {found.hour}")
    return found


def read_manifests(root: str, hours: Sequence[str]) -> list[Manifest]:
    """Those that are there, in the order of `hours`."""
    with ThreadPoolExecutor(CONNECTIONS) as readers:
        return [found for found in readers.map(partial(read_manifest, root), hours) if found]


def commit(root: str, new: Manifest, replaces: str | None) -> None:
    """Commit `new`, if the manifest is still that of the commit `replaces`, or still missing if it is None.

    The data files have to be there already. Raises `CommitConflict`.
    """

    def replaced(text: str | None) -> str | None:
        known = _parsed(new.hour, text)
        return new.to_json() if (known and known.commit) == replaces else None

    if not swap_text(joined(root, manifest_path(new.hour)), replaced):
        raise CommitConflict(f"{new.hour} is no longer as commit {replaces} left it")
    write_links(root, new.hour, new.kinds)


def commit_or_discard(root: str, new: Manifest, replaces: str | None, written: Kinds) -> None:
    """`commit`; the files `written` for it are removed if another commit came first. Raises `CommitConflict`."""
    try:
        commit(root, new, replaces)
    except CommitConflict:
        discard(root, replace(new, kinds=written))
        raise


def discard(root: str, made: Manifest) -> None:
    """Remove the data files of a commit that lost its race: they may hold a client whom the winner has erased.

    Files that the manifest names are kept: if S3's answer was lost, this commit was made and the next attempt built on it.
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
    """`swap_text` reads the list before `counting` reads the manifest.

    A writer overtaken in between fails the condition and starts again, so a list never falls behind a later commit.
    """
    at = root.replace("s3a://", "s3://", 1)

    def counting(_: str | None) -> str:
        found = read_manifest(root, hour)
        return "".join(f"{joined(at, each.path)}\n" for each in (found.kinds.get(kind, ()) if found else ()))

    while not swap_text(joined(root, f"{LINKS}/{kind}/{hour_folder(hour)}/files"), counting):
        pass


def update(root: str, hour: str, change: Callable[[Manifest], Manifest]) -> Manifest:
    """Commit what `change` makes of an hour as it is, or of an empty one: anew whenever another commit comes first."""
    while True:
        known = read_manifest(root, hour)
        new = replace(change(known or Manifest(hour, "")), commit=new_commit())
        with suppress(CommitConflict):
            commit(root, new, known.commit if known else None)
            return new


def merged(some: Kinds, others: Kinds) -> Kinds:
    return {kind: (*some.get(kind, ()), *others.get(kind, ())) for kind in {**some, **others}}


def _files(values: Iterable[Mapping[str, Any]]) -> tuple[DataFile, ...]:
    return tuple(DataFile(**each) for each in values)


def home(kind: str, hour: str) -> str:
    """The folder that the files of all commits of an hour's kind lie below."""
    return f"{kind}/{hour_folder(hour)}" if _HOUR.fullmatch(hour) else hour


def home_of(path: str) -> tuple[str, str]:
    """The kind, and the hour or name, that a data file was written for: the inverse of `data_folder`.

    What is not of an hour has its name for its kind.
    """
    folder = path.partition("/commit=")[0]
    kind, _, of_kind = folder.partition("/")
    hour = name_of(of_kind)
    return (kind, hour) if _HOUR.fullmatch(hour) else (folder, folder)


def hour_folder(hour: str) -> str:
    """Of an hour, such as `day=2026-11-20/hour=16`; of another name that itself."""
    return _HOUR.sub(r"day=\1/hour=\2", hour)


def name_of(path: str) -> str:
    """The hour, or the name, of the path of a manifest."""
    name = path.removeprefix(f"{MANIFESTS}/").removesuffix(".json")
    return re.sub(r"^day=(.+)/hour=(.+)$", r"\1/\2", name)
