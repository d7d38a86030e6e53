"""Files of the lake written again without a client: commits for what a manifest names, in place what none does."""

import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from uuid import UUID

import pyarrow as pa
from pyarrow import compute as pc
from pyarrow import fs
from pyarrow import parquet as pq

from pipeline.erase.lease import ErasureLease
from pipeline.erase.traces import CLIENT, SUBSCRIPTION, Traces, count_lines, uuids
from pipeline.lake.commits import (
    CommitConflict,
    Manifest,
    commit,
    data_folder,
    home_of,
    hour_folder,
    new_commit,
    read_manifest,
)
from pipeline.lake.files import filesystem, joined, listed, read_bytes, remove, write_bytes
from pipeline.lake.parquet import DataFile, write_parquet
from pipeline.lake.raw import RAW, arrival_hour

_ROWS = 1 << 16


@dataclass(frozen=True)
class Rewriter:
    """In a dry run it counts, and writes nothing. A file that is gone, as one that has expired, holds nobody."""

    root: str
    traces: Traces
    lease: ErasureLease | None
    """None in a dry run."""
    left: dict[str, str] = field(default_factory=dict)
    """What could not be read or written, by path, and why: it may still have something of the client."""
    cleaned: Counter[str] = field(default_factory=Counter)
    """How many lines were removed, by the raw file."""

    @property
    def dry_run(self) -> bool:
        return self.lease is None

    def attempt[T, U](self, path: str, otherwise: T, function: Callable[..., U], *given: object) -> T | U:
        """What a function returns that works on the file `path`; `otherwise` where it can't, which is then `left`."""
        if self.lease:
            self.lease.renew()
        try:
            return function(*given)
        except (OSError, EOFError, ValueError, zlib.error, pa.ArrowException) as error:
            self.left[path] = str(error) or type(error).__name__
            return otherwise

    def renew(self, name: str) -> Counter[str]:
        """Make a commit of an hour, or of a name, without the client; returns the lines that it left out, by kind.

        Whoever commits meanwhile comes first: then the hour is begun anew.
        """
        while True:
            try:
                return self._renew(name)
            except CommitConflict:
                continue

    def subscriptions(self, path: str) -> set[UUID]:
        """Those that a file of Parquet says are the client's."""
        with suppress(FileNotFoundError), self._opened(path) as file:
            if {CLIENT, SUBSCRIPTION} <= set(file.schema_arrow.names):
                return self._own_subscriptions(file.read(columns=[CLIENT, SUBSCRIPTION]))
        return set()

    def _own_subscriptions(self, both: pa.Table) -> set[UUID]:
        own = both.filter(pc.equal(both.column(CLIENT), pa.scalar(self.traces.client, both.schema.field(CLIENT).type)))
        return set(uuids(own.column(SUBSCRIPTION).unique().to_pylist()))

    def subscriptions_in_lines(self, path: str) -> set[UUID]:
        """Those that a raw file says are the client's."""
        return self.traces.subscriptions_in(self.read(path))

    def holds(self, path: str) -> bool:
        """Whether a file of Parquet has anything of the client."""
        return self._own(path) > 0

    def _renew(self, name: str) -> Counter[str]:
        known, new = read_manifest(self.root, name) or Manifest(name, ""), new_commit()
        raw, lines = self._without_lines(name, known.raw)
        made = {
            kind: [self.attempt(each.path, each, self._data_file, kind, name, new, each) for each in files]
            for kind, files in known.kinds.items()
        }
        kinds = {kind: tuple(filter(None, files)) for kind, files in made.items()}
        rows: Counter[str] = Counter()
        for kind, files in kinds.items():
            rows[kind] = sum(each.lines for each in known.kinds[kind]) - sum(each.lines for each in files)
        if not self.dry_run:
            erased = known.erased + rows.total() + self._never_compacted(known, raw)
            after = replace(known, commit=new, raw=raw, kinds=kinds, erased=erased)
            commit(self.root, after, known.commit or None)
            named = {each.path for each in after.files}
            self.delete(each.path for each in known.files if each.path not in named)
        return lines + rows

    def _data_file(self, kind: str, name: str, new: str, old: DataFile) -> DataFile | None:
        """The same file if it has nothing of the client; else the one that takes its place, unless nothing is left."""
        own = self._own(old.path)
        if not own:
            return old
        if own == old.lines:
            return None
        if self.dry_run:
            return replace(old, lines=old.lines - own)
        with self._opened(old.path) as file:
            return write_parquet(self.root, data_folder(kind, name, new), self._kept(file))

    def _without_lines(self, name: str, known: Iterable[DataFile]) -> tuple[tuple[DataFile, ...], Counter[str]]:
        """The hour's raw files as its manifest has to name them from now on; all its raw files are cleaned in place."""
        removed: Counter[str] = Counter()
        renewed = {each.path: each for each in known}
        for path in filter(is_content, listed(self.root, f"{RAW}/{hour_folder(name)}")):
            cleaned, lines = self.attempt(path, (renewed.get(path), 0), self._cleaned, path)
            removed += Counter({RAW: lines}) if lines else Counter()
            if cleaned and path in renewed:
                renewed[path] = cleaned
        return tuple(renewed.values()), removed

    def _never_compacted(self, known: Manifest, raw: Iterable[DataFile]) -> int:
        """How many lines this run has removed from an hour's raw files that its commit was not made of."""
        before, after = ({each.path: each.lines for each in files} for files in (known.raw, raw))
        of_hour = ((path, lines) for path, lines in self.cleaned.items() if arrival_hour(path) == known.hour)
        return sum(lines for path, lines in of_hour if before.get(path, 0) <= after.get(path, 0))

    def _cleaned(self, path: str) -> tuple[DataFile | None, int]:
        """A raw file as a manifest has to name it once it has no line of the client, and how many it had."""
        kept, lines = self.traces.without_lines(self.read(path))
        if lines:
            self.overwrite(path, kept)
            self.cleaned[path] += lines
        return DataFile(path, count_lines(kept), len(kept), sha256(kept).hexdigest()), lines

    def has_lines(self, path: str) -> bool:
        """Whether a raw file has anything of the client."""
        return self.traces.without_lines(self.read(path))[1] > 0

    def drop(self, path: str) -> int:
        """Remove a data file of an hour that no manifest names any more; returns the rows that it had of the client.

        Whoever has just written it finds its hour changed, and begins it anew. What is of no hour may yet be committed
        as it is: it keeps the others' rows.
        """
        kind, name = home_of(path)
        if kind == name:
            return 0 if self._is_named(path) else self.replace_table(path)
        own = self._own(path)
        if not own or self._is_named(path):
            return 0
        self.delete([path])
        return own

    def replace_content(self, path: str, without: Callable[[bytes], tuple[bytes, int]]) -> int:
        """Write a file again that no manifest names, as `without` leaves it; returns how much that has removed."""
        kept, removed = without(self.read(path))
        if removed:
            self.overwrite(path, kept)
        return removed

    def replace_table(self, path: str) -> int:
        """The same of Parquet, by rows."""
        if own := self._own(path):
            sink = pa.BufferOutputStream()
            with self._opened(path) as file:
                pq.write_table(pa.Table.from_batches(self._kept(file), file.schema_arrow), sink, compression="zstd")
            self.overwrite(path, sink.getvalue().to_pybytes())
        return own

    def read(self, path: str) -> bytes:
        return read_bytes(self.root, path) or b""

    def overwrite(self, path: str, content: bytes) -> None:
        """A reader meets the old file or the new one. Beside a local file may lie Hadoop's checksum of the old one."""
        if self.lease is None:
            return
        self.lease.renew()
        target = joined(self.root, path)
        files, place = filesystem(target)
        if isinstance(files, fs.LocalFileSystem):
            Path(place).with_name(f".{Path(place).name}.crc").unlink(missing_ok=True)
        write_bytes(target, content)

    def delete(self, paths: Iterable[str]) -> None:
        if not self.dry_run:
            remove(self.root, paths)

    def _kept(self, file: pq.ParquetFile) -> Iterator[pa.RecordBatch]:
        for batch in file.iter_batches(_ROWS):
            yield batch.filter(pc.invert(self.traces.rows(batch)))

    def _own(self, path: str) -> int:
        """How many rows are the client's."""
        with suppress(FileNotFoundError):
            return sum(pc.sum(self.traces.rows(batch)).as_py() or 0 for batch in self._narrow(path))
        return 0

    def _is_named(self, path: str) -> bool:
        manifest = read_manifest(self.root, home_of(path)[1])
        return manifest is not None and any(each.path == path for each in manifest.files)

    def _narrow(self, path: str) -> Iterator[pa.RecordBatch]:
        """The columns by which rows may be the client's; nothing of a file without any."""
        with self._opened(path) as file:
            if columns := self.traces.columns(file.schema_arrow):
                yield from file.iter_batches(_ROWS, columns=columns)

    def _opened(self, path: str) -> pq.ParquetFile:
        files, place = filesystem(joined(self.root, path))
        return pq.ParquetFile(place, filesystem=files)


def is_content(path: str) -> bool:
    """Whether a file is none of the sums and marks that Hadoop leaves beside its files."""
    name = path.rpartition("/")[2]
    return not name.endswith(".crc") and name != "_SUCCESS"
