"""Follow one envelope through the lake: all that was observed, decided and tried of it, going back day by day."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from clarion.events import EnvelopeDecided, EnvelopeObserved, NotificationDecided, PushTried
from clarion.networks import Malformed, network
from pipeline.explain.cases import ObservedReceipt
from pipeline.lake.files import read_bytes
from pipeline.lake.lookup import Lookup
from pipeline.lake.snapshots import CLAIMS, day_of, snapshot_days
from pipeline.period import CLOCK_SKEW_MS, DAY_MS, Period, arrivals

LOOKBACK_MS = 7 * DAY_MS
"""How far before a period claims without a snapshot are looked for."""


@dataclass
class Trail:
    """What the lake has of one envelope; `searched` is how far back it was looked for."""

    searched: Period
    observed: list[EnvelopeObserved] = field(default_factory=list)
    decided: list[EnvelopeDecided] = field(default_factory=list)
    notified: list[NotificationDecided] = field(default_factory=list)
    pushed: list[PushTried] = field(default_factory=list)

    @property
    def receipts(self) -> list[UUID]:
        """In the order in which they were observed."""
        began = self._observed_at
        kinds = (self.observed, self.decided, self.notified, self.pushed)
        every = dict.fromkeys(one.receipt for kind in kinds for one in kind)
        return sorted(every, key=lambda receipt: began.get(receipt, 0))

    @property
    def _observed_at(self) -> dict[UUID, int]:
        return {one.receipt: one.observed_at for kind in (self.decided, self.observed) for one in kind}

    @property
    def began_at(self) -> int | None:
        """When it was first observed; None as long as that isn't known of each receipt."""
        began = {one.receipt: one.at - one.latency_ms for one in self.pushed} | self._observed_at
        return min(began.values(), default=None) if began.keys() >= set(self.receipts) else None

    @property
    def envelope_ids(self) -> set[bytes]:
        named = {one.envelope_id for kind in (self.decided, self.notified) for one in kind if one.envelope_id}
        decided = {one.receipt for one in self.decided}
        return named.union(filter(None, (id_of(one) for one in self.observed if one.receipt not in decided)))

    def only(self, subscriptions: Collection[UUID]) -> "Trail":
        """What it says of these."""
        notified = [one for one in self.notified if one.subscription_id in subscriptions]
        pushed = [one for one in self.pushed if one.subscription_id in subscriptions]
        return replace(self, notified=notified, pushed=pushed)

    def is_complete(self, since: int) -> bool:
        """Whether nothing that arrived before `since` can be of it."""
        if self.began_at is None:
            return False
        return arrivals(Period(self.began_at - CLOCK_SKEW_MS, since), since).start >= since


def follow_envelope(lookup: Lookup, envelope_id: bytes, period: Period) -> Trail:
    """By its id, from the youngest day on. One that was never decided is known by its bytes alone."""
    trail = Trail(period)
    for day in days_back(period):
        trail.decided += lookup.find(EnvelopeDecided, "envelope_id", {envelope_id}, day)
        trail.notified += lookup.find(NotificationDecided, "envelope_id", {envelope_id}, day)
        trail.pushed += lookup.find(PushTried, "envelope_id", {envelope_id}, day)
        if trail.is_complete(day.start):
            trail.searched = Period(day.start, period.end)
            break
    trail.notified += _earlier(lookup, {envelope_id}, trail.searched)
    if trail.receipts:
        trail.observed = lookup.find(EnvelopeObserved, "receipt", trail.receipts, trail.searched)
    else:
        trail.observed = [one for one in undecided(lookup, period) if id_of(one) == envelope_id]
    return trail


def follow_receipt(lookup: Lookup, receipt: UUID, period: Period) -> Trail:
    """With the other receipts of the same envelope that were decided, from the day on which this one was observed."""
    for day in days_back(period):
        observed = lookup.find(EnvelopeObserved, "receipt", {receipt}, day)
        decided = lookup.find(EnvelopeDecided, "receipt", {receipt}, day)
        ids = {one.envelope_id for one in decided if one.envelope_id} or set(filter(None, map(id_of, observed)))
        if ids:
            trail = follow_envelope(lookup, ids.pop(), period)
            # One that was never decided is among the others only if none of them was.
            trail.observed += [one for one in observed if one not in trail.observed]
            return trail
        if observed or decided:
            return Trail(Period(day.start, period.end), observed, decided)
    return Trail(period)


def undecided(lookup: Lookup, arrived: Period) -> list[EnvelopeObserved]:
    """What was observed and never decided: few, unless there was an outage."""
    decided = set(lookup.receipts(EnvelopeDecided, arrived))
    left = [UUID(receipt) for receipt in lookup.receipts(EnvelopeObserved, arrived) if receipt not in decided]
    return lookup.find(EnvelopeObserved, "receipt", left, arrived)


def days_back(period: Period) -> Iterator[Period]:
    """The days in it, the youngest first."""
    start = (period.end - 1) // DAY_MS * DAY_MS
    end = period.end
    while end > period.start:
        yield Period(max(start, period.start), end)
        start, end = start - DAY_MS, start


def id_of(observed: EnvelopeObserved) -> bytes | None:
    """By its bytes; None of what is no envelope, and of one that lies elsewhere."""
    if observed.raw is None:
        return None
    try:
        return network(observed.network).decode(observed.raw).id
    except Malformed:
        return None


def follow_subscriptions(lookup: Lookup, ids: Collection[UUID], keys: Collection[bytes], period: Period) -> Trail:
    """All that was decided and tried for some subscriptions in a period, and all that was observed of their rules' keys.

    Whoever holds the claim of a duplicate may have got it before the period.
    """
    trail = Trail(period)
    trail.notified = lookup.find(NotificationDecided, "subscription_id", ids, period)
    trail.pushed = lookup.find(PushTried, "subscription_id", ids, period)
    named = set(lookup.observed_naming(keys, period))
    receipts = named | {one.receipt for one in trail.notified}
    trail.observed = lookup.find(EnvelopeObserved, "receipt", receipts, period)
    trail.decided = lookup.find(EnvelopeDecided, "receipt", receipts, period)
    trail.notified += [one for one in _earlier(lookup, trail.envelope_ids, period) if one.subscription_id in ids]
    return trail


def _earlier(lookup: Lookup, envelope_ids: Collection[bytes], period: Period) -> Iterator[NotificationDecided]:
    """What may hold a claim on these envelopes, of the days before a period whose claims are in no snapshot."""
    kept = snapshot_days(lookup.root, CLAIMS)
    for day in days_back(Period(period.start - LOOKBACK_MS, period.start)):
        if day_of(day.start) not in kept:
            yield from lookup.find(NotificationDecided, "envelope_id", envelope_ids, day)


def observations(trail: Trail, oversize: str | None) -> list[ObservedReceipt]:
    """One for each receipt of which the envelope was observed or decided, in order."""
    observed = {one.receipt: one for one in trail.observed}
    decided: dict[UUID, list[EnvelopeDecided]] = {}
    for one in trail.decided:
        decided.setdefault(one.receipt, []).append(one)
    known = [receipt for receipt in trail.receipts if receipt in observed or receipt in decided]
    return [_observation(observed.get(receipt), decided.get(receipt, []), oversize) for receipt in known]


def _observation(
    observed: EnvelopeObserved | None, decided: Sequence[EnvelopeDecided], oversize: str | None
) -> ObservedReceipt:
    """The bytes of one that was too large for a message lie below `oversize`, for some days."""
    raw = observed.raw if observed else None
    if observed and observed.location and oversize:
        raw = read_bytes(oversize, observed.location)
    return ObservedReceipt.of(observed, decided, raw)
