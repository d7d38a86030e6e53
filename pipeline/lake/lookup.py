"""Find events in the lake without Spark: in the committed Parquet, and among the stream's lines that no commit has yet.

    committed hours    one column of each file, then whole rows of the files in which something was found
    pending files      each line that holds the text of what is looked for

So what is looked for costs one narrow column of the hours asked for; Parquet's statistics spare row groups beyond it.
"""

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from itertools import accumulate, chain
from typing import Any
from uuid import UUID

import pyarrow as pa
from pyarrow import compute as pc
from pyarrow import fs
from pyarrow import parquet as pq
from pydantic import ValidationError

from clarion.events import EnvelopeObserved, Event
from clarion.networks import NETWORKS, Malformed, network
from clarion.subscription_events import RulesChanged
from pipeline.columns import FILE_NAMES, NOTIFICATION_KEY
from pipeline.lake.commits import LakeView
from pipeline.lake.coverage import Coverage
from pipeline.lake.files import CONNECTIONS, filesystem
from pipeline.lake.pending import KEPT_BYTES, PendingLines
from pipeline.lake.plans import runs_since
from pipeline.period import Period

FEW = 8
"""Up to this number of values, lines are searched for their text before they are parsed."""
_RULE_KEYS = "rules.list.element.key"
_EVENT_NAMES = {in_files: in_events for in_events, in_files in FILE_NAMES.items()}

type Sought = UUID | bytes


@dataclass
class Lookup:
    """Of a lake at `root`, a path or URI, with so many bytes of memory for lines that no commit has.

    `unreadable` are the digests of the lines that hold what is looked for and can't be read.
    """

    root: str
    kept_bytes: int = KEPT_BYTES
    unreadable: set[bytes] = field(default_factory=set)

    @property
    def damaged(self) -> list[str]:
        """Files of the stream of which only the beginning can be read, and of a gzip bomb nothing."""
        return self._lines.damaged

    def find[E: Event](self, model: type[E], column: str, values: Collection[Sought], arrived: Period) -> list[E]:
        """Each event of a kind that has one of `values` in a column, and arrived in those hours; each once."""
        if not values:
            return []
        rows = self.rows(self.data_files(kind_of(model), arrived), column, values)
        sought = set(values)
        here = self._pending(model, sought, arrived, lambda one: one if getattr(one, column) in sought else None)
        return list(dict.fromkeys((*self.events(model, rows), *here)))

    def every[E: Event](self, model: type[E], arrived: Period, also: Sequence[str] = ()) -> list[E]:
        """All events of a kind of which there are few, and those of other files."""
        paths = [*also, *self.data_files(kind_of(model), arrived)]
        rows = (row for table in self._mapped(self._table, paths) for row in table.to_pylist())
        return list(dict.fromkeys((*self.events(model, rows), *self._pending(model, (), arrived, lambda one: one))))

    def naming(self, keys: Collection[bytes], arrived: Period) -> list[RulesChanged]:
        """Changes of rules with one of these keys, reduced to those rules."""
        if not keys:
            return []
        paths = self.data_files(kind_of(RulesChanged), arrived)
        wanted = array_of(keys, pa.binary())
        tables = self._mapped(lambda path: self._changes_naming(path, wanted), paths)
        changes = self.events(RulesChanged, (row for table in tables for row in table.to_pylist()))
        reduced = (_reduced(change, keys) for change in changes)
        here = self._pending(RulesChanged, keys, arrived, lambda change: _reduced(change, keys))
        return list(dict.fromkeys(filter(None, (*reduced, *here))))

    def observed_naming(self, keys: Collection[bytes], arrived: Period) -> Iterator[UUID]:
        """The receipts of the envelopes that have one of these keys: each is decoded, none is verified."""
        for path in self.data_files(kind_of(EnvelopeObserved), arrived):
            for row in self._table(path, ["network", "receipt", "raw"]).to_pylist():
                if _has_key(row["network"], row["raw"], keys):
                    yield UUID(row["receipt"])
        yield from self._pending(
            EnvelopeObserved, (), arrived, lambda one: one.receipt if _has_key(one.network, one.raw, keys) else None
        )

    def replayed(self, receipts: Collection[UUID], since: int) -> set[tuple[UUID, UUID]]:
        """What of these was sent to the live system again since then: receipt and subscription."""
        paths = [file.path for run in runs_since(self.root, since) for file in run.files]
        tables = self._mapped(lambda path: self._table(path, list(NOTIFICATION_KEY)), paths)
        rows = (row for table in tables for row in table.to_pylist() if row["subscription_id"])
        pairs = ((UUID(row["receipt"]), UUID(row["subscription_id"])) for row in rows)
        return {pair for pair in pairs if pair[0] in receipts}

    def receipts(self, model: type[Event], arrived: Period) -> Iterator[str]:
        """Those of all events of a kind."""
        for table in self._mapped(
            lambda path: self._table(path, ["receipt"]), self.data_files(kind_of(model), arrived)
        ):
            yield from table.column("receipt").to_pylist()
        # Of the kinds that have one.
        yield from self._pending(model, (), arrived, lambda one: str(getattr(one, "receipt")))  # noqa: B009

    def data_files(self, kind: str, arrived: Period) -> list[str]:
        """The committed files of a kind, relative to the root."""
        return [each.path for each in self._view.files(kind, arrived)]

    def rows(self, paths: Sequence[str], column: str, values: Collection[Sought]) -> list[dict[str, Any]]:
        """Whole rows of these files that have one of the values in that column."""
        plain = [value if isinstance(value, bytes) else str(value) for value in values]
        found = self._mapped(lambda path: list(self._rows_of_file(path, column, plain)), paths)
        return [row for rows in found for row in rows]

    def doubts(self, arrived: Period, soon: Period | None = None) -> Iterator[str]:
        """Why what was found may not be all: those of the lake's `coverage`, and lines and files that can't be read."""
        yield from self.coverage.doubts(arrived, soon)
        if self.unreadable:
            yield f"{len(self.unreadable)} lines about it can't be read"
        yield from (f"{path} is damaged: only its beginning could be read, if anything" for path in self.damaged)

    @cached_property
    def coverage(self) -> Coverage:
        return Coverage(self._view)

    @cached_property
    def _lines(self) -> PendingLines:
        return PendingLines(self.root, self.kept_bytes)

    @cached_property
    def _view(self) -> LakeView:
        return LakeView(self.root)

    @cached_property
    def _place(self) -> tuple[fs.FileSystem, str]:
        files, base = filesystem(self.root)
        return files, base.rstrip("/")

    def _mapped[A, B](self, function: Callable[[A], B], every: Sequence[A]) -> list[B]:
        with ThreadPoolExecutor(CONNECTIONS) as readers:
            return list(readers.map(function, every))

    def _rows_of_file(self, path: str, column: str, values: list[str | bytes]) -> Iterator[dict[str, Any]]:
        """Other columns are read of those row groups alone in which the value was found."""
        with self._opened(path) as file:
            for group in _candidates(file.metadata, column, values):
                narrow = file.read_row_group(group, columns=[column]).column(column)
                hits = pc.is_in(narrow, array_of(values, narrow.type))
                if pc.any(hits).as_py():
                    yield from file.read_row_group(group).filter(hits).to_pylist()

    def _changes_naming(self, path: str, keys: pa.Array) -> pa.Table:
        """The rows of a file of rules in which one of these keys occurs."""
        lists = self._table(path, [_RULE_KEYS]).column(0).combine_chunks()
        hits = pc.is_in(lists.flatten().field("key"), keys)
        rows = pc.unique(pc.filter(pc.list_parent_indices(lists), hits))
        return self._table(path).take(rows) if len(rows) else pa.table({})

    def _table(self, path: str, columns: list[str] | None = None) -> pa.Table:
        with self._opened(path) as file:
            return file.read(columns=columns)

    def _opened(self, path: str) -> pq.ParquetFile:
        files, base = self._place
        return pq.ParquetFile(f"{base}/{path}", filesystem=files)

    def events[E: Event](self, model: type[E], rows: Iterable[dict[str, Any]]) -> Iterator[E]:
        """The rows as events, but those with a word that is not known here: a later release may have committed them."""
        for row in rows:
            try:
                yield of_row(model, row)
            except ValidationError:
                self._note_unreadable(str(row).encode())

    def _pending[E: Event, T](
        self, model: type[E], values: Collection[Sought], arrived: Period, pick: Callable[[E], T | None]
    ) -> list[T]:
        """What `pick` makes of the pending files' events of a kind that hold one of a few values, or may hold one of many."""
        texts = [_text(value) for value in values] if len(values) <= FEW else []

        def picked(path: str) -> list[T]:
            lines = self._lines.of_kind(path, kind_of(model).encode())
            of_value = (line for line in lines if not texts or any(text in line for text in texts))
            events = (event for line in of_value if (event := self._parsed(model, line)))
            return [found for event in events if (found := pick(event)) is not None]

        paths = [path for some in self.coverage.pending(arrived).values() for path in some]
        return list(chain.from_iterable(self._mapped(picked, paths)))

    def _parsed[E: Event](self, model: type[E], line: bytes) -> E | None:
        """None of what can't be read."""
        with suppress(ValidationError):
            event = model.model_validate_json(line)
            if event.network in NETWORKS:
                return event
        self._note_unreadable(line)
        return None

    def _note_unreadable(self, line: bytes) -> None:
        self.unreadable.add(sha256(line).digest())


def kind_of(model: type[Event]) -> str:
    """The word in a line's `event`, which is the name of its kind."""
    return str(model.model_fields["event"].default)


def of_row[E: Event](model: type[E], row: dict[str, Any]) -> E:
    """What is null in Parquet is absent from a line."""
    known = {_EVENT_NAMES.get(name, name): value for name, value in row.items() if value is not None}
    return model.model_validate(known)


def array_of(values: Collection[str | bytes], kind: pa.DataType) -> pa.Array:
    """Texts or bytes, in the layout that Arrow defines for both: where each begins, and the last ends, and all of them.

    PyArrow's own `array` imports pandas first, which takes as long as an answer.
    https://arrow.apache.org/docs/format/Columnar.html#variable-size-binary-layout
    """
    each = [value.encode() if isinstance(value, str) else value for value in values]
    ends = array("i", accumulate(map(len, each), initial=0))
    return pa.Array.from_buffers(kind, len(each), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(each))])


def _has_key(name: str, raw: bytes | None, keys: Collection[bytes]) -> bool:
    """Whether an envelope, as its network shows it, has one of these keys."""
    try:
        return raw is not None and not set(network(name).decode(raw).keys).isdisjoint(keys)
    except Malformed:
        return False


def _candidates(metadata: pq.FileMetaData, column: str, values: Collection[str | bytes]) -> Iterator[int]:
    """The row groups that can have one of the values, by their statistics."""
    place = metadata.schema.names.index(column)
    for group in range(metadata.num_row_groups):
        known = metadata.row_group(group).column(place).statistics
        if known is None or not known.has_min_max or any(known.min <= value <= known.max for value in values):
            yield group


def _reduced(change: RulesChanged, keys: Collection[bytes]) -> RulesChanged | None:
    """None if it has none of them."""
    rules = tuple(rule for rule in change.rules if rule.key in keys)
    return change.model_copy(update={"rules": rules}) if rules else None


def _text(value: Sought) -> bytes:
    """As a line has it."""
    return value.hex().encode() if isinstance(value, bytes) else str(value).encode()
