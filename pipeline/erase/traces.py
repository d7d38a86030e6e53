"""What of a file is a client's, and the file without it."""

import gzip
import json
from base64 import b64decode
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property, reduce
from uuid import UUID

import pyarrow as pa
from pyarrow import compute as pc

from clarion.deliveries import without
from pipeline.columns import EventKind

TEXTS = ("message", "value")
"""Columns of text that may hold an id: of a plan's message, and of an unreadable line."""
CLIENT, SUBSCRIPTION = "client_id", "subscription_id"
ERASED = b"erased"
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True)
class Traces:
    """How a client is known: by its id, and by the ids of its subscriptions. As a sender it is none of its receivers'."""

    client: bytes
    subscriptions: frozenset[UUID] = field(default_factory=frozenset)

    def with_subscriptions(self, more: Iterable[UUID]) -> "Traces":
        return Traces(self.client, self.subscriptions.union(more))

    @cached_property
    def texts(self) -> tuple[str, ...]:
        return self.client.hex(), *map(str, sorted(self.subscriptions))

    @cached_property
    def in_bytes(self) -> tuple[bytes, ...]:
        return tuple(text.encode() for text in self.texts)

    def columns(self, schema: pa.Schema) -> list[str]:
        """Those by which rows of this schema may be the client's."""
        return [name for name in schema.names if name in {CLIENT, SUBSCRIPTION, *TEXTS}]

    def rows(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Which rows are the client's; `batch` has one of `columns` at least."""
        found = [self._rows(name, batch.column(name)) for name in self.columns(batch.schema)]
        return pc.fill_null(reduce(pc.or_kleene, found), False)

    def without_lines(self, content: bytes) -> tuple[bytes, int]:
        """A file of the stream without the client's lines, and how many it had of them."""
        return _filtered(content, self._has_line)

    def without_failed(self, content: bytes) -> tuple[bytes, int]:
        """A file of what Firehose could not write, without the records in which one of the client's ids stands."""
        return _filtered(content, lambda line: any(text in _failed_record(line) for text in self.in_bytes))

    def without_texts(self, content: bytes) -> tuple[bytes, int]:
        """A text for people with each of the client's ids blotted out; what is no text stays as it is."""
        found = sum(content.count(text) for text in self.in_bytes) if _is_text(content) else 0
        return (
            reduce(lambda page, text: page.replace(text, ERASED), self.in_bytes, content) if found else content
        ), found

    def without_records(self, content: bytes) -> tuple[bytes, int]:
        """An object of the index of deliveries without the client's."""
        return without(content, self.subscriptions)

    def _rows(self, name: str, column: pa.Array) -> pa.BooleanArray:
        if name == CLIENT:
            return pc.equal(column, pa.scalar(self.client, column.type))
        if name == SUBSCRIPTION:
            return pc.is_in(column, pa.array(sorted(map(str, self.subscriptions)), column.type))
        return reduce(pc.or_kleene, (pc.match_substring(column, text) for text in self.texts))

    def _has_line(self, line: bytes) -> bool:
        """Whether an event is the client's; what nobody here can read is if one of its ids stands in it."""
        if not any(text in line for text in self.in_bytes):
            return False
        try:
            event = json.loads(line)
            is_known, columns = event["event"] in set(EventKind), (event.get(CLIENT), event.get(SUBSCRIPTION))
        except (ValueError, LookupError, TypeError, AttributeError):
            return True
        return not is_known or any(column in self.texts for column in columns)


def unzipped(content: bytes) -> bytes:
    return gzip.decompress(content) if content.startswith(_GZIP) else content


def _filtered(content: bytes, is_own: Callable[[bytes], bool]) -> tuple[bytes, int]:
    """A file of lines without some, compressed as it was."""
    lines = unzipped(content).splitlines(keepends=True)
    kept = [line for line in lines if not is_own(line)]
    if len(kept) == len(lines):
        return content, 0
    plain = b"".join(kept)
    return gzip.compress(plain, mtime=0) if content.startswith(_GZIP) else plain, len(lines) - len(kept)


def _is_text(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def _failed_record(line: bytes) -> bytes:
    """https://docs.aws.amazon.com/firehose/latest/dev/retry.html has its fields; what isn't such a line is its own."""
    try:
        return line + b64decode(json.loads(line)["rawData"])
    except (ValueError, LookupError, TypeError):
        return line
