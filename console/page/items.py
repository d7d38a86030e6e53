"""The way of each item, drawn from the lake's events: at which station it is, and by which decisions it came there."""

import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import batched
from threading import Lock
from typing import Any

from clarion.channels import Channel
from clarion.decisions import EnvelopeDecision, NotificationDecision, PushDecision
from clarion.events import EnvelopeDecided, EnvelopeObserved, NotificationDecided
from clarion.networks import NETWORKS
from console.output import Report
from console.tracks import Found, TracedEvent, Tracks, id_of, observed_at, read_line
from console.why import OBSERVED, Why, report

KEPT_ITEMS = 2_000
ITEMS_AT_ONCE = 100
KEPT_BYTES = 16_000_000
"""Of all items' lines; in memory they take some times as much."""
KEPT_STEPS = 500
"""Of one item, one by one. A crowd's further ones are counted, twice if they are in the lake twice."""
_LAST_MS = 253_402_300_799_000
"""The end of the year 9999, the last that Python and browsers both know, in UNIX milliseconds."""
_OTHER_KINDS = re.compile(rb'\{.*"event":"(?:limits|subscription|rules)"', re.DOTALL)


class UnreadableLine(Exception):  # noqa: N818 - it names what was received
    """It is of no kind that this Clarion writes."""


class Station(StrEnum):
    """In the order of the way."""

    SOURCE = "source"
    ENVELOPES = "envelopes"
    MATCH = "match"
    ADMISSION = "admission"
    PUSHES = "pushes"
    DISPATCH = "dispatch"
    PHONE = "phone"


class Fate(StrEnum):
    """Whether a decision lets an item go on."""

    ARRIVED = "arrived"
    UNDER_WAY = "under_way"
    WAITING = "waiting"
    ENDED = "ended"


_ORDER = {station: place for place, station in enumerate(Station)}
STATIONS: dict[str, tuple[Station, Fate]] = {
    OBSERVED: (Station.ENVELOPES, Fate.UNDER_WAY),
    **dict.fromkeys(EnvelopeDecision, (Station.MATCH, Fate.ENDED)),
    EnvelopeDecision.MATCHED: (Station.MATCH, Fate.UNDER_WAY),
    **dict.fromkeys(NotificationDecision, (Station.ADMISSION, Fate.ENDED)),
    NotificationDecision.QUEUED: (Station.PUSHES, Fate.UNDER_WAY),
    **dict.fromkeys(PushDecision, (Station.DISPATCH, Fate.ENDED)),
    PushDecision.RETRY: (Station.DISPATCH, Fate.WAITING),
    PushDecision.MISCONFIGURED: (Station.DISPATCH, Fate.WAITING),
    PushDecision.DELIVERED: (Station.PHONE, Fate.ARRIVED),
    PushDecision.COALESCED: (Station.PHONE, Fate.ARRIVED),
    PushDecision.RECEIVED: (Station.PHONE, Fate.ARRIVED),
}
"""By each word of the decisions: how far the item has come with it, and whether it goes on."""


class Mark(Report):
    """One decision; `at` in UNIX milliseconds. `count` subscriptions had it by this channel."""

    word: str
    station: Station
    fate: Fate
    at: int
    channel: Channel | None
    count: int = 1


class PageItem(Report):
    """`began` is when it was observed, in UNIX milliseconds; without an envelope it is known by its receipt alone."""

    key: str
    network: str
    envelope_id: str | None
    sender: str | None
    began: int
    marks: list[Mark]


class RecentItems:
    """The newest items, by their keys. Several threads may use them.

    `unreadable` counts the lines that are damaged, or that a newer Clarion wrote.
    """

    def __init__(self) -> None:
        self.unreadable = 0
        self._ways: OrderedDict[str, _Way] = OrderedDict()
        self._size = 0
        self._lock = Lock()

    def add(self, lines: Iterable[bytes]) -> list[PageItem]:
        """Those that these lines of the lake change."""
        with self._lock:
            keys = [key for line in lines if (key := self._take(line))]
            return [self._ways[key].item(key) for key in dict.fromkeys(keys) if key in self._ways]

    def snapshot(self) -> list[list[dict[str, Any]]]:
        """All, the oldest first, as the data of events of a bounded size."""
        with self._lock:
            items = [way.item(key) for key, way in self._ways.items()]
        return [[item.model_dump(mode="json") for item in some] for some in batched(items, ITEMS_AT_ONCE, strict=False)]

    def report(self, key: str) -> Why | None:
        """As `clarion why`, from what is kept."""
        now = datetime.now(UTC)
        with self._lock:
            way = self._ways.get(key)
            return way.report(now) if way else None

    def _take(self, line: bytes) -> str | None:
        try:
            record = readable(line)
            key = _key(record) if record else None
        except Exception:  # noqa: BLE001 - whatever is wrong with one line, the others are shown
            self.unreadable += 1
            return None
        if record and key:
            self._put(key, record, len(line))
        return key

    def _put(self, key: str, record: TracedEvent, size: int) -> None:
        if key not in self._ways:
            self._ways[key] = _Way(Tracks(bytes.fromhex(key)))
        if isinstance(record, EnvelopeObserved):
            # What it is has been read; nobody asks for it again.
            record, size = record.model_copy(update={"raw": b""}), 0
        if self._ways[key].add(record, size):
            self._size += size
        while len(self._ways) > KEPT_ITEMS or (self._size > KEPT_BYTES and len(self._ways) > 1):
            _, oldest = self._ways.popitem(last=False)
            self._size -= oldest.size


@dataclass
class _Way:
    """What is known of one item: its first steps one by one, and how often each word came after them."""

    tracks: Tracks
    size: int = 0
    further: dict[tuple[str, Channel | None], Mark] = field(default_factory=dict)
    drawn: PageItem | None = None
    """Until more comes."""

    def add(self, record: TracedEvent, size: int) -> bool:
        """Return whether it was new, and is kept whole."""
        self.drawn = None
        if self.tracks.knows(record) or self.tracks.count < KEPT_STEPS:
            known = self.tracks.count
            self.tracks.add(Found([record], 0))
            added = self.tracks.count > known
            self.size += size if added else 0
            return added
        mark = _mark(record)
        before = self.further.get((mark.word, mark.channel))
        count = 1 + (before.count if before else 0)
        self.further[mark.word, mark.channel] = (before or mark).model_copy(update={"count": count})
        return False

    def item(self, key: str) -> PageItem:
        self.drawn = self.drawn or _item(key, self.tracks.records, self.further)
        return self.drawn

    def report(self, now: datetime) -> Why:
        made = report(self.tracks, None, now - timedelta(hours=1), now)
        further = sum(mark.count for mark in self.further.values())
        words = f"{further} steps more are only counted here: `clarion why` has them."
        return made.model_copy(update={"summary": [*made.summary, words]}) if further else made


def _item(key: str, records: Sequence[TracedEvent], further: Mapping[tuple[str, Channel | None], Mark]) -> PageItem:
    began = min((at for one in records if (at := observed_at(one)) is not None), default=records[0].at)
    envelope = next((key for one in records if _has_envelope(one)), None)
    senders = (one.sender for one in records if isinstance(one, EnvelopeDecided | NotificationDecided))
    sender = next((sender for sender in senders if sender), None)
    return PageItem(
        key=key,
        network=records[0].network,
        envelope_id=envelope,
        sender=sender.hex() if sender else None,
        began=began,
        marks=_marks(records, further),
    )


def _marks(records: Iterable[TracedEvent], further: Mapping[tuple[str, Channel | None], Mark]) -> list[Mark]:
    """A crowd's decisions come as one mark for each word and channel, with the time of the first."""
    made: dict[tuple[str, Channel | None], Mark] = {}
    for mark in [*map(_mark, records), *further.values()]:
        before = made.get((mark.word, mark.channel))
        summed = before.model_copy(update={"count": before.count + mark.count}) if before else mark
        made[mark.word, mark.channel] = summed
    return sorted(made.values(), key=lambda mark: (_ORDER[mark.station], mark.at))


def _mark(record: TracedEvent) -> Mark:
    word = _word(record)
    station, fate = STATIONS[word]
    at = record.observed_at if isinstance(record, EnvelopeObserved) else record.at
    return Mark(word=word, station=station, fate=fate, at=at, channel=getattr(record, "channel", None))


def _word(record: TracedEvent) -> str:
    return OBSERVED if isinstance(record, EnvelopeObserved) else str(record.decision)


def _has_envelope(record: TracedEvent) -> bool:
    return isinstance(record, EnvelopeObserved) or record.envelope_id is not None


def _key(record: TracedEvent) -> str | None:
    """None for an observed envelope whose bytes lie elsewhere: what is decided of it names it."""
    if isinstance(record, EnvelopeObserved):
        envelope_id = id_of(record.network, record.raw) if record.raw is not None else None
        return envelope_id.hex() if envelope_id else None
    return (record.envelope_id or record.receipt.bytes).hex()


def readable(line: bytes) -> TracedEvent | None:
    """None for an event of another kind. Raises `UnreadableLine`."""
    record = read_line(line)
    if record is None:
        if _OTHER_KINDS.match(line):
            return None
        raise UnreadableLine
    times = (record.at, observed_at(record) or 0)
    if record.network not in NETWORKS or not all(0 <= at <= _LAST_MS for at in times):
        raise UnreadableLine
    return record
