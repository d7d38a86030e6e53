"""Finds what the lake has recorded of one envelope, going back through it hour by hour."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Annotated, NamedTuple
from uuid import UUID

from pydantic import Field, TypeAdapter, ValidationError

from clarion.decisions import NotificationDecision
from clarion.events import EnvelopeDecided, EnvelopeObserved, NotificationDecided, PushTried
from clarion.networks import Malformed, network
from console.lake import READERS, File, Lake, hours_back
from console.output import Progress

type TracedEvent = EnvelopeObserved | EnvelopeDecided | NotificationDecided | PushTried

_LINE: TypeAdapter[TracedEvent] = TypeAdapter(
    Annotated[EnvelopeObserved | EnvelopeDecided | NotificationDecided | PushTried, Field(discriminator="event")]
)
_OBSERVED = b'"event":"observed"'
CLOCKS = timedelta(minutes=5)
"""How far the clocks of those who write to the lake and of the lake itself may be apart."""


@dataclass
class Tracks:
    """All `records` of an envelope, each once, in the order of its time; `unreadable` lines are of a newer Clarion."""

    envelope_id: bytes
    files: int = 0
    unreadable: int = 0
    back_to: datetime | None = None
    _records: dict[tuple[object, ...], TracedEvent] = field(default_factory=dict)
    _oversized: dict[UUID, EnvelopeObserved] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return len(self._records)

    def knows(self, record: TracedEvent) -> bool:
        """Whether a line that records the same was added."""
        return _key(record) in self._records

    @property
    def records(self) -> list[TracedEvent]:
        receipts = {one.receipt for one in self._records.values()}
        oversized = (one for receipt, one in self._oversized.items() if receipt in receipts)
        every = {_key(one): one for one in oversized} | self._records
        return sorted(every.values(), key=lambda one: one.at)

    @property
    def began_at(self) -> datetime | None:
        """When the envelope was first observed; None as long as that isn't known of each receipt."""
        every = self._records.values()
        dated = [(began, one.receipt) for one in every if (began := observed_at(one)) is not None]
        if not dated or {receipt for _, receipt in dated} != {one.receipt for one in every}:
            return None
        return datetime.fromtimestamp(min(began for began, _ in dated) / 1000, UTC)

    @property
    def has_forerunner(self) -> bool:
        """Whether somebody claimed the envelope before all that was found: a duplicate of what?"""
        decided = [one for one in self._records.values() if isinstance(one, NotificationDecided)]
        claimed = {one.subscription_id for one in decided if one.decision is NotificationDecision.QUEUED}
        doubled = {one.subscription_id for one in decided if one.decision is NotificationDecision.DUPLICATE}
        return not doubled <= claimed

    def add(self, found: "Found") -> None:
        self.files += 1
        self.unreadable += found.unreadable
        for one in found.records:
            if isinstance(one, EnvelopeObserved) and one.raw is None:
                self._oversized.setdefault(one.receipt, one)
                continue
            known = self._records.setdefault(_key(one), one)
            if one.at < known.at:
                self._records[_key(one)] = one

    def complete(self, hour: datetime) -> bool:
        """Whether no hour before `hour` can hold more: nothing arrives before it was observed."""
        return self.began_at is not None and self.began_at - CLOCKS >= hour and not self.has_forerunner


class Found(NamedTuple):
    """What one file holds of an envelope, with all oversized ones, whose id stands in other records."""

    records: list[TracedEvent]
    unreadable: int


def follow(lake: Lake, envelope_id: bytes, since: datetime, until: datetime, shown: Progress) -> Tracks:
    """From `until` back to `since` at most; times of arrival."""
    tracks = Tracks(envelope_id)
    with ThreadPoolExecutor(READERS) as readers:
        for hour in hours_back(since, until):
            files = lake.files(hour)
            found = readers.map(lambda file: scan(lake, file, envelope_id), files)
            for done, one in enumerate(found, 1):
                tracks.add(one)
                shown.at(f"{hour:%Y-%m-%d %H}h", done, len(files))
            tracks.back_to = hour
            if tracks.complete(hour):
                break
    return tracks


def scan(lake: Lake, file: File, envelope_id: bytes) -> Found:
    found: list[TracedEvent] = []
    unreadable = 0
    for line in _candidates(lake.lines(file), envelope_id):
        record = read_line(line)
        if record is None:
            unreadable += 1
        elif _concerns(record, envelope_id):
            found.append(record)
    return Found(found, unreadable)


def read_line(line: bytes) -> TracedEvent | None:
    """None for an event of another kind, and for what a newer Clarion wrote."""
    try:
        return _LINE.validate_json(line)
    except ValidationError:
        return None


def _candidates(lines: Iterable[bytes], envelope_id: bytes) -> Iterator[bytes]:
    """Cheaply: most lines are of other envelopes."""
    digits = envelope_id.hex().encode()
    return (line for line in lines if digits in line or _OBSERVED in line)


def _concerns(record: TracedEvent, envelope_id: bytes) -> bool:
    if isinstance(record, EnvelopeObserved):
        return record.raw is None or id_of(record.network, record.raw) == envelope_id
    return record.envelope_id == envelope_id


def id_of(name: str, raw: bytes) -> bytes | None:
    """None for bytes that are no envelope."""
    try:
        return network(name).decode(raw).id
    except Malformed:
        return None


def _key(record: TracedEvent) -> tuple[object, ...]:
    """Two lines with the same key record the same thing: queues and the stream deliver at least once."""
    match record:
        case EnvelopeObserved():
            return record.event, record.receipt
        case EnvelopeDecided():
            return record.event, record.receipt, record.decision
        case NotificationDecided():
            return record.event, record.receipt, record.subscription_id, record.decision
        case PushTried():
            return record.event, record.receipt, record.subscription_id, record.attempt, record.at


def observed_at(record: TracedEvent) -> int | None:
    match record:
        case EnvelopeObserved() | EnvelopeDecided():
            return record.observed_at
        case PushTried():
            return record.at - record.latency_ms
        case NotificationDecided():
            return None
