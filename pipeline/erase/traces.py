"""What of a file is a client's, and the file without it."""

import gzip
import io
import json
import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, reduce
from itertools import filterfalse
from uuid import UUID

import pyarrow as pa
from pyarrow import compute as pc

from clarion.deliveries import without
from pipeline.columns import VERSION, EventKind
from pipeline.lake.raw import MAX_LINE_BYTES, bounded, is_cut, is_gzip, lines_of, unpacked

MESSAGE, LINE = "message", "value"
"""Columns of text that may say whose a row is: the message of a replay's plan, and an unreadable line."""
CLIENT, SUBSCRIPTION, SENDER = "client_id", "subscription_id", "sender"
ERASED = b"erased"
CLIENT_BYTES = (16, 32)
"""How long clients' ids are: a Zulip server's, which is a UUID, and those of all other networks."""
_KINDS = tuple(EventKind)
_PARQUET = b"PAR1"
"""https://parquet.apache.org/docs/file-format/"""
_ID = re.compile(rb"\b(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?:[0-9a-f]{32}){1,2})\b")
"""What may be an id in a text: a whole word, so that none is found in a longer one, such as its sender's in a rule's key."""


@dataclass(frozen=True)
class Traces:
    """How a client is known: by its id, and by the ids of its subscriptions. As a sender it is none of its receivers'.

    Raises `ValueError` for an id that no network's client can have.
    """

    client: bytes
    subscriptions: frozenset[UUID] = field(default_factory=frozenset)

    def __post_init__(self) -> None:
        if len(self.client) not in CLIENT_BYTES:
            raise ValueError(f"a client's id has {' or '.join(map(str, CLIENT_BYTES))} bytes")

    def with_subscriptions(self, more: Iterable[UUID]) -> "Traces":
        return Traces(self.client, self.subscriptions.union(more))

    @cached_property
    def texts(self) -> tuple[str, ...]:
        return self.client.hex(), *map(str, sorted(self.subscriptions))

    @cached_property
    def words(self) -> frozenset[bytes]:
        """The ids as they stand in a text."""
        return frozenset(text.encode() for text in self.texts)

    def count(self, text: bytes) -> int:
        """How often one of the ids stands in it."""
        return sum(word in self.words for word in _ID.findall(text))

    def columns(self, schema: pa.Schema) -> list[str]:
        """Those by which rows of this schema may be the client's."""
        return [name for name in schema.names if name in {CLIENT, SUBSCRIPTION, MESSAGE, LINE}]

    def rows(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Which rows are the client's; `batch` has one of `columns` at least."""
        found = [self._rows(name, batch.column(name)) for name in self.columns(batch.schema)]
        return pc.fill_null(reduce(pc.or_kleene, found), False)

    def subscriptions_in(self, content: bytes) -> set[UUID]:
        """Those that a file of the stream says are the client's."""
        own = (_parsed(line) for line in _lines(content) if self.texts[0].encode() in line)
        ids = (event.get(SUBSCRIPTION) for event in own if event.get(CLIENT) == self.texts[0])
        return set(uuids(ids))

    def without_lines(self, content: bytes) -> tuple[bytes, int]:
        """A file of the stream without the client's lines, and how many it had of them."""
        return _filtered(content, self._has_line)

    def without_failed(self, content: bytes) -> tuple[bytes, int]:
        """A file of what Firehose could not write, without the records that hold a line of the client's or name it."""
        return _filtered(content, self._has_failed)

    def without_texts(self, content: bytes) -> tuple[bytes, int]:
        """A file of any other form with each of the client's ids blotted out. Raises `ValueError` of Parquet and of a bomb."""
        if content.startswith(_PARQUET):
            raise ValueError("is Parquet, but has another name")
        plain = bounded(content).read()
        found = self.count(plain)
        kept = _ID.sub(lambda word: ERASED if word[0] in self.words else word[0], plain)
        return (_packed_as(content, [kept]) if found else content), found

    def without_records(self, content: bytes) -> tuple[bytes, int]:
        """An object of the index of deliveries without the client's."""
        return without(content, self.subscriptions)

    def _rows(self, name: str, column: pa.Array) -> pa.BooleanArray:
        if name == CLIENT:
            return pc.equal(column, pa.scalar(self.client, column.type))
        if name == SUBSCRIPTION:
            return pc.is_in(column, pa.array(sorted(map(str, self.subscriptions)), column.type))
        is_own = self._has_line if name == LINE else self._is_to
        return pa.array([is_own((text or "").encode()) for text in column.to_pylist()], pa.bool_())

    def _has_line(self, line: bytes) -> bool:
        """Whether an event is the client's; what nobody here can read is, if it names it otherwise than as its sender."""
        if not (named := self.count(line)):
            return False
        event = _parsed(line)
        if _is_readable(event):
            return self._has_event(event)
        return named > (event.get(SENDER) == self.texts[0])

    def _has_failed(self, record: bytes) -> bool:
        return self.count(record) > 0 or any(map(self._has_line, _failed_lines(record)))

    def _is_to(self, message: bytes) -> bool:
        """Whether a push's recipient is the client."""
        return self.count(message) > 0 and self._has_event(_parsed(message))

    def _has_event(self, event: Mapping[str, object]) -> bool:
        """By its fields, as a row is: where else an id stands in it, it is somebody else's."""
        return event.get(CLIENT) == self.texts[0] or str(event.get(SUBSCRIPTION)).encode() in self.words


def uuids(texts: Iterable[object]) -> Iterator[UUID]:
    """Of texts that may be none."""
    for text in texts:
        with suppress(ValueError):
            yield UUID(str(text))


def count_lines(content: bytes) -> int:
    """As `compact` counts them."""
    return sum(bool(line.strip()) for line in _lines(content))


def _parsed(line: bytes) -> dict[str, object]:
    """Empty if it is no event."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return event if isinstance(event, dict) else {}


def _is_readable(event: Mapping[str, object]) -> bool:
    """Whether its fields say whose it is, in texts."""
    known = event.get("event") in _KINDS and event.get("version") == VERSION
    return known and all(isinstance(event.get(name, ""), str) for name in (CLIENT, SUBSCRIPTION))


def _lines(content: bytes) -> Iterator[bytes]:
    """Raises `ValueError` of a line that is too long to be looked through."""
    for line in lines_of(unpacked(content)):
        if is_cut(line):
            raise ValueError(f"has a line of more than {MAX_LINE_BYTES} bytes")
        yield line


def _filtered(content: bytes, is_own: Callable[[bytes], bool]) -> tuple[bytes, int]:
    """A file of lines without some, compressed as it was; line by line, as it may unpack to any size."""
    if not (removed := sum(map(is_own, _lines(content)))):
        return content, 0
    return _packed_as(content, filterfalse(is_own, _lines(content))), removed


def _packed_as(content: bytes, parts: Iterable[bytes]) -> bytes:
    """Compressed if `content` is."""
    if not is_gzip(content):
        return b"".join(parts)
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as stream:
        stream.writelines(parts)
    return packed.getvalue()


def _failed_lines(record: bytes) -> list[bytes]:
    """The lines that Firehose could not write, by https://docs.aws.amazon.com/firehose/latest/dev/retry.html."""
    try:
        return b64decode(json.loads(record)["rawData"]).splitlines()
    except (ValueError, LookupError, TypeError, RecursionError):
        return []
