"""The envelopes that were handled or are in hand, by fingerprint: what makes each be handled once.

    shown ──add──▶ in hand ──handled──▶ recorded
                                            │ journal ──▶ a delta now and then
                                            └ snapshot ──▶ a base less often

Only what was handled is recorded. A crash forgets what was in hand, and the next replay shows it again.

    limit  ├────────── shared: verified ──────────┼── source 1 ──┼── source 2 ──┤

An envelope takes space in the share of the source that showed it first. Beyond that share it has to be verified, and
takes shared space. So a source that makes envelopes up can fill its own share, and no other's. What can't be verified,
because its network signs nothing, is not remembered beyond that share.
"""

import asyncio
from array import array
from collections.abc import Collection

from ingest.filter.fingerprints import NETWORKS, Fingerprint, Fingerprints

_HEADER = b"clarion seen 2\n\0"
_LOADED_AT_ONCE = 20_000
_CROWDED = 0.75


class UnreadableRecordError(ValueError):
    """What was saved isn't what this program saves."""


SHARED = 0
"""In place of a source's number, which is from 1 on: the share of what is verified, or comes from a record."""


class SeenEnvelopes:
    """At most `limit` fingerprints. Beyond, it learns no more, so that a flood makes duplicates but no forgetting."""

    def __init__(self, limit: int, sources: int = 1) -> None:
        self._limit = limit
        self._sources = sources
        self._known = Fingerprints()
        self._in_hand: set[Fingerprint] = set()
        self._journal = array("q")
        self.size = 0
        """Kept beside the set, which would have to count."""

    @property
    def crowded(self) -> bool:
        """Whether it is time to forget what the sources no longer hold."""
        return self.size > self._limit * _CROWDED

    def count_of(self, network: int) -> int:
        """How many envelopes of the network with this number are known."""
        return self._known.of_network[network]

    def refresh(self, envelope: Fingerprint) -> bool:
        """Whether `envelope` is known; it is not forgotten at this round's end then."""
        return self._known.refresh(envelope)

    def add(self, envelope: Fingerprint, source: int) -> bool:
        """Take in hand an `envelope` that is not known, if there is space in the share of `source`; whether there is."""
        if not self._has_space(source):
            return False
        self._known.insert(envelope, source)
        self.size += 1
        self._in_hand.add(envelope)
        return True

    def handled(self, envelope: Fingerprint) -> None:
        """Record it, if it is in hand."""
        if envelope in self._in_hand:
            self._in_hand.remove(envelope)
            self._journal.append(envelope)

    def remember(self, envelope: Fingerprint, source: int) -> None:
        """Record what another task has handled, if it isn't known and there is space in the share of `source`."""
        if not self.refresh(envelope) and self._has_space(source):
            self._known.insert(envelope, source)
            self.size += 1
            self._journal.append(envelope)

    def _has_space(self, source: int) -> bool:
        return self._known.owned[source] < self._share(source) and self.size < self._limit

    def _share(self, source: int) -> int:
        shared = self._limit // 2
        if source == SHARED:
            return shared
        return (self._limit - max(shared, self._known.owned[SHARED])) // self._sources

    def begin_round(self, networks: Collection[int] = NETWORKS) -> None:
        self._known.begin_round(networks)

    async def forget(self, networks: Collection[int] = NETWORKS) -> int:
        """Forget what of `networks` was not shown since their round began, except for what is in hand; how many that were."""
        for envelope in self._in_hand:
            self._known.refresh(envelope)
        forgotten = 0
        for count in self._known.sweep(networks):
            forgotten += count
            self.size -= count
            await asyncio.sleep(0)
        return forgotten

    def delta(self) -> bytes:
        """What was handled and isn't `saved` yet; empty if nothing was."""
        return _HEADER + self._journal.tobytes() if self._journal else b""

    def saved(self, delta: bytes) -> None:
        """`delta` need not be given out again."""
        if delta:
            del self._journal[: (len(delta) - len(_HEADER)) // self._journal.itemsize]

    async def snapshot(self) -> bytes:
        """All that was handled. What is being handled meanwhile is in the deltas from now on."""
        content = bytearray(_HEADER)
        for segment in self._known.segments():
            content += array("q", [one for one in segment if one not in self._in_hand]).tobytes()
            await asyncio.sleep(0)
        return bytes(content)

    async def load(self, content: bytes) -> None:
        """Take up a snapshot or a delta. Raise `UnreadableRecordError`."""
        envelopes = array("q")
        if not content.startswith(_HEADER) or (len(content) - len(_HEADER)) % envelopes.itemsize:
            raise UnreadableRecordError("not a record of seen envelopes")
        envelopes.frombytes(content[len(_HEADER) :])
        for start in range(0, len(envelopes), _LOADED_AT_ONCE):
            for envelope in envelopes[start : start + _LOADED_AT_ONCE]:
                self.size += self._known.add(envelope)
            await asyncio.sleep(0)
