"""The statements that were handled or are in hand, by fingerprint: what makes each be handled once.

    shown ──add──▶ in hand ──handled──▶ recorded
                                            │ journal ──▶ a delta every few seconds
                                            └ snapshot ──▶ a base now and then

Only what was handled is recorded. A crash forgets what was in hand, and the next replay shows it again.

    limit  ├────────── shared: verified ──────────┼── node 1 ──┼── node 2 ──┤

A statement takes room in the share of the node that showed it first. Beyond that share it has to be verified, and takes
shared room. So a node that makes statements up can fill its own share, and no other node's.
"""

import asyncio
from array import array

from ingest.fingerprints import Fingerprint, Fingerprints

_HEADER = b"clarion seen 1\n\0"
_LOADED_AT_ONCE = 20_000
_CROWDED = 0.75


class UnreadableRecordError(ValueError):
    """What was saved isn't what this program saves."""


SHARED = 0
"""In place of a node's number, which is from 1 on: the room for what is verified, or comes from a record."""


class Seen:
    """At most `limit` fingerprints. Beyond, it learns no more, so that a flood makes duplicates but no forgetting."""

    def __init__(self, limit: int, nodes: int = 1) -> None:
        self._limit = limit
        self._nodes = nodes
        self._known = Fingerprints()
        self._in_hand: set[Fingerprint] = set()
        self._journal = array("q")
        self.size = 0
        """Kept beside the set, which would have to count."""

    @property
    def crowded(self) -> bool:
        """Whether it is time to forget what the nodes no longer hold."""
        return self.size > self._limit * _CROWDED

    def refresh(self, statement: Fingerprint) -> bool:
        """Whether `statement` is known; it is not forgotten at this round's end then."""
        return self._known.refresh(statement)

    def add(self, statement: Fingerprint, node: int) -> bool:
        """Take in hand a `statement` that is not known, if there is room in the share of `node`; whether there is."""
        if self._known.owned[node] >= self._share(node) or self.size >= self._limit:
            return False
        self._known.insert(statement, node)
        self.size += 1
        self._in_hand.add(statement)
        return True

    def handled(self, statement: Fingerprint) -> None:
        """Record it, if it is in hand."""
        if statement in self._in_hand:
            self._in_hand.remove(statement)
            self._journal.append(statement)

    def _share(self, node: int) -> int:
        shared = self._limit // 2
        if node == SHARED:
            return shared
        return (self._limit - max(shared, self._known.owned[SHARED])) // self._nodes

    def begin_round(self) -> None:
        self._known.begin_round()

    async def forget(self) -> int:
        """Forget what was not shown since the round began, except for what is in hand; how many that were."""
        for statement in self._in_hand:
            self._known.refresh(statement)
        forgotten = 0
        for count in self._known.sweep():
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
        statements = array("q")
        if not content.startswith(_HEADER) or (len(content) - len(_HEADER)) % statements.itemsize:
            raise UnreadableRecordError("not a record of seen statements")
        statements.frombytes(content[len(_HEADER) :])
        for start in range(0, len(statements), _LOADED_AT_ONCE):
            for statement in statements[start : start + _LOADED_AT_ONCE]:
                self.size += self._known.add(statement)
            await asyncio.sleep(0)
