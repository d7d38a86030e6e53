"""The lines of the stream's files that no commit has yet, for a reader that asks for one kind after the other."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from sys import getsizeof
from threading import Lock

from pipeline.lake.raw import DAMAGES, bounded, is_cut_to_nothing, lines_of, read_file, unpacks_too_far

KEPT_BYTES = 512 << 20
"""Of lines: a file has some 64 MiB of them, by `infra.stream`."""
_KIND = b'"event":"'


@dataclass
class PendingLines:
    """The lines of as many files as fit into `left` bytes of memory are kept; the others are read anew for each kind.

    `damaged` are files of which only the beginning can be read, and of a gzip bomb nothing.
    """

    root: str
    left: int = KEPT_BYTES
    damaged: list[str] = field(default_factory=list)
    _kept: dict[str, dict[bytes, list[bytes]] | None] = field(default_factory=dict)
    _unpacks: dict[str, bool] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def of_kind(self, path: str, kind: bytes) -> Iterator[bytes]:
        """A file's lines of a kind. Several threads may ask, each for a file of its own."""
        if path not in self._kept:
            self._kept[path] = self._fitting(path)
        if (kept := self._kept[path]) is not None:
            yield from kept.get(kind, ())
            return
        for line in self._read(path):
            if kind in line and _kind_of(line) == kind:
                yield line

    def _fitting(self, path: str) -> dict[bytes, list[bytes]] | None:
        """A file's lines by their kinds, if there is memory left for them."""
        by_kind: dict[bytes, list[bytes]] = {}
        taken = 0
        for line in self._read(path):
            size = getsizeof(line)
            if not self._take(size):
                self._take(-taken)
                return None
            taken += size
            by_kind.setdefault(_kind_of(line), []).append(line)
        return by_kind

    def _take(self, size: int) -> bool:
        """Of the memory that is left, if there is so much; less than 0 gives it back."""
        with self._lock:
            if size > self.left:
                return False
            self.left -= size
            return True

    def _read(self, path: str) -> Iterator[bytes]:
        content = read_file(self.root, path)
        if path not in self._unpacks:
            self._unpacks[path] = not (is_cut_to_nothing(content, path) or unpacks_too_far(content))
        try:
            if self._unpacks[path]:
                yield from lines_of(bounded(content))
                return
        except DAMAGES:
            pass
        if path not in self.damaged:
            self.damaged.append(path)


def _kind_of(line: bytes) -> bytes:
    return line.partition(_KIND)[2].partition(b'"')[0]
