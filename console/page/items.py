"""The way of each item, drawn from the lake's events: at which station it is, and by which decisions it came there."""

from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from enum import StrEnum

from clarion.channels import Channel
from clarion.decisions import EnvelopeDecision, NotificationDecision, PushDecision
from clarion.events import EnvelopeDecided, EnvelopeObserved, NotificationDecided
from console.output import Report
from console.tracks import Found, TracedEvent, Tracks, id_of, observed_at, read_line
from console.why import OBSERVED

KEPT_ITEMS = 2_000


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
    """The newest items, by their keys."""

    def __init__(self) -> None:
        self._tracks: OrderedDict[str, Tracks] = OrderedDict()

    def add(self, lines: Iterable[bytes]) -> list[PageItem]:
        """Those that these lines of the lake change."""
        changed: dict[str, None] = {}
        for line in lines:
            record = read_line(line)
            if record is not None and (key := _key(record)):
                self._of(key, record).add(Found([record], 0))
                changed[key] = None
        return [_item(key, self._tracks[key].records) for key in changed if key in self._tracks]

    def tracks(self, key: str) -> Tracks | None:
        return self._tracks.get(key)

    def _of(self, key: str, record: TracedEvent) -> Tracks:
        if key not in self._tracks:
            self._tracks[key] = Tracks(bytes.fromhex(key) if _has_envelope(record) else record.receipt.bytes)
            if len(self._tracks) > KEPT_ITEMS:
                self._tracks.popitem(last=False)
        return self._tracks[key]


def _item(key: str, records: Sequence[TracedEvent]) -> PageItem:
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
        marks=_marks(records),
    )


def _marks(records: Iterable[TracedEvent]) -> list[Mark]:
    """A crowd's decisions come as one mark for each word and channel, with the time of the first."""
    words = [(_word(one), getattr(one, "channel", None)) for one in records]
    counts, made = Counter(words), dict[tuple[str, Channel | None], Mark]()
    for one, known in zip(records, words, strict=True):
        if known not in made:
            word, channel = known
            station, fate = STATIONS[word]
            at = one.observed_at if isinstance(one, EnvelopeObserved) else one.at
            made[known] = Mark(word=word, station=station, fate=fate, at=at, channel=channel, count=counts[known])
    return sorted(made.values(), key=lambda mark: (_ORDER[mark.station], mark.at))


def _word(record: TracedEvent) -> str:
    return OBSERVED if isinstance(record, EnvelopeObserved) else str(record.decision)


def _has_envelope(record: TracedEvent) -> bool:
    return isinstance(record, EnvelopeObserved) or record.envelope_id is not None


def _key(record: TracedEvent) -> str | None:
    """None for an observed envelope whose bytes lie elsewhere: what is decided of it names it."""
    if isinstance(record, EnvelopeObserved):
        envelope_id = id_of(record.network, record.raw) if record.raw is not None else None
        return envelope_id.hex() if envelope_id else None
    if record.envelope_id is not None:
        return record.envelope_id.hex()
    return record.receipt.hex
