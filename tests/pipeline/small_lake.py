"""A lake of a few events, written without Spark: as the stream's lines, or committed as Parquet."""

import gzip
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from operator import itemgetter
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import sr25519
from pyarrow import parquet as pq
from pyspark.sql.pandas.types import to_arrow_schema

from clarion.channels import Channel
from clarion.decisions import EnvelopeDecision, NotificationDecision, PushDecision, SubscriptionStatus
from clarion.events import EnvelopeDecided, EnvelopeObserved, Event, NotificationDecided, PushTried
from clarion.networks import STATEMENTS, Rule, network
from clarion.networks.statements import signature
from clarion.networks.statements.codec import Statement, encode
from clarion.subscription_events import RuleRef, RulesChanged, SubscriptionChanged
from pipeline.columns import EventKind, file_name
from pipeline.lake.commits import (
    Kinds,
    LakeView,
    Manifest,
    commit,
    data_folder,
    merged,
    new_commit,
    read_manifest,
    update,
)
from pipeline.lake.event_lake import EventLake
from pipeline.lake.files import filesystem, joined, listed
from pipeline.lake.lookup import kind_of
from pipeline.lake.parquet import DataFile, write_parquet
from pipeline.lake.schemas import SCHEMAS
from pipeline.period import HOUR_MS, Period, hour_path

START = 1_790_000_000_000 // HOUR_MS * HOUR_MS
CLIENT, OTHER = b"c" * 32, b"d" * 32
PHONE, TABLET = UUID(int=1), UUID(int=2)
"""Subscriptions."""
TOPIC = b"t" * 32


class SmallLake:
    """At a path or a URI."""

    def __init__(self, root: Path | str) -> None:
        self.root = str(root)
        self._names = count()

    def stream(self, *events: Event, at: int | None = None) -> str:
        """One file of the stream in the hour of the first event; returns its path, relative to the root."""
        day, _, hour = hour_path(events[0].at if at is None else at).partition("/")
        path = f"events/day={day}/hour={hour}/{next(self._names)}.gz"
        self._write(path, gzip.compress(b"".join(event.to_line() for event in events)))
        return path

    def commit(self, *events: Event, at: int | None = None) -> Manifest:
        """Both: the stream's file, and Parquet of it, for the hour of the first event."""
        return self.compact(self.stream(*events, at=at), *events, at=at)

    def compact(self, path: str, *events: Event, at: int | None = None) -> Manifest:
        """Parquet of what a file of the stream has, for the hour of its first event."""
        hour = hour_path(events[0].at if at is None else at)
        raw = DataFile(path, len(events), 0, "")
        before, new = read_manifest(self.root, hour), new_commit()
        known = before or Manifest(hour, "")
        kinds = dict(known.kinds)
        for kind, rows in _by_kind(events).items():
            file = _data_file(self.root, EventKind(kind), hour, new, rows)
            kinds[kind] = (*kinds.get(kind, ()), file)
        manifest = replace(known, commit=new, sealed_at=START, raw=(*known.raw, raw), kinds=kinds)
        commit(self.root, manifest, known.commit or None)
        return manifest

    def texts(self) -> Iterator[tuple[str, bytes]]:
        """Every file below the root, with its content: unzipped, and of Parquet its rows as well."""
        files, base = filesystem(self.root)
        for path in sorted(listed(self.root, "")):
            with files.open_input_stream(joined(base, path), compression=None) as stream:
                content = stream.read()
            if path.endswith(".parquet"):
                content += repr(pq.read_table(pa.BufferReader(content)).to_pylist()).encode()
            yield path, gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content

    def _write(self, path: str, content: bytes) -> None:
        files, place = filesystem(joined(self.root, path))
        files.create_dir(place.rpartition("/")[0])
        with files.open_output_stream(place, compression=None) as stream:
            stream.write(content)


class Way:
    """What the components record of one receipt of a statement, each a tenth of a second after the other."""

    def __init__(self, began: int = START, number: int = 1, raw: bytes | None = None) -> None:
        self.receipt = UUID(int=1_000 + number)
        self.began = self.at = began
        self.raw = statement(number) if raw is None else raw
        decoded = network(STATEMENTS).decode(self.raw)
        self.envelope_id, self.sender, self.key = decoded.id, decoded.sender, decoded.keys[0]

    def observed(self) -> EnvelopeObserved:
        return EnvelopeObserved(observed_at=self.began, raw=self.raw, **self._known())

    def envelope(self, decision: EnvelopeDecision = EnvelopeDecision.MATCHED) -> EnvelopeDecided:
        return EnvelopeDecided(decision=decision, observed_at=self.began, sender=self.sender, **self._decided())

    def notification(
        self, decision: NotificationDecision = NotificationDecision.QUEUED, to: UUID = PHONE, client: bytes = CLIENT
    ) -> NotificationDecided:
        return NotificationDecided(
            decision=decision, subscription_id=to, client_id=client, channel=Channel.APNS, sender=self.sender,
            key=self.key, judged_at=self.began, **self._decided(),
        )  # fmt: skip

    def push(
        self, decision: PushDecision = PushDecision.DELIVERED, to: UUID = PHONE, latency_ms: int = 300
    ) -> PushTried:
        return PushTried(
            decision=decision, subscription_id=to, channel=Channel.APNS, attempt=1, latency_ms=latency_ms,
            **self._decided(),
        )  # fmt: skip

    def delivered(self) -> list[Event]:
        return [self.observed(), self.envelope(), self.notification(), self.push()]

    def _known(self) -> dict[str, Any]:
        self.at += 100
        return {"network": STATEMENTS, "at": self.at, "receipt": self.receipt}

    def _decided(self) -> dict[str, Any]:
        return {**self._known(), "envelope_id": self.envelope_id}


type LakeRow = tuple[Any, ...]
"""In the order of its kind's columns, of which the first is its time."""


def write_rows(
    lake: EventLake, kind: EventKind, rows: Iterable[LakeRow], arrived: Callable[[LakeRow], int] = itemgetter(0)
) -> None:
    """As `EventLake.write`, without Spark: replace the kind in the hours in which any of the rows has `arrived`."""
    by_hour: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        by_hour[hour_path(arrived(row))].append(dict(zip(SCHEMAS[kind].names, row, strict=True)))
    for hour, some in by_hour.items():
        files = (_data_file(lake.root, kind, hour, new_commit(), some),)
        update(lake.root, hour, partial(_with_kind, kind=kind, files=files))
    lake.view.refresh()


def add_files(root: str, hour: str, kinds: Kinds) -> None:
    """As another commit would, whichever comes first."""
    update(root, hour, lambda known: replace(known, kinds=merged(known.kinds, kinds)))


def data_paths(root: str, kind: str, period: Period) -> list[str]:
    """Whole paths of the files that count, in order of their hours."""
    return [joined(root, each.path) for each in LakeView(root).files(kind, period)]


def statement(number: int, *, sender: int = 1, expires_at: int = (1 << 32) - 1) -> bytes:
    """A signed one of the topic `TOPIC`."""
    unsigned = Statement(expiry=expires_at << 32 | number, topics=(TOPIC,), data=b"hello", channel=None)
    return encode(signature.sign(unsigned, sr25519.pair_from_seed(sender.to_bytes(32))))


def subscribed(
    to: UUID = PHONE, client: bytes = CLIENT, at: int = START - HOUR_MS, **others: Any
) -> SubscriptionChanged:
    changed = {"status": SubscriptionStatus.ACTIVE, "generation": 1, "revision": 1} | others
    return SubscriptionChanged(
        network=STATEMENTS, at=at, subscription_id=to, client_id=client, channel=Channel.APNS, **changed
    )


def ruled(key: bytes, to: UUID = PHONE, at: int = START - HOUR_MS) -> RulesChanged:
    rule = RuleRef.of(Rule(key), secret=False)
    return RulesChanged(
        network=STATEMENTS, at=at, change="added", subscription_id=to, generation=1, revision=1, rules=(rule,)
    )


def _data_file(root: str, kind: EventKind, hour: str, new: str, rows: Sequence[Mapping[str, Any]]) -> DataFile:
    batch = pa.RecordBatch.from_pylist(rows, schema=to_arrow_schema(SCHEMAS[kind]))
    named = batch.rename_columns([file_name(column) for column in batch.column_names])
    return write_parquet(root, data_folder(kind, hour, new), [named])


def _with_kind(known: Manifest, kind: EventKind, files: tuple[DataFile, ...]) -> Manifest:
    return replace(known, kinds={**known.kinds, kind: files})


def _by_kind(events: Iterable[Event]) -> Mapping[str, list[dict[str, Any]]]:
    kinds: dict[str, list[dict[str, Any]]] = {}
    for event in events:
        kinds.setdefault(kind_of(type(event)), []).append(_row(event))
    return kinds


def _row(event: Event) -> dict[str, Any]:
    return {name: _value(getattr(event, name)) for name in type(event).model_fields}


def _value(value: object) -> object:
    match value:
        case UUID():
            return str(value)
        case tuple():
            return [vars(rule) for rule in value]
    return value
