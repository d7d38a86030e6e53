"""What other tasks are to forward, as it was shown, until they say that they have delivered it.

    another's ──▶ held ─┬─ its owner has delivered what it was shown by then ────────────▶ remembered as handled
                        └─ its owner is not at work any more, or its shard is ours now ──▶ taken in

Its owner is the task that owned its shard when it came: of one that owns the shard since, nobody knows whether it was
shown it. It is held some time longer than its owner says, since the two may be shown it at different times; but no
longer than said once half of its source's share is taken. Beyond that share nothing is held: it is taken in as if it
were our own.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ingest.delivery.outbox import Budget
from ingest.delivery.outgoing import OutgoingCommand
from ingest.filter.fingerprints import Fingerprint
from ingest.lease.shards import Shards
from ingest.memory.initial_replay import Replay
from ingest.sources.feed import Feed

_OVERHEAD_BYTES = 250


class Reception(NamedTuple):
    """What envelopes that are received together have in common: `replay` is None if they are live."""

    feed: Feed
    observed_at: int
    replay: Replay | None


class ReceivedEnvelope(NamedTuple):
    """One that is not decoded yet. A tuple, as one may be made of each that is shown."""

    fingerprint: Fingerprint
    raw: bytes
    reception: Reception

    @property
    def observed_at(self) -> int:
        return self.reception.observed_at

    @property
    def source(self) -> int:
        return self.reception.feed.number

    @property
    def held_size(self) -> int:
        """Bytes that it takes up here, roughly."""
        return len(self.raw) + _OVERHEAD_BYTES


type Held = ReceivedEnvelope | OutgoingCommand


class Standby:
    """`overlap_ms`: how much longer something is held than its owner says."""

    def __init__(self, shards: Shards, budget: Budget, overlap_ms: int) -> None:
        self._shards = shards
        self._budget = budget
        self._overlap_ms = overlap_ms
        self._held: defaultdict[str | None, dict[Fingerprint, Held]] = defaultdict(dict)
        """By owner, in the order of observation."""

    def __len__(self) -> int:
        return sum(map(len, self._held.values()))

    def hold(self, one: Held) -> bool:
        """Hold what is another task's, if there is space; whether it is held now."""
        held, share = self._held[self._shards.owner_of(one.fingerprint)], self._budget[one.source]
        if one.fingerprint in held:
            return True
        if share.full:
            return False
        share.take(one.held_size)
        held[one.fingerprint] = one
        return True

    def show_again(self, fingerprint: Fingerprint, reception: Reception) -> bool:
        """Whether it is held. If it is live by now, that counts, as it does not if it is replayed once more."""
        held = self._held[self._shards.owner_of(fingerprint)]
        if (before := held.get(fingerprint)) is None:
            return False
        if isinstance(before, ReceivedEnvelope) and reception.replay is None:
            held[fingerprint] = before._replace(reception=before.reception._replace(replay=None))
        return True

    def take_own(self) -> Iterator[Held]:
        """Take out what has become this task's, and what no task at work answers for."""
        shards = self._shards
        for owner, held in tuple(self._held.items()):
            is_gone = bool(shards.tasks) and owner not in shards.tasks
            for fingerprint in tuple(held):
                if is_gone or shards.owns(fingerprint):
                    yield self._take(held, fingerprint)
            if not held:
                del self._held[owner]

    def take_delivered(self, delivered_through: Callable[[str], int]) -> Iterator[Held]:
        """Take out what its owner has delivered, as `delivered_through` says for each, in UNIX milliseconds."""
        for owner, held in tuple(self._held.items()):
            through = delivered_through(owner) if owner else 0
            for one in tuple(held.values()):
                observed_at = one.observed_at
                if observed_at >= through:
                    break
                if observed_at < through - self._overlap_ms or self._budget[one.source].crowded:
                    yield self._take(held, one.fingerprint)

    def _take(self, held: dict[Fingerprint, Held], fingerprint: Fingerprint) -> Held:
        one = held.pop(fingerprint)
        self._budget[one.source].give_back(one.held_size)
        return one
