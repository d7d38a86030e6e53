"""The statements that were handled or are in hand, by fingerprint: what makes each be handled once.

    shown ──add──▶ in hand ──handled──▶ recorded
                                            │ journal ──▶ a delta every few seconds
                                            └ snapshot ──▶ a base now and then

Only what was handled is recorded. A crash forgets what was in hand, and the next replay shows it again.
"""

import asyncio
from array import array

from ingest.fingerprints import Fingerprint, Fingerprints

_HEADER = b"clarion seen 1\n\0"
_LOADED_AT_ONCE = 20_000
_CROWDED = 0.75


class UnreadableRecordError(ValueError):
    """What was saved isn't what this program saves."""


class Seen:
    """At most `limit` fingerprints. Beyond, it learns no more, so that a flood makes duplicates but no forgetting."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known = Fingerprints()
        self._in_hand: set[Fingerprint] = set()
        self._journal = array("q")
        self.size = 0
        """Kept beside the set, which would have to count."""

    @property
    def crowded(self) -> bool:
        """Whether it is time to forget what the nodes no longer hold."""
        return self.size > self._limit * _CROWDED

    def add(self, statement: Fingerprint) -> bool:
        """Take `statement` in hand unless it is known; whether it was new."""
        if self.size >= self._limit and statement not in self._known:
            return True
        if not self._known.add(statement):
            return False
        self.size += 1
        self._in_hand.add(statement)
        return True

    def handled(self, statement: Fingerprint) -> None:
        self._in_hand.discard(statement)
        self._journal.append(statement)

    def begin_round(self) -> None:
        self._known.begin_round()

    async def forget(self) -> int:
        """Forget what was not shown since the round began, except for what is in hand; how many that were."""
        for statement in self._in_hand:
            self._known.add(statement)
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
