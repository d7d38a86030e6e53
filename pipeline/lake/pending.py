"""The lines of the stream's files that no commit has yet, for a reader that asks for one kind after the other."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from shutil import rmtree
from sys import getsizeof
from tempfile import mkdtemp
from threading import Lock
from weakref import finalize

from pipeline.columns import EventKind
from pipeline.lake.files import read_file
from pipeline.lake.raw import DAMAGES, bounded, is_cut_to_nothing, lines_of, unpacks_too_far

KEPT_BYTES = 512 << 20
"""Of lines: a file has some 64 MiB of them, by `infra.stream`."""
_KIND = b'"event":"'
_KINDS = frozenset(kind.encode() for kind in EventKind)

type ByKind = Mapping[bytes, Iterable[bytes]]


@dataclass(frozen=True)
class _StoredLines:
    """Lines in a file on this machine."""

    path: Path

    def __iter__(self) -> Iterator[bytes]:
        with self.path.open("rb") as stream:
            yield from lines_of(stream)


@dataclass
class PendingLines:
    """Each file is read once: its lines are kept in `left` bytes of memory while they fit, and then in temporary files.

    `damaged` are files of which only the beginning can be read, and of a gzip bomb nothing.
    """

    root: str
    left: int = KEPT_BYTES
    damaged: list[str] = field(default_factory=list)
    _kept: dict[str, ByKind] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    @cached_property
    def _folder(self) -> str:
        """For temporary files; it goes when this does."""
        folder = mkdtemp(prefix="clarion-explain-")
        finalize(self, rmtree, folder, ignore_errors=True)
        return folder

    def of_kind(self, path: str, kind: bytes) -> Iterator[bytes]:
        """A file's lines of a kind. Several threads may ask, each for a file of its own."""
        if path not in self._kept:
            self._kept[path] = self._by_kind(path)
        yield from self._kept[path].get(kind, ())

    def _by_kind(self, path: str) -> ByKind:
        lines: dict[bytes, list[bytes]] = {}
        taken = 0
        every = ((kind, line) for line in self._read(path) if (kind := _kind_of(line)) in _KINDS)
        for kind, line in every:
            lines.setdefault(kind, []).append(line)
            taken += getsizeof(line)
            if not self._take(getsizeof(line)):
                stored = self._stored(lines, every)
                self._take(getsizeof(line) - taken)
                return stored
        return lines

    def _stored(self, lines: Mapping[bytes, list[bytes]], further: Iterable[tuple[bytes, bytes]]) -> ByKind:
        """Those read so far, and all that follow."""
        folder = Path(mkdtemp(dir=self._folder))
        stored = {kind: _StoredLines(folder / kind.decode()) for kind in _KINDS}
        with ExitStack() as files:
            streams = {kind: files.enter_context(each.path.open("wb")) for kind, each in stored.items()}
            for kind, some in lines.items():
                streams[kind].writelines(map(_ended, some))
            for kind, line in further:
                streams[kind].write(_ended(line))
        return stored

    def _take(self, size: int) -> bool:
        """Of the memory that is left, if there is so much; less than 0 gives it back."""
        with self._lock:
            if size > self.left:
                return False
            self.left -= size
            return True

    def _read(self, path: str) -> Iterator[bytes]:
        content = read_file(self.root, path)
        try:
            if not is_cut_to_nothing(content, path) and not unpacks_too_far(content):
                yield from lines_of(bounded(content))
                return
        except DAMAGES:
            pass
        self.damaged.append(path)


def _ended(line: bytes) -> bytes:
    """The last line of a file may have no end, nor has one that is too long."""
    return line if line.endswith(b"\n") else line + b"\n"


def _kind_of(line: bytes) -> bytes:
    return line.partition(_KIND)[2].partition(b'"')[0]
